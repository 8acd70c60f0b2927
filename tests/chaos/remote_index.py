"""A real Weaviate behind two TCP proxies, of HTTP and of gRPC, and the faults that happen between it and memline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.tcp_proxy import TcpProxy
from tests.weaviate_server import Reached, WeaviateServer

__all__ = ["AWAY", "REMOTE_FAULTS", "TIMEOUT", "Line", "RemoteIndex", "remote_index"]

#: Seconds: of a write of the processes behind the proxies, how much later an answer comes, and how long a fault lasts.
TIMEOUT, LATE, AWAY = 1.5, 2.0, 4.0

#: Bytes of a request that arrive before the connection is cut: less than a write of one object has, more than an empty frame.
_PART_OF_A_WRITE = 150

#: Every fault of a remote index, for `AWAY` seconds from the moment the point is reached.
REMOTE_FAULTS = {
    "answers delayed": "the server does what it is asked, its answers come after the timeout",
    "cut in a write": "a part of each request arrives, then its connection is cut",
    "answers swallowed": "the server does what it is asked, its answers are lost",
    "connections refused": "open connections are cut, new ones are refused",
    "server killed": "the server is killed and started again",
}


@dataclass(frozen=True, slots=True)
class Line:
    """The proxies before the two ports of a Weaviate."""

    rest: TcpProxy
    calls: TcpProxy

    @property
    def reached(self) -> Reached:
        """The server as it is reached through them."""
        return Reached(f"http://127.0.0.1:{self.rest.port}", str(self.calls.port))

    def begin(self, fault: str) -> None:
        """From now on, until `end`."""
        for proxy in (self.rest, self.calls):
            if fault == "answers delayed":
                proxy.delay = LATE
            elif fault == "cut in a write":
                proxy.cut_sent = _PART_OF_A_WRITE
            elif fault == "answers swallowed":
                proxy.swallow = True
            elif fault == "connections refused":
                proxy.refuse()
                proxy.cut()
            else:
                raise ValueError(f"{fault!r} is no fault of a line")

    def end(self) -> None:
        """The fault is over; connections that it broke stay broken."""
        for proxy in (self.rest, self.calls):
            proxy.delay, proxy.cut_sent, proxy.swallow = 0.0, None, False
            proxy.allow()


@dataclass(frozen=True, slots=True)
class RemoteIndex:
    """A server that may be killed, behind its line."""

    server: WeaviateServer
    line: Line

    def begin(self, fault: str) -> None:
        """From now on, until `end`."""
        if fault == "server killed":
            self.server.kill()
        else:
            self.line.begin(fault)

    def end(self) -> None:
        self.line.end()
        if not self.server.runs:
            self.server.start()


@contextmanager
def remote_index() -> Iterator[RemoteIndex]:
    """A server of one's own. Raises RuntimeError where there is no `weaviate` binary."""
    with WeaviateServer() as server, TcpProxy(server.port) as rest, TcpProxy(server.grpc_port) as calls:
        yield RemoteIndex(server, Line(rest, calls))
