"""Sentry: failed jobs (G13), errors that nobody gave, and a check-in a minute of each loop. What leaves is on the lists of `scrub`.

In a process of memline's own the SDK is set up with its integrations. In an application's process nothing of the application's is touched:
memline has a client of its own there, without integrations, that hears of failing searches and failed jobs alone.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from memline.contracts.about import about_of, at_hand
from memline.contracts.errors import ConfigurationError, MissingPackage
from memline.contracts.incidents import FailedJob
from memline.telemetry.scrub import scrub_breadcrumb, scrub_event, scrub_transaction

if TYPE_CHECKING:
    from sentry_sdk import Client

__all__ = ["SentryIncidents", "open_sentry"]

_log = logging.getLogger("memline.sentry")

#: Seconds between two check-ins of a loop, and between two reports of one error at one place.
CHECK_IN_EVERY, SAME_ERROR_EVERY = 60.0, 60.0

#: Failed jobs told in a minute, at most; the next one that is told says how many were not.
MOST_FAILED = 100

#: Minutes that a loop's check-in may be late, and that a round may take: those that work through a budget are given more.
_MARGIN, _RUNTIME = 2, 5
_LONG_MARGIN, _LONG_RUNTIME = 15, 30
_LONG = frozenset({"prune", "expire", "reconcile"})

#: Check-ins that are missed before Sentry makes an issue of it, and that come before it is over.
_MISSED, _RECOVERED = 3, 2


def open_sentry(
    dsn: str, *, role: Literal["worker", "application"], environment: str, release: str, traces: float = 0.0, timeout: float = 2.0
) -> SentryIncidents:
    """Sets Sentry up for this process; *traces*: the share of a worker's tasks whose times are told.

    *timeout*: seconds that the end of the process waits for what is still to be sent. Raises MissingPackage, and ConfigurationError for a
    DSN that is none.
    """
    try:
        import sentry_sdk
        from sentry_sdk.utils import BadDsn
    except ImportError as error:
        raise MissingPackage("MEMLINE_SENTRY_DSN needs Sentry's SDK: install memline[observe].") from error
    options: dict[str, Any] = {
        "dsn": dsn,
        "environment": environment,
        "release": release,
        "default_integrations": False,
        "auto_enabling_integrations": False,
        # send_default_pii is off where it is not named; to name it is deprecated
        "spotlight": False,
        "max_request_body_size": "never",
        "include_local_variables": False,
        "include_source_context": False,
        "before_send": scrub_event,
        "before_send_transaction": scrub_transaction,
        "before_breadcrumb": scrub_breadcrumb,
        "auto_session_tracking": False,
        "enable_metrics": False,
        "enable_logs": False,
        # spans of model calls as spans of their task, which `scrub_transaction` sees, and not as something of their own
        "stream_gen_ai_spans": False,
        "shutdown_timeout": timeout,
    }
    try:
        if role == "application":
            client = sentry_sdk.Client(**options)
        else:
            sentry_sdk.init(**options, integrations=_integrations(), traces_sample_rate=traces, propagate_traces=False)
            client = sentry_sdk.get_client()  # type: ignore[assignment]
    except BadDsn as error:
        raise ConfigurationError("MEMLINE_SENTRY_DSN is no DSN of Sentry's: copy it from the project's settings.") from error
    return SentryIncidents(client, role)


def _integrations() -> list[Any]:
    """Those of a worker. OpenAI's only where its client is installed."""
    from sentry_sdk.integrations.atexit import AtexitIntegration
    from sentry_sdk.integrations.celery import CeleryIntegration
    from sentry_sdk.integrations.dedupe import DedupeIntegration
    from sentry_sdk.integrations.excepthook import ExcepthookIntegration
    from sentry_sdk.integrations.logging import LoggingIntegration
    from sentry_sdk.integrations.redis import RedisIntegration
    from sentry_sdk.integrations.sqlalchemy import SqlalchemyIntegration
    from sentry_sdk.integrations.threading import ThreadingIntegration

    found: list[Any] = [
        AtexitIntegration(callback=lambda *_: None),
        CeleryIntegration(propagate_traces=False, monitor_beat_tasks=False),
        DedupeIntegration(),
        ExcepthookIntegration(),
        LoggingIntegration(event_level=None),  # lines are breadcrumbs; an error is told by whoever met it
        RedisIntegration(),
        SqlalchemyIntegration(),
        ThreadingIntegration(),
    ]
    if find_spec("openai") is not None:
        from sentry_sdk.integrations.openai import OpenAIIntegration

        found.append(OpenAIIntegration(include_prompts=False))
    return found


