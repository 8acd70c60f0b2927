"""Traces: one trace follows a turn from `add` to the index. Nothing is recorded until a process installs a tracer (`use`).

A context travels as a W3C `traceparent` string: in the stream entry, the job row and the outbox row. Attributes are ids, stages, counts and
durations; never a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

__all__ = ["Tracer", "current", "span", "use"]

Value = str | int | float | bool


class Tracer(Protocol):
    """Records spans. Thread-safe; raises nothing of its own."""

    def span(self, name: str, parent: str | None, links: tuple[str, ...], attributes: dict[str, Value]) -> AbstractContextManager[None]: ...

    def current(self) -> str | None: ...


_tracer: Tracer | None = None


def use(tracer: Tracer | None) -> None:
    """Installs what records the spans of this process; None: nothing is recorded."""
    global _tracer
    _tracer = tracer


def current() -> str | None:
    """The `traceparent` of the span around, to travel with what is handed on; None where nothing is recorded."""
    return None if _tracer is None else _tracer.current()


@contextmanager
def span(name: str, *, parent: str | None = None, links: tuple[str, ...] = (), **attributes: Value) -> Iterator[None]:
    """A span around a block, a child of *parent* (a `traceparent`; None: of the span around)."""
    if _tracer is None:
        yield
        return
    with _tracer.span(name, parent, links, attributes):
        yield
