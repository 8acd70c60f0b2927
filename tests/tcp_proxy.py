"""A real TCP proxy on loopback that is told, while it runs, to delay, hold back, lose, cut or refuse."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self

from tests.services import free_port

__all__ = ["TcpProxy"]

#: SO_LINGER that makes a close a reset.
_RESET = struct.pack("ii", 1, 0)


class TcpProxy:
    """Stands before a server: `with TcpProxy(server.port) as proxy: ... proxy.port`.

    Each of these can be set at any time, for connections that are open as for new ones; none is on at first:

    - `delay`: seconds that each piece of an answer comes later.
    - `hang`: nothing arrives on either side, connections stay open; what was sent meanwhile arrives when it is off again.
    - `swallow`: what the client sends arrives, what the server answers is lost. A connection that lost something is cut when it is off.
    - `cut_after`: a connection is cut after so many bytes of answers; None: never.
    - `cut_sent`: of a longer piece of a request only so many bytes arrive, then the connection is cut; None: all do.

    `cut()` cuts what is open now; `refuse()` has connections refused until `allow()`.
    """

    def __init__(self, target: int, host: str = "127.0.0.1") -> None:
        self.delay = 0.0
        self.swallow = False
        self.cut_after: int | None = None
        self.cut_sent: int | None = None
        #: Connections that were accepted, and bytes of answers that arrived, and that were lost to `swallow`.
        self.accepted = self.answered = self.swallowed = 0
        self._target = (host, target)
        self._flows = threading.Event()
        self._flows.set()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._open: dict[int, _Pair] = {}
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self.port = free_port()  # which no connection of this machine takes while this refuses
        self.allow()

    @property
    def hang(self) -> bool:
        return not self._flows.is_set()

    @hang.setter
    def hang(self, on: bool) -> None:
        if on:
            self._flows.clear()
        else:
            self._flows.set()

    def allow(self) -> None:
        """Listens, on the port it had."""
        if self._listener is not None:
            return
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._run(self._accept, self._listener)

    def refuse(self) -> None:
        """Listens no longer: the system refuses connections. Those that are open stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()

    def cut(self) -> int:
        """Resets every open connection, to both sides; how many there were."""
        with self._lock:
            pairs = list(self._open.values())
        for pair in pairs:
            pair.cut()
        return len(pairs)

    def close(self) -> None:
        self._closing.set()
        self._flows.set()
        self.refuse()
        self.cut()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="tcp-proxy", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                server = socket.create_connection(self._target, timeout=10)
                server.settimeout(None)
            except OSError:
                _reset(client)
                continue
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server)
            with self._lock:
                self._open[id(pair)] = pair
            self._run(self._pump, pair, client, server, False)
            self._run(self._pump, pair, server, client, True)

    def _pump(self, pair: _Pair, source: socket.socket, target: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(65536):
                if answers and self.delay:
                    self._closing.wait(self.delay)
                self._flows.wait()
                if not answers:
                    if self.cut_sent is not None and len(data) > self.cut_sent:
                        target.sendall(data[: self.cut_sent])
                        break
                    target.sendall(data)
                    continue
                if self.swallow:
                    pair.lost = True
                    self.swallowed += len(data)
                    continue
                if pair.lost or self._closing.is_set():
                    break
                pair.answered += len(data)
                if self.cut_after is not None and pair.answered >= self.cut_after:
                    target.sendall(data[: len(data) - (pair.answered - self.cut_after)])
                    break
                target.sendall(data)
                self.answered += len(data)
            else:
                self._flows.wait()
                if not (answers and (self.swallow or pair.lost)):
                    target.shutdown(socket.SHUT_WR)
                    if pair.ended():
                        self._forget(pair)
                        pair.close()  # no reset, which could overtake the end of an answer
                    return
        except OSError:
            pass
        self._forget(pair)
        pair.cut()

    def _forget(self, pair: _Pair) -> None:
        with self._lock:
            self._open.pop(id(pair), None)


class _Pair:
    """The two halves of a connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._sides = (client, server)
        self._lock = threading.Lock()
        self._ends = 0
        self.lost = False
        self.answered = 0

    def ended(self) -> bool:
        """One direction is over; True where it was the second."""
        with self._lock:
            self._ends += 1
            return self._ends == 2

    def close(self) -> None:
        for side in self._sides:
            side.close()

    def cut(self) -> None:
        for side in self._sides:
            _reset(side)


def _reset(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads it
    side.close()
