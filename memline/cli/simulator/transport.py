"""HTTP/1.1 for the simulator on the standard library: a thread a connection, keep-alive, and an end that leaves nothing open."""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Answer", "HttpServer", "Respond", "error_answer"]

#: Seconds that closing waits for an answer that is being written.
_CLOSE_WAIT = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, JSON body and further headers of one response. `raw`: in place of the body. `cut`: the connection ends within it."""

    status: int
    body: Any
    headers: tuple[tuple[str, str], ...] = ()
    raw: str | None = None
    cut: bool = False


#: The answer to (method, path, body); None drops the connection.
Respond = Callable[[str, str, bytes], Answer | None]


class HttpServer(ThreadingHTTPServer):
    """A thread a connection; knows its connections, so that closing it ends idle ones and waits for busy ones."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], respond: Respond, closing: threading.Event) -> None:
        """Binds *address*; raises OSError where that fails. *closing* is set before the server is shut down."""
        self.respond = respond
        self.closing = closing
        self._open: dict[socket.socket, threading.Thread] = {}
        self._open_lock = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's own, which looks up the host's full name; that may take seconds.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="memline-simulator-call", daemon=True
        )
        with self._open_lock:
            self._open[request] = thread
        thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._open_lock:
                del self._open[request]

    def server_close(self) -> None:
        super().server_close()
        with self._open_lock:
            still_open = dict(self._open)
        for how in (socket.SHUT_RD, socket.SHUT_RDWR):
            for connection, thread in still_open.items():
                if thread.is_alive():
                    _shut(connection, how)
            for thread in still_open.values():
                thread.join(_CLOSE_WAIT)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Called inside the except clause, and prints by default. A client that went away is everyday; anything else is a fault.
        level = logging.DEBUG if isinstance(sys.exception(), ConnectionError) else logging.ERROR
        _log.log(level, "a call of the simulator failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive, one answer a request."""

    protocol_version = "HTTP/1.1"
    server_version = "memline-simulator"
    sys_version = ""
    disable_nagle_algorithm = True
    server: HttpServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: requests hold text of messages."""

    def _answer(self) -> None:
        length = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            # The end of the body is unknown, so this connection can't be read on.
            self.close_connection = True
            answer: Answer | None = error_answer(411, "A request needs a Content-Length.")
        else:
            content = self.rfile.read(int(length))
            if len(content) < int(length):  # the client went away in the middle
                self.close_connection = True
                return
            answer = self.server.respond(self.command, self.path, content)
        if answer is None:
            self.close_connection = True
            _shut(self.connection, socket.SHUT_RDWR)
            return
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        content = json.dumps(answer.body).encode("ascii") if answer.raw is None else answer.raw.encode("utf-8")
        if self.server.closing.is_set() or answer.cut:
            self.close_connection = True
        self.send_response(answer.status)
        headers = {"content-type": "application/json", "content-length": str(len(content))}
        for name, value in (headers | {name.lower(): value for name, value in answer.headers}).items():
            self.send_header(name.title(), value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if answer.cut else content)
        if answer.cut:
            self.wfile.flush()
            _shut(self.connection, socket.SHUT_RDWR)


def error_answer(status: int, message: str, param: str | None = None) -> Answer:
    """An error as OpenAI's server writes one."""
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return Answer(status, {"error": {"message": message, "type": kind, "param": param, "code": None}})


def _shut(connection: socket.socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError as error:  # the other side, or its own thread, was faster
        _log.debug("connection was closed already: %s", error)
