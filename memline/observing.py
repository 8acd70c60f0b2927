"""What a process tells others about itself, set up once: logs, errors, traces, metrics."""

from __future__ import annotations

import logging
import os
import threading
from importlib.util import find_spec
from typing import Literal

from memline.contracts import incidents, tracing
from memline.lifetime import at_last
from memline.settings import Settings

__all__ = ["Role", "forget", "log_lines", "observe", "observe_counts"]

#: worker: a process of memline's own. application: somebody else's, whose logging and Sentry are left alone.
Role = Literal["worker", "application"]

_log = logging.getLogger("memline")
_lock = threading.RLock()
_installed: set[str] = set()


def observe(settings: Settings, *, role: Role, log_level: str | None = None) -> None:
    """Installs what *settings* ask for, each part once a process: later settings add what earlier ones left out, and change nothing.

    Of a process of memline's own (*role* "worker") the logs are set up, too, at *log_level* where it is given. A forked child goes on
    with what its parent installed. Raises MissingPackage where a setting needs `memline[observe]`, ConfigurationError for a setting that
    can't be.
    """
    from memline import __version__

    with _lock:
        if role == "worker":
            log_lines(settings, log_level)
        if settings.sentry_dsn is not None and "sentry" not in _installed:
            from memline.telemetry.sentry import open_sentry

            dsn, environment = settings.sentry_dsn.get_secret_value(), settings.sentry_environment
            release = f"memline@{__version__}"
            sink = open_sentry(dsn, role=role, environment=environment, release=release, traces=settings.sentry_traces)
            incidents.use(sink)
            if role == "application":  # a worker's SDK has an exit handler of its own
                at_last(sink.close)
            _installed.add("sentry")
        if (settings.otlp_endpoint is not None or settings.tracing == "on") and "tracing" not in _installed:
            _trace(settings, role, __version__)
            _installed.add("tracing")
        observe_counts(settings, role=role)


def observe_counts(settings: Settings, *, role: Role) -> None:
    """Of `observe`, what imports nothing heavy: counts."""
    with _lock:
        if _first("metrics"):
            _count(settings, role)


def log_lines(settings: Settings, level: str | None = None) -> None:
    """Of `observe`, the logs of a process of memline's own, from *level* on where it is given: for a command that runs until it is told
    to stop.
    """
    with _lock:
        if _first("logs"):
            from memline.telemetry.logs import install

            install(level or settings.log_level, settings.log_format)


def _trace(settings: Settings, role: Role, version: str) -> None:
    from memline.telemetry.tracing import LastSpans, OpenTelemetry, collector_provider

    if settings.otlp_endpoint is None:
        tracing.use(OpenTelemetry(version=version))
        if role == "worker":
            _log.warning("MEMLINE_TRACING is on and MEMLINE_OTLP_ENDPOINT is not set: this worker's spans go nowhere.")
        return
    service = "memline-worker" if role == "worker" else "memline"
    provider = collector_provider(settings.otlp_endpoint, rate=settings.traces_rate, service=service, version=version)
    last = LastSpans(provider)
    at_last(last)
    tracing.use(OpenTelemetry(provider, version=version))
    if role == "worker":
        from celery.signals import worker_process_shutdown

        # a child of a pool ends without its exit handlers
        worker_process_shutdown.connect(lambda **_: last(), weak=False, dispatch_uid="memline.tracing")


def _count(settings: Settings, role: Role) -> None:
    """Counts are kept in the folder of *settings*, whoever asks for them; a worker's with a port of its own are served there."""
    if find_spec("fcntl") is None:
        return  # Windows: without locks that end with their process nobody could tell whose counts are whose
    from memline.exporting import metrics_folder
    from memline.telemetry.counts_folder import port_group
    from memline.telemetry.prometheus import install

    install(metrics_folder(settings), port_group(settings.metrics_port if role == "worker" else None))


def _first(part: str) -> bool:
    if part in _installed:
        return False
    _installed.add(part)
    return True


def forget() -> None:
    """Takes everything out again that `observe` put in, but logs, for tests and for who embeds an interpreter."""
    with _lock:
        incidents.use(None)
        tracing.use(None)
        if "metrics" in _installed:
            from memline.telemetry.prometheus import uninstall

            uninstall()
        _installed.clear()


def _renew_after_fork() -> None:
    """A lock that another thread held at the fork would be held for ever here."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)
