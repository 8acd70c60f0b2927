"""The limit that workers share, on a real Redis."""

from __future__ import annotations

import multiprocessing
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from memline.contracts import metrics
from memline.contracts.metric_types import Metric
from memline.language import limits_redis
from memline.language.limits import Rates
from memline.language.limits_redis import RedisLimiter
from tests.services import RedisServer

RATES = Rates(requests=600)  # 60 at once, then 9 a second


@pytest.fixture(autouse=True)
def _a_slow_machine_is_no_redis_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_redis, "_TIMEOUT", 120.0)


def reserved(url: str, number: int, name: str = "a") -> int:
    """How many of so many calls are reserved at once."""
    limiter = RedisLimiter(url, "test", name)
    got = sum(limiter.reserve("server/model", RATES, 10, patience=0).reserved for _ in range(number))
    limiter.close()
    return got


def _in_a_process(url: str) -> int:
    limits_redis._TIMEOUT = 120.0  # a process of its own has no fixture
    return reserved(url, 100)


def test_threads_and_processes_share_one_limit(redis_url: str) -> None:
    began = time.monotonic()

    def most() -> float:
        """What one limit allows until now, and a little: a slow machine sees it grow for longer."""
        return 66 + 9 * (time.monotonic() - began)

    with ThreadPoolExecutor(4) as pool:
        threads = sum(pool.map(lambda number: reserved(redis_url, 50, str(number)), range(4)))
    assert 60 <= threads <= most()
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        others = sum(processes.map(_in_a_process, [redis_url] * 2))
        assert threads + others <= most()


def test_what_a_server_asks_of_one_worker_holds_back_the_others(redis_url: str) -> None:
    one, other = RedisLimiter(redis_url, "test", "one"), RedisLimiter(redis_url, "test", "other")
    one.hold("server/model", 200)
    granted = other.reserve("server/model", Rates(), 1, patience=10)
    assert not granted.reserved and 100 < granted.wait <= 200
    assert not other.reserve("server/model", Rates(), 1, patience=10, first=True).reserved
    assert other.reserve("server/another", Rates(), 1, patience=0).reserved
    one.close(), other.close()


def test_tokens_count_and_are_corrected(redis_url: str) -> None:
    limiter = RedisLimiter(redis_url, "test", "one")
    rates = Rates(tokens=6000)
    assert limiter.reserve("s", rates, 5000, patience=0).reserved
    held = limiter.reserve("s", rates, 10, patience=0)
    assert not held.reserved
    limiter.correct("s", rates, -4990)
    assert limiter.reserve("s", rates, 10, patience=0).reserved
    limiter.close()


def test_calls_that_wait_for_nobody_put_off_the_others_by_a_minute_at_most(redis_url: str) -> None:
    limiter = RedisLimiter(redis_url, "test", "one")
    rates = Rates(requests=30, tokens=1000)
    assert all(limiter.reserve("s", rates, 100, patience=0, first=True).reserved for _ in range(200))
    assert 20 < limiter.reserve("s", rates, 1, patience=0).wait <= 60
    limiter.close()


def test_a_clock_that_is_set_back_holds_nobody_back_longer(redis_url: str) -> None:
    limiter = RedisLimiter(redis_url, "test", "one")
    limiter.hold("s", 200)
    with redis.Redis.from_url(redis_url, decode_responses=True, socket_timeout=120) as client:
        written = {name: float(value) for name, value in client.hgetall("test:limit:s").items()}
        client.hset("test:limit:s", mapping={name: value + 3_600_000 for name, value in written.items()})  # by a clock an hour ahead
    assert 100 < limiter.reserve("s", RATES, 1, patience=0).wait <= 200
    limiter.close()


def test_a_redis_that_fails_is_asked_once_since_a_search_waits_for_it() -> None:
    connections: list[int] = []

    def hang_up() -> None:
        while True:
            try:
                silent.accept()[0].close()
            except OSError:
                return
            connections.append(1)

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        thread = threading.Thread(target=hang_up)
        thread.start()
        limiter = RedisLimiter(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", "test", "one", clock=lambda: 100.0)
        for _ in range(3):  # it is left alone then, for longer than this clock goes
            assert limiter.reserve("s", RATES, 1, patience=0).reserved
        silent.shutdown(socket.SHUT_RDWR)
        thread.join()
    limiter.close()
    assert connections == [1]


def test_every_key_has_a_time_to_live_and_holds_no_text(redis_url: str) -> None:
    limiter = RedisLimiter(redis_url, "test", "one")
    limiter.reserve("api.example.com/gpt", RATES, 10, patience=0)
    limiter.hold("api.example.com/gpt", 3)
    limiter.close()
    with redis.Redis.from_url(redis_url, decode_responses=True, socket_timeout=120) as client:
        keys = client.keys("*")
        assert sorted(keys) == ["test:limit-processes", "test:limit:api.example.com/gpt"]
        assert all(0 < client.ttl(key) <= 300 for key in keys)


def test_without_redis_each_process_goes_on_with_its_share_and_counts() -> None:
    counted: list[str] = []

    class Sink:
        def add(self, metric: Metric, by: float, labels: tuple[str, ...]) -> None:
            counted.append(metric.name)

        def observe(self, metric: Metric, value: float, labels: tuple[str, ...]) -> None: ...

        def set(self, metric: Metric, value: float, labels: tuple[str, ...]) -> None: ...

    with RedisServer() as server:
        others = [RedisLimiter(server.url, "test", str(number), clock=lambda: 100.0) for number in range(4)]
        for limiter in others:
            assert limiter.reserve("s", RATES, 1, patience=0).reserved
        last = others[-1]
        server.stop()
        metrics.use(Sink())
        try:
            alone = sum(last.reserve("s", RATES, 1, patience=0).reserved for _ in range(100))
        finally:
            metrics.use(None)
        for limiter in others:
            limiter.close()
    assert 15 <= alone <= 20  # a fourth of 60
    assert counted == ["memline_limit_fallbacks_total"] * 100
