"""A small OpenAI-compatible server on the loopback, with answers that a test sets. Real HTTP, no mocks of the client."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the server sends: a body (an object becomes JSON), or nothing at all after *cut*."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    cut: bool = False
    #: The server waits for this before it answers.
    wait_for: threading.Event | None = None


@dataclass
class Server:
    base_url: str
    #: (path, body) of each request, in order.
    requests: list[tuple[str, dict[str, Any]]]
    answer: Callable[[str, dict[str, Any]], Reply]


@contextmanager
def serving(answer: Callable[[str, dict[str, Any]], Reply]) -> Iterator[Server]:
    """A server that answers each POST by *answer(path, body)*."""
    state = Server("", [], answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.requests.append((self.path, body))
            reply = state.answer(self.path, body)
            if reply.wait_for is not None:
                reply.wait_for.wait(300)
            raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            try:
                self.send_response(reply.status)
                self.send_header("content-type", reply.content_type)
                self.send_header("content-length", str(len(raw) + (10 if reply.cut else 0)))
                self.send_header("connection", "close")
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)
            except (BrokenPipeError, ConnectionResetError):  # the client did not wait
                pass

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def error(status: int, message: str = "no", code: str | None = None, param: str | None = None, **headers: str) -> Reply:
    body = {"error": {"message": message, "type": "error", "code": code, "param": param}}
    return Reply(body, status, {name.replace("_", "-"): value for name, value in headers.items()})
