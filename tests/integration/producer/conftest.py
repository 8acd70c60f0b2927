"""A real Redis, empty for each test, which is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memline.contracts.clock import SystemClock
from memline.contracts.ids import TimeOrderedIds
from memline.producer import Producer, TurnStream
from tests.patience import PATIENT_CLIENT
from tests.services import RedisServer

#: The product's own limits.
_OWN = dict(TurnStream.__init__.__kwdefaults__ or {})


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that stands still for seconds is slow, not away. A test of one that hangs says so, by `hurry`."""
    for name in ("connect_timeout", "socket_timeout"):
        monkeypatch.setitem(TurnStream.__init__.__kwdefaults__, name, 120.0)


@pytest.fixture
def hurry() -> Callable[[TurnStream], None]:
    """Gives a stream the product's own limit."""

    def set_limits(stream: TurnStream) -> None:
        stream._connect_timeout, stream._socket_timeout = _OWN["connect_timeout"], _OWN["socket_timeout"]
        stream.close()  # what it opened waits for longer

    return set_limits


@pytest.fixture(scope="module")
def running() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> RedisServer:
    """The module's Redis, emptied; a test that kills it starts it again."""
    import redis

    with redis.Redis.from_url(running.url, **PATIENT_CLIENT) as client:
        client.flushall()
    return running


@pytest.fixture
def stream(server: RedisServer) -> Iterator[TurnStream]:
    made = TurnStream(server.url)
    yield made
    made.close()


@pytest.fixture
def produce(server: RedisServer, tmp_path: Path) -> Iterator[Callable[..., Producer]]:
    """Makes producers that are closed after the test; the spool folder is `tmp_path / "spool"`."""
    made: list[Producer] = []

    def make(url: str | None = None, retry_every: float = 0.05) -> Producer:
        made.append(Producer(url or server.url, tmp_path / "spool", TimeOrderedIds(), SystemClock(), retry_every=retry_every))
        return made[-1]

    yield make
    for producer in made:
        producer.close(timeout=0)
