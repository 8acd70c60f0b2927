"""What Sentry may be told: everything that leaves goes through here, and only what is on these lists passes.

An error report is ids, classes, places and counts. The words of an exception pass only where memline wrote them, since those are free of
content by contract. No local variable, source line, argument, header, body, user, SQL parameter or log value of another package passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memline.contracts.about import about_of

__all__ = ["TAGS", "scrub_breadcrumb", "scrub_event", "scrub_transaction"]

#: What a report is tagged with.
TAGS = ("job", "jobs", "stage", "namespace", "lease", "loop", "reason", "where", "role", "tries")

_EVENT = (
    "event_id", "type", "timestamp", "start_timestamp", "platform", "level", "logger", "release", "environment", "server_name", "sdk",
    "fingerprint",
)  # fmt: skip
_CHECK_IN = (
    "event_id", "type", "timestamp", "platform", "release", "environment", "check_in_id", "monitor_slug", "monitor_config", "status",
    "duration", "sdk",
)  # fmt: skip
_FRAME = ("filename", "function", "module", "lineno", "in_app", "platform")
_MECHANISM = ("type", "handled", "exception_id", "parent_id", "source", "is_exception_group")
_TRACE = ("trace_id", "span_id", "parent_span_id", "op", "origin", "status")
_SPAN = (*_TRACE, "start_timestamp", "timestamp", "same_process_as_parent")
_CRUMB = ("type", "category", "level", "timestamp")
#: The longest tag; Sentry cuts there, too.
_LONGEST = 200

_OWN_ERRORS = "memline.contracts.errors"

_Event = dict[str, Any]


def scrub_event(event: _Event, hint: Mapping[str, Any]) -> _Event:
    """An event, or a check-in, with nothing but what may be told; tagged with what was at hand where its error was raised."""
    if event.get("type") == "check_in":
        return _only(event, _CHECK_IN)
    kept = _only(event, _EVENT)
    kept["tags"] = _tags(event, hint)
    kept["contexts"] = _contexts(event)
    if isinstance(event.get("transaction"), str) and event["transaction"].startswith("memline."):
        kept["transaction"] = event["transaction"]
    if event.get("logger") == "memline" and "logentry" in event:
        kept["logentry"] = {"message": event["logentry"]["message"]}  # written in telemetry.sentry
    if "exception" in event:
        kept["exception"] = {"values": [_exception(value) for value in _values(event["exception"])]}
    if "breadcrumbs" in event:
        kept["breadcrumbs"] = {"values": [scrub_breadcrumb(crumb, {}) for crumb in _values(event["breadcrumbs"])]}
    return kept


def scrub_transaction(event: _Event, hint: Mapping[str, Any]) -> _Event:
    """A transaction: times by operation; of SQL the statement, whose values are never part of it, of Redis the command's name."""
    kept = scrub_event(event, hint)
    kept["spans"] = [_span(span) for span in event.get("spans") or ()]
    return kept


def scrub_breadcrumb(crumb: _Event, _hint: Mapping[str, Any]) -> _Event:
    """Where something happened and when; the words only of memline's own loggers."""
    kept = _only(crumb, _CRUMB)
    if str(crumb.get("category", "")).split(".")[0] == "memline" and isinstance(crumb.get("message"), str):
        kept["message"] = crumb["message"]
    return kept


def _only(found: Mapping[str, Any], names: tuple[str, ...]) -> _Event:
    return {name: found[name] for name in names if name in found}


def _values(found: Any) -> list[_Event]:
    values = found.get("values", ()) if isinstance(found, Mapping) else found
    return [value for value in values or () if isinstance(value, dict)]


def _tags(event: _Event, hint: Mapping[str, Any]) -> dict[str, str]:
    exc_info = hint.get("exc_info")
    told: dict[str, Any] = dict(about_of(exc_info[1])) if exc_info else {}
    task = (event.get("extra") or {}).get("celery-job")
    if isinstance(task, Mapping) and str(task.get("task_name", "")).startswith("memline."):
        told.setdefault("stage", str(task["task_name"]).removeprefix("memline."))
    told |= event.get("tags") or {}
    return {name: str(told[name])[:_LONGEST] for name in TAGS if name in told}


def _contexts(event: _Event) -> _Event:
    contexts = event.get("contexts") or {}
    found = {"trace": _only(contexts.get("trace") or {}, _TRACE), "runtime": _only(contexts.get("runtime") or {}, ("name", "version"))}
    return {name: context for name, context in found.items() if context}


def _exception(value: _Event) -> _Event:
    kept = _only(value, ("type", "module", "thread_id"))
    if value.get("module") == _OWN_ERRORS:
        kept["value"] = str(value.get("value") or "").split("\n", 1)[0]  # what follows may be notes that somebody else added
    if isinstance(value.get("mechanism"), Mapping):
        kept["mechanism"] = _only(value["mechanism"], _MECHANISM)
    frames = (value.get("stacktrace") or {}).get("frames")
    if frames:
        kept["stacktrace"] = {"frames": [_only(frame, _FRAME) for frame in frames]}
    return kept


def _span(span: _Event) -> _Event:
    kept = _only(span, _SPAN)
    words = span.get("description")
    if isinstance(words, str) and words and span.get("op") == "db":
        kept["description"] = words
    elif isinstance(words, str) and words and span.get("op") == "db.redis":
        kept["description"] = words.split()[0]
    return kept
