"""The web server of the metrics: prometheus_client's, which speaks OpenMetrics and gzip, too."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from memline.contracts.errors import ConfigurationError
from memline.telemetry.exposition import Figures, needs_client

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

__all__ = ["MetricsServer"]

_log = logging.getLogger("memline.metrics")

#: Seconds for which a client may be silent.
_SILENCE = 10.0


class MetricsServer:
    """Serves what *figures* returns at `http://host:port/metrics`, on threads of this process, until it is closed.

    A forked child serves nothing. Raises ConfigurationError where the port can't be had, MissingPackage.
    """

    def __init__(self, figures: Callable[[], Figures], *, host: str, port: int) -> None:
        needs_client()
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry(support_collectors_without_names=True)
        registry.register(_Scrape(figures))
        self._server: Any
        self._thread: threading.Thread
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            told = error.strerror if isinstance(error, OSError) else "no such port"
            raise ConfigurationError(
                f"Metrics can't be served at {host}:{port} ({told}): give a free port, by `--serve` or, of a worker, MEMLINE_METRICS_PORT."
            ) from None
        self._server.RequestHandlerClass = type("Handler", (_Impatient, self._server.RequestHandlerClass), {})
        self.port: int = self._server.server_port
        _servers.add(self)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def wait(self) -> None:
        """Until it is closed, or this process is told to stop."""
        while self._thread.is_alive():
            self._thread.join(1)

    def _after_fork(self) -> None:
        self._server.socket.close()  # else the port would be held after the parent is gone


class _Scrape:
    """The collector of a server: new figures at each scrape."""

    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Family]:
        try:
            return list(self._figures().collect())
        except Exception as error:  # noqa: BLE001
            # the server answers 500 and prints what it met: of an error the class is told, and never its text
            _log.error("metrics: %s", type(error).__name__)
        raise RuntimeError("the metrics could not be read")


class _Impatient:
    """What the server's handler lacks: an end to silence, and no word of clients that went away."""

    timeout = _SILENCE

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()  # type: ignore[misc]


_servers: weakref.WeakSet[MetricsServer] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for server in list(_servers):
        server._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
