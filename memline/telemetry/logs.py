"""Logs of a process of memline's own: one line an event, to read or as JSON, with what it is about; never the text of a message.

Loggers of memline say what they say; their messages are free of content by rule. Celery and kombu know ids only: of their lines the
wording is kept, and of the values in it numbers and what is on a list. Of all others warnings are told, by their wording alone where it
takes values, else by the place. An exception is told by its class and place, and by its words only where memline wrote them.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO

from memline.contracts.about import FIELDS, Value, about_of, at_hand, is_ours, line_of
from memline.contracts.errors import MemlineError

__all__ = ["JsonLines", "TextLines", "event_of", "install"]

#: Loggers whose wording holds no content: they are told no text.
_KNOWN = ("celery", "kombu", "billiard")

#: Values by name in Celery's lines that are its own words.
_TELLABLE = frozenset({"id", "name", "hostname", "description", "runtime", "retries", "eta", "queue"})

#: Ends of lines that JSON leaves as they are.
_ENDS = str.maketrans({char: f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"})

_Line = dict[str, Any]
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class JsonLines(logging.Formatter):
    """`{"time", "level", "logger", "event", …what it is about, "error": {"type", "at", "message"}}`, one line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_line(record), ensure_ascii=False, separators=(", ", ": "), default=str).translate(_ENDS)


class TextLines(logging.Formatter):
    """`time LEVEL logger event  name=value …`, one line."""

    def format(self, record: logging.LogRecord) -> str:
        line = _line(record)
        head = f"{line.pop('time')} {line.pop('level').upper():<7} {line.pop('logger')}: {_one_line(line.pop('event'))}"
        error = line.pop("error", None)
        if error is not None:
            line |= {"error": error["type"], "at": error["at"]}
            if "message" in error:
                line["message"] = error["message"]
        return head + "".join(f" {name}={_shown(value)}" for name, value in line.items())


class _Lines(logging.StreamHandler[TextIO]):
    """Where logging's own handler prints a record that could not be shown with all its values, this one tells its place."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        place = f"{record.module}:{record.lineno}"
        with suppress(OSError, ValueError):  # the stream itself may be gone
            self.stream.write(f"a line of {record.name} at {place} could not be shown: {type(sys.exception()).__name__}\n")


def install(level: str, form: Literal["text", "json"], *, stream: TextIO | None = None) -> None:
    """Sends every line of this process to *stream* (stderr) in *form*; memline's and Celery's from *level* on, others from WARNING.

    For a process of memline's own: it takes the root logger, warnings and uncaught exceptions over, and Celery leaves them alone.
    """
    from celery.signals import setup_logging

    handler = _Lines(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("memline", *_KNOWN):
        logging.getLogger(name).setLevel(level.upper())
    setup_logging.connect(_leave_alone, weak=False, dispatch_uid="memline.logs")
    warnings.showwarning = _show_warning
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable


def event_of(record: logging.LogRecord) -> str:
    """What a record says, as far as it may be told."""
    if record.name == "memline" or record.name.startswith("memline."):
        return record.getMessage()
    known = record.name.partition(".")[0] in _KNOWN
    wording = str(record.msg)
    args: Any = record.args
    if not args:
        return wording if known else f"a message of {len(wording)} characters at {record.module}:{record.lineno}"
    if isinstance(args, Mapping):
        args = {name: _tellable(value, known and name in _TELLABLE) for name, value in args.items()}
    else:
        args = tuple(_tellable(value, False) for value in (args if isinstance(args, tuple) else (args,)))
    try:
        said: str = wording % args
    except (TypeError, ValueError, KeyError):  # a %d that was given no number: the wording tells enough
        return wording
    return said


def _line(record: logging.LogRecord) -> _Line:
    error = record.exc_info[1] if record.exc_info else None
    told = {**at_hand(), **about_of(error), **_fields(record)}
    line: _Line = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": event_of(record),
        **{name: value for name, value in told.items() if name not in ("time", "level", "logger", "event", "error")},
    }
    if error is not None:
        line["error"] = _error(error)
    return line


def _error(error: BaseException) -> dict[str, str | None]:
    found: dict[str, str | None] = {"type": type(error).__name__, "at": line_of(error)}
    return found | {"message": str(error)} if isinstance(error, MemlineError) else found


def _fields(record: logging.LogRecord) -> Mapping[str, Value]:
    found = getattr(record, FIELDS, None)
    return found if isinstance(found, dict) else {}


class _Hidden:
    """A value in a line of which only the type is told."""

    def __init__(self, value: object) -> None:
        self._shown = f"<{type(value).__name__}>"

    def __repr__(self) -> str:
        return self._shown


def _tellable(value: object, allowed: bool) -> object:
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    return value if allowed else _Hidden(value)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = _one_line(str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


def _one_line(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _leave_alone(**_told: object) -> None:
    """Celery sets up no logging where somebody listens to this signal."""


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None, line: str | None = None
) -> None:
    place = f"{'/'.join(filename.split('/')[-3:])}:{lineno}"
    if is_ours(filename):
        logging.getLogger("memline.warnings").warning("%s: %s (%s)", category.__name__, message, place)
    else:
        logging.getLogger("memline.warnings").warning("%s at %s", category.__name__, place)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("memline").critical("the process ends by an error that nothing caught", exc_info=(kind, error, trace))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and args.exc_type is not SystemExit:
        trace = (args.exc_type, args.exc_value, args.exc_traceback)
        logging.getLogger("memline").critical("a thread ends by an error that nothing caught", exc_info=trace)


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    error = args.exc_value
    trace = None if error is None else (args.exc_type, error, args.exc_traceback)
    logging.getLogger("memline").error("an error that could not be raised", exc_info=trace)
