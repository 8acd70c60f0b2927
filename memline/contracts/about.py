"""What the work at hand is about, for whoever tells of it: ids, stage, namespace and counts; never a text.

`about(…)` sets it for a block (and for what the block calls in this thread; a thread that is started gets it with a copied context).
A log line, an error report and a trace read it from here. An exception that leaves the block takes it along (`about_of`).
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

__all__ = ["FIELDS", "Value", "about", "about_of", "at_hand", "is_ours", "line_of", "told"]

Value = str | int | float | bool

#: The attribute of a log record that holds what `told` was given, and of an exception that holds what was at hand.
FIELDS = "memline_about"

#: Where memline's modules lie. Not any folder of that name: an environment in /srv/memline holds everybody's.
_HOUSE = str(Path(__file__).absolute().parents[1]) + os.sep

_NOTHING: Mapping[str, Value] = {}
_at_hand: ContextVar[Mapping[str, Value]] = ContextVar("memline_about", default=_NOTHING)


@contextmanager
def about(**fields: Value | None) -> Iterator[None]:
    """What the block is about, beside what is known around it. A field that is None is left out."""
    known = {**_at_hand.get(), **{name: value for name, value in fields.items() if value is not None}}
    token = _at_hand.set(known)
    try:
        yield
    except Exception as error:
        if not hasattr(error, FIELDS):  # the innermost block knows most
            error.__dict__[FIELDS] = known
        raise
    finally:
        _at_hand.reset(token)


def at_hand() -> Mapping[str, Value]:
    """What this thread is about now."""
    return _at_hand.get()


def about_of(error: BaseException | None) -> Mapping[str, Value]:
    """What was at hand where *error* was raised; empty where that is not known."""
    found = getattr(error, FIELDS, _NOTHING)
    return found if isinstance(found, dict) else _NOTHING


def is_ours(filename: str) -> bool:
    """Whether a source file is one of memline's."""
    return filename.startswith(_HOUSE)


def line_of(error: BaseException) -> str | None:
    """`file:line in function` where *error* was raised: of the innermost frame of memline's, or else of the innermost one.

    No line of code, no value: those may hold a text.
    """
    frames = traceback.extract_tb(error.__traceback__, limit=-50) if error.__traceback__ is not None else traceback.StackSummary()
    ours = [frame for frame in frames if is_ours(frame.filename)] or list(frames)
    return f"{'/'.join(ours[-1].filename.split('/')[-3:])}:{ours[-1].lineno} in {ours[-1].name}" if ours else None


def told(**fields: Value | None) -> dict[str, dict[str, Value]]:
    """Fields of one log line: `_log.info("stage done", extra=told(jobs=3))`. A field that is None is left out."""
    return {FIELDS: {name: value for name, value in fields.items() if value is not None}}
