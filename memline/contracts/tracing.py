"""Traces: one trace follows a turn from `add` to the index. Nothing is recorded until a process installs a tracer (`use`).

A context travels as a W3C `traceparent` string: in the stream entry, the job row and the outbox row. It is kept there only while a trace
is being recorded. Attributes are ids, stages, counts and durations; never a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Traced", "Tracer", "Value", "current", "each", "inner", "note", "span", "span_of", "use"]

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Traced:
    """One of several things done at a time, each in its own trace: the `traceparent` of its parent, and what is told of it alone."""

    parent: str
    attributes: Mapping[str, Value]


class Tracer(Protocol):
    """Records spans. Thread-safe; raises nothing of its own."""

    def span(self, name: str, parent: str | None, attributes: Mapping[str, Value]) -> AbstractContextManager[None]:
        """A span around a block, which is the current one inside."""
        ...

    def each(
        self, name: str, traced: Mapping[str, Traced], attributes: Mapping[str, Value], *, alone: bool
    ) -> AbstractContextManager[Mapping[str, str]]:
        """A span a key of *traced*, all around one block; the `traceparent` of each. *alone*: the only one is the current one inside."""
        ...

    def note(self, attributes: Mapping[str, Value]) -> None:
        """Adds to the current span."""
        ...

    def current(self) -> str | None:
        """The `traceparent` of the current span; None where there is none, or it is not recorded."""
        ...


_tracer: Tracer | None = None
_inside: ContextVar[Mapping[str, str] | None] = ContextVar("memline_traces", default=None)


def use(tracer: Tracer | None) -> None:
    """Installs what records the spans of this process; None: nothing is recorded."""
    global _tracer
    _tracer = tracer


def current() -> str | None:
    """The `traceparent` of the span around, to travel with what is handed on; None where nothing is recorded."""
    return None if _tracer is None else _tracer.current()


def note(**attributes: Value) -> None:
    """Tells more of the span around."""
    if _tracer is not None:
        _tracer.note(attributes)


@contextmanager
def span(name: str, *, parent: str | None = None, **attributes: Value) -> Iterator[None]:
    """A span around a block, a child of *parent* (a `traceparent`; None: of the span around, or the first of a trace)."""
    if _tracer is None:
        yield
        return
    with _tracer.span(name, parent, attributes):
        yield


@contextmanager
def inner(name: str, **attributes: Value) -> Iterator[None]:
    """A span around a block, where there is one around it: it begins no trace."""
    if _tracer is None or _tracer.current() is None:
        yield
        return
    with _tracer.span(name, None, attributes):
        yield


@contextmanager
def each(name: str, parents: Mapping[str, str | None], *, key: str = "job", **attributes: Value) -> Iterator[None]:
    """A span for each of several things (key -> `traceparent`, None: not traced) around one block that does them together.

    `span_of(key, …)` inside the block, also in a thread with a copy of its context, makes a child of a thing's span. What *key* names
    is an attribute of a thing's span, and their number is `batch_size`. A thing that is done alone has its span as the current one; of
    several none has, or what is done for the others would be in its trace.
    """
    traced = {} if _tracer is None else {thing: Traced(parent, {key: thing}) for thing, parent in parents.items() if parent is not None}
    if _tracer is None or not traced:
        yield
        return
    with _tracer.each(name, traced, {"batch_size": len(parents), **attributes}, alone=len(parents) == 1) as inside:
        token = _inside.set(inside)
        try:
            yield
        finally:
            _inside.reset(token)


@contextmanager
def span_of(key: str, name: str, **attributes: Value) -> Iterator[None]:
    """A span inside the one that `each` made for *key*; nothing where it made none."""
    parent = None if _tracer is None else (_inside.get() or {}).get(key)
    if _tracer is None or parent is None:
        yield
        return
    with _tracer.span(name, parent, attributes):
        yield
