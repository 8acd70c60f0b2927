"""What a process tells others about itself, set up once: logs, errors, traces, metrics."""

from __future__ import annotations

import logging
import threading
from typing import Literal

from memline.contracts import incidents, tracing
from memline.settings import Settings

__all__ = ["Role", "forget", "observe"]

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
        if role == "worker" and _first("logs"):
            from memline.telemetry.logs import install

            install(log_level or settings.log_level, settings.log_format)
        if settings.sentry_dsn is not None and "sentry" not in _installed:
            from memline.telemetry.sentry import open_sentry

            dsn, environment = settings.sentry_dsn.get_secret_value(), settings.sentry_environment
            incidents.use(
                open_sentry(dsn, role=role, environment=environment, release=f"memline@{__version__}", traces=settings.sentry_traces)
            )
            _installed.add("sentry")
        if (settings.otlp_endpoint is not None or settings.tracing == "on") and "tracing" not in _installed:
            _trace(settings, role, __version__)
            _installed.add("tracing")
        if _first("metrics"):
            _count(settings, role)


def _trace(settings: Settings, role: Role, version: str) -> None:
    from memline.telemetry.tracing import OpenTelemetry, collector_provider

    if settings.otlp_endpoint is None:
        tracing.use(OpenTelemetry(version=version))
        if role == "worker":
            _log.warning("MEMLINE_TRACING is on and MEMLINE_OTLP_ENDPOINT is not set: this worker's spans go nowhere.")
        return
    service = "memline-worker" if role == "worker" else "memline"
    provider = collector_provider(settings.otlp_endpoint, rate=settings.traces_rate, service=service, version=version)
    tracing.use(OpenTelemetry(provider, version=version))
    if role == "worker":
        from celery.signals import worker_process_shutdown

        # a child of a pool ends without its exit handlers
        worker_process_shutdown.connect(lambda **_: provider.force_flush(2000), weak=False, dispatch_uid="memline.tracing")


def _count(settings: Settings, role: Role) -> None:
    """Counts are kept in the folder of *settings*, whoever asks for them; a worker's with a port of its own are served there."""
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