class SentryIncidents:
    """`contracts.incidents.Sink` on a client of Sentry's, which sends from a thread of its own. *timer*: seconds, only ever growing."""

    def __init__(self, client: Client, role: str, *, timer: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._role = role
        self._timer = timer
        self._begin()
        self._checked_in: dict[str, float] = {}
        self._told: dict[tuple[str, str], float] = {}
        self._minute = 0.0
        self._failed = self._untold = 0
        _living.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()

    def job_failed(self, failed: FailedJob) -> None:
        """An event a job, grouped by stage and class of the reason."""
        now = self._timer()
        with self._lock:
            if now - self._minute >= 60:
                self._minute, self._failed = now, 0
            self._failed += 1
            if self._failed > MOST_FAILED:
                self._untold += 1
                return
            untold, self._untold = self._untold, 0
        also = f" (and {untold} failed jobs before it that were not told)" if untold else ""
        tags = {"job": failed.job, "stage": failed.stage, "namespace": failed.namespace, "reason": failed.kind, "tries": failed.attempts}
        self._capture(
            {
                "level": "error",
                "logger": "memline",
                "logentry": {"message": f"A job failed at {failed.stage}: {failed.kind}{also}"},
                "fingerprint": ["memline", "job failed", failed.stage, failed.kind],
                "tags": {**at_hand(), **tags},
            }
        )

    def broke(self, where: str, error: BaseException) -> None:
        """An event an error, at most one a minute of a class at a place."""
        key, now = (where, type(error).__name__), self._timer()
        with self._lock:
            if now - self._told.get(key, -SAME_ERROR_EVERY) < SAME_ERROR_EVERY:
                return
            self._told[key] = now
        tags = {**at_hand(), **about_of(error), "where": where, "reason": type(error).__name__}
        self._capture({"level": "error", "logger": "memline", "tags": tags}, error)

    def round_ended(self, loop: str, *, every: float, seconds: float, error: BaseException | None) -> None:
        """A check-in of the monitor `memline-LOOP`, at most one a minute; none of an application's engine, whose end is no fault."""
        if self._role == "application":
            return
        now = self._timer()
        with self._lock:
            if now - self._checked_in.get(loop, -CHECK_IN_EVERY) < CHECK_IN_EVERY:
                return
            self._checked_in[loop] = now
        long = loop in _LONG
        config = {
            "schedule": {"type": "interval", "value": max(1, math.ceil(every / 60)), "unit": "minute"},
            "checkin_margin": _LONG_MARGIN if long else _MARGIN,
            "max_runtime": _LONG_RUNTIME if long else _RUNTIME,
            "failure_issue_threshold": _MISSED,
            "recovery_threshold": _RECOVERED,
            "timezone": "UTC",
        }
        options = self._client.options
        self._capture(
            {
                "type": "check_in",
                "monitor_slug": f"memline-{loop}",
                "monitor_config": config,
                "check_in_id": uuid.uuid4().hex,
                "status": "ok" if error is None else "error",
                "duration": seconds,
                "environment": options.get("environment"),
                "release": options.get("release"),
            }
        )

    def close(self) -> None:
        """Sends what waits, in the time that the end of a process may take; what comes later is not told."""
        self._client.close(timeout=self._client.options["shutdown_timeout"])

    def _capture(self, event: dict[str, Any], error: BaseException | None = None) -> None:
        """Hands an event to the client, without a scope: what stands in those of an application is not ours to tell, and its processors
        would meet an error of memline's (one of the SDK's own then drops the application's report of the same error as a second one).
        """
        from sentry_sdk.utils import event_from_exception

        if event.get("type") != "check_in":
            event["tags"] = {**event["tags"], "role": self._role}
        try:
            hint = None
            if error is not None:
                mechanism = {"type": "memline", "handled": True}
                found, hint = event_from_exception(error, client_options=self._client.options, mechanism=mechanism)
                event = {**found, **event}
            self._client.capture_event(event, hint=hint, scope=None)  # type: ignore[arg-type]
        except Exception as failed:  # noqa: BLE001
            # whoever tells of a failure must not fail by telling
            _log.warning("Sentry could not be told: %s", type(failed).__name__)


_living: weakref.WeakSet[SentryIncidents] = weakref.WeakSet()


def _renew_after_fork() -> None:
    """A lock that another thread held at the fork would be held for ever here."""
    for each in list(_living):
        each._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)
