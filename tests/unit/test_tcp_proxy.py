"""The proxy that other tests rely on does what it says."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.services import free_port
from tests.tcp_proxy import TcpProxy


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    """Before a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))
    seen: list[threading.Thread] = []

    def echo(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                connection.sendall(data)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                seen.append(threading.Thread(target=echo, args=(connection,)))
                seen[-1].start()

    accepting = threading.Thread(target=serve)
    accepting.start()
    with TcpProxy(listener.getsockname()[1]) as found:
        yield found
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in (accepting, *seen):
        thread.join(300)


@contextlib.contextmanager
def connected(proxy: TcpProxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=300) as found:
        yield found


def asked(connection: socket.socket, data: bytes = b"ping") -> bytes:
    connection.sendall(data)
    return connection.recv(len(data))


def test_it_cuts_a_longer_request_in_the_middle(proxy: TcpProxy) -> None:
    proxy.cut_sent = 5
    with connected(proxy) as connection:
        assert asked(connection) == b"ping"
        connection.sendall(b"a longer one")
        with contextlib.suppress(ConnectionResetError):
            assert len(connection.recv(100)) <= 5
            assert connection.recv(100) == b""
    proxy.cut_sent = None
    with connected(proxy) as connection:
        assert asked(connection, b"a longer one") == b"a longer one"


def test_it_passes_on_what_it_gets(proxy: TcpProxy) -> None:
    with connected(proxy) as connection:
        assert asked(connection) == b"ping"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert proxy.accepted == 1 and proxy.answered == 4


def test_it_holds_back_until_it_is_told_otherwise(proxy: TcpProxy) -> None:
    with connected(proxy) as connection:
        assert asked(connection) == b"ping"
        proxy.hang = True
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            asked(connection)
        proxy.hang = False
        connection.settimeout(300)
        assert connection.recv(4) == b"ping"


def test_it_loses_answers_and_cuts_what_lost_some(proxy: TcpProxy) -> None:
    with connected(proxy) as connection:
        proxy.swallow = True
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            asked(connection)
        deadline = time.monotonic() + 300
        while proxy.swallowed < 4:  # its threads may be slow
            assert time.monotonic() < deadline
            time.sleep(0.01)
        proxy.swallow = False
        connection.settimeout(300)
        with contextlib.suppress(ConnectionResetError):
            assert asked(connection) == b""
    with connected(proxy) as connection:
        assert asked(connection) == b"ping"


def test_it_cuts_now_or_in_the_middle_of_an_answer(proxy: TcpProxy) -> None:
    with connected(proxy) as connection:
        assert asked(connection) == b"ping"
        assert proxy.cut() == 1
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            assert asked(connection) == b""
    proxy.cut_after = 6
    with connected(proxy) as connection:
        assert asked(connection) == b"ping"
        connection.sendall(b"pong")
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(4):
                received += data
        assert len(received) <= 2


def test_it_refuses_and_allows_again(proxy: TcpProxy) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError), connected(proxy):
        pass
    proxy.allow()
    with connected(proxy) as connection:
        assert asked(connection) == b"ping"


def test_it_delays(proxy: TcpProxy) -> None:
    proxy.delay = 1.0
    with connected(proxy) as connection:
        began = time.monotonic()
        assert asked(connection) == b"ping"
        assert time.monotonic() - began > 0.9  # not sooner; how much later depends on the machine


def test_a_server_that_is_not_there_is_a_reset() -> None:
    port = free_port()
    # by then the connection may be reset already, and the system may say so as it connects
    with contextlib.suppress(ConnectionResetError, BrokenPipeError), TcpProxy(port) as proxy, connected(proxy) as connection:
        assert connection.recv(1) == b""
