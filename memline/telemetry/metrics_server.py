"""A small web server with one page, `/metrics`."""

from __future__ import annotations

import logging
import os
import socket
import threading
import weakref
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from memline.contracts.errors import ConfigurationError
from memline.telemetry.exposition import CONTENT_TYPE

__all__ = ["MetricsServer"]

_log = logging.getLogger("memline.metrics")

#: Seconds for which a client may be silent.
_SILENCE = 10.0


class MetricsServer:
    """Serves what *page* returns at `http://host:port/metrics`, on threads of this process, until it is closed.

    A forked child serves nothing. Raises ConfigurationError where the port can't be had.
    """

    def __init__(self, page: Callable[[], str], *, host: str, port: int) -> None:
        try:
            self._server = _Server((host, port), _handler(page))
        except (OSError, OverflowError) as error:
            told = error.strerror if isinstance(error, OSError) else "no such port"
            raise ConfigurationError(
                f"Metrics can't be served at {host}:{port} ({told}): set MEMLINE_METRICS_PORT to a free port."
            ) from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="memline-metrics", daemon=True)
        self._thread.start()
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        _log.debug("a client of the metrics went away")


def _handler(page: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SILENCE

        def do_GET(self) -> None:
            if self.path.split("?", 1)[0] != "/metrics":
                self.send_error(404, "Only /metrics is here")
                return
            try:
                body = page().encode("utf-8")
            except Exception as error:  # noqa: BLE001
                # a scrape must not end the process; of an error the class is told
                _log.error("metrics: %s", type(error).__name__)
                self.send_error(500, "The metrics could not be read")
                return
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


_servers: weakref.WeakSet[MetricsServer] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for server in list(_servers):
        server._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
