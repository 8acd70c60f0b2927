"""Real HTTP servers on loopback that take what a process sends to Sentry or to an OpenTelemetry collector, and keep all of it."""

from __future__ import annotations

import gzip
import json
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["Collector", "Received", "SentryServer", "Span"]


@dataclass(frozen=True)
class Received:
    """One request: its path, its headers as they came, its body decoded."""

    path: str
    headers: str
    body: bytes


class _Listener:
    """Answers every POST with 200 and *answer*, and keeps it."""

    answer = b"{}"
    answers_as = "application/json"

    def __init__(self) -> None:
        self.received: list[Received] = []
        self._news = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer._keep(Received(self.path, str(self.headers), _decoded(body, self.headers.get("Content-Encoding", ""))))
                self.send_response(200)
                self.send_header("Content-Type", outer.answers_as)
                self.send_header("Content-Length", str(len(outer.answer)))
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, format: str, *args: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def everything(self) -> bytes:
        """All that came, as bytes to search in."""
        return b"\n".join(f"{each.path}\n{each.headers}\n".encode() + each.body for each in self.received)

    def wait_until(self, there: Callable[[], bool], timeout: float = 90) -> bool:
        """Whether *there* became true, asked after each arrival and now and then."""
        deadline = time.monotonic() + timeout
        with self._news:
            while not there():
                if time.monotonic() > deadline:
                    return False
                self._news.wait(0.1)
        return True

    def _keep(self, received: Received) -> None:
        with self._news:
            self.received.append(received)
            self._news.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class SentryServer(_Listener):
    """What a DSN leads to."""

    @property
    def dsn(self) -> str:
        return f"http://publickey@127.0.0.1:{self.port}/42"

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The items of a kind ("event", "check_in", "transaction", …) in all envelopes."""
        return [payload for each in list(self.received) for header, payload in _items(each.body) if header.get("type") == kind]

    def kinds(self) -> set[str]:
        return {str(header.get("type")) for each in list(self.received) for header, _ in _items(each.body)}


@dataclass(frozen=True)
class Span:
    """A span as the collector got it."""

    name: str
    trace_id: str
    id: str
    parent: str
    service: str
    attributes: dict[str, Any]
    status: int


class Collector(_Listener):
    """An OTLP/HTTP collector."""

    answer = b""
    answers_as = "application/x-protobuf"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Span]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        found: list[Span] = []
        for each in list(self.received):
            assert each.path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(each.body).resource_spans:
                (service,) = (a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
                for scope in resource.scope_spans:
                    found += [_span(span, service) for span in scope.spans]
        return found


def _span(span: Any, service: str) -> Span:
    attributes = {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}
    return Span(span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), service, attributes, span.status.code)


def _decoded(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "deflate":
        return zlib.decompress(body)
    if encoding == "br":
        import brotli  # sentry-sdk uses it where it is installed

        return bytes(brotli.decompress(body))
    assert not encoding, f"a body in {encoding} would be searched in vain"
    return body


def _items(body: bytes) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Headers and payloads of an envelope: lines of JSON, a payload being as long as its header says or one line."""
    _, _, rest = body.partition(b"\n")
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    while rest.strip():
        line, _, rest = rest.lstrip(b"\n").partition(b"\n")
        header = json.loads(line)
        size = header.get("length")
        payload, rest = (rest[:size], rest[size:]) if size is not None else rest.partition(b"\n")[::2]
        found.append((header, json.loads(payload)))
    return found
