"""A page comes in time whatever is away or hangs, and says what it has."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from memline import Memory, observing
from memline.contracts.errors import ConfigurationError, MissingPackage
from memline.contracts.metrics import Gauge
from memline.exporting import Exporter, _Part
from memline.settings import Settings, load_settings
from memline.telemetry.exposition import Figures
from memline.telemetry.metrics_server import MetricsServer
from tests.services import PostgresServer, Proxy, RedisServer, free_port, in_child

#: Seconds: the test waits that long for what hangs, once, and at most so long for what answers on a slow machine.
SHORT, PATIENT = 0.5, 120.0


@pytest.fixture(autouse=True)
def _counts_belong_to_the_test() -> Iterator[None]:
    observing.forget()
    yield
    observing.forget()


def read(page: str) -> dict[str, float]:
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def page_of(settings: Settings, *, up: str = "") -> dict[str, float]:
    with closing(Exporter(settings, deadline=PATIENT)) as exporter:
        return page_with(exporter, up) if up else read(exporter.page())


def page_with(exporter: Exporter, part: str) -> dict[str, float]:
    """The first page on which that part answered: on a busy machine it may miss its own deadline."""
    until = time.monotonic() + PATIENT
    while (found := read(exporter.page()))[f"memline_up {part}"] != 1:
        assert time.monotonic() < until, found
    return found


def settings_in(folder: Path, **given: object) -> Settings:
    return load_settings(home=folder, **given)


def test_without_services_there_is_a_ledger_and_no_redis(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with Memory(settings=settings) as memory:
        memory.add("I like marmalade", user_id="ann", wait=True)
        memory.search("marmalade", filters={"user_id": "ann"})
        found = page_of(settings)
    assert found["memline_up ledger"] == 1 and "memline_up redis" not in found
    assert found["memline_turns_handed_over_total accepted"] == found["memline_turn_committed_seconds_count"] == 1
    assert found["memline_search_seconds_count whole"] == 1
    assert "memline_loops engine working" in found
    assert "memline_stream_entries all" not in found, "what is not there is not 0"
    assert found["memline_order_gaps_total"] == found["memline_drift_total missing"] == 0


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exporter = Exporter(settings_in(tmp_path / "home"), deadline=PATIENT)
    found = read(exporter.page())
    exporter.page()
    assert found["memline_up ledger"] == 0 and found["memline_spool_bytes"] == 0
    assert "memline_oldest_turn_seconds" not in found and found["memline_turn_committed_seconds_count"] == 0
    assert not (tmp_path / "home").exists()
    assert len([record for record in caplog.records if record.name == "memline.metrics"]) == 1, "it is told once"


def test_redis_that_is_away_or_full_of_silence_holds_up_nothing(tmp_path: Path, redis_server: RedisServer) -> None:
    away = settings_in(tmp_path, redis_url=f"redis://127.0.0.1:{free_port()}/0")
    assert page_of(away)["memline_up redis"] == 0
    proxy = Proxy(redis_server.port)
    try:
        settings = settings_in(tmp_path, redis_url=proxy.url)
        exporter = Exporter(settings, deadline=PATIENT)
        page_with(exporter, "redis")
        proxy.swallow = True
        exporter._deadline = SHORT
        hanging = read(exporter.page())
        exporter._deadline = PATIENT
        assert hanging["memline_up redis"] == 0 and "memline_celery_messages extract" not in hanging
        proxy.swallow = False
        for thread in threading.enumerate():  # what hung comes back by its own deadline
            if thread.name == "memline-metrics-redis":
                thread.join(60)
        page_with(exporter, "redis")
    finally:
        proxy.close()


def test_two_scrapes_at_once_have_the_same_answer() -> None:
    """A health check and Prometheus meet: neither is told that the part is away."""
    go, begun = threading.Event(), []

    def slow() -> Figures:
        begun.append(1)
        assert go.wait(60)
        return one()

    part = _Part("ledger", slow)
    first, second = part.ask(), part.ask()
    assert first.answer(0.0) is None, "it is waited for, but not for ever"
    go.set()
    until = time.monotonic() + 60
    assert first.answer(until) is second.answer(until) is not None and len(begun) == 1
    assert part.ask().answer(until) is not None and len(begun) == 2


def test_a_ledger_that_is_away_holds_up_nothing(tmp_path: Path, postgres_server: PostgresServer, redis_server: RedisServer) -> None:
    gone = f"postgresql://postgres@127.0.0.1:{free_port()}/nothing"
    found = page_of(settings_in(tmp_path, ledger_url=gone, redis_url=redis_server.url), up="redis")
    assert found["memline_up ledger"] == 0 and found["memline_up redis"] == 1 and "memline_redis_memory_bytes used" in found
    empty = postgres_server.url(postgres_server.create_database())
    assert page_of(settings_in(tmp_path, ledger_url=empty))["memline_up ledger"] == 0, "it has no schema"


def test_what_waits_in_redis_is_told(tmp_path: Path, redis_url: str) -> None:
    import redis

    settings = settings_in(tmp_path, redis_url=redis_url)
    with redis.Redis.from_url(redis_url, socket_timeout=PATIENT) as client:
        client.config_set("maxmemory", 300_000_000)
        for number in range(3):
            client.xadd("memline:turns", {"turn": f"{number}"})
        client.xgroup_create("memline:turns", "accept", id="0")
        client.xreadgroup("accept", "somebody", {"memline:turns": ">"}, count=2)
        client.lpush("memline:celery:memline.embed", "one", "two")
        try:
            found = page_of(settings, up="redis")
        finally:
            client.config_set("maxmemory", 0)
    assert (found["memline_stream_entries all"], found["memline_stream_entries pending"]) == (3, 2)
    assert (found["memline_celery_messages embed"], found["memline_celery_messages extract"]) == (2, 0)
    assert found["memline_redis_memory_bytes max"] == 300_000_000 and found["memline_redis_memory_bytes used"] > 0


def test_the_queues_are_those_that_celery_uses(redis_url: str) -> None:
    """The names of the keys are Celery's own: a message that is sent is one that is seen."""
    from memline.ledger.jobs import Stage
    from memline.ledger.leases import Lease
    from memline.workers.celery_app import CelerySend, make_app
    from memline.workers.redis_gauges import RedisGauges

    app = make_app(redis_url, prefix="memline")
    CelerySend(app)([Lease("lease", 1, Stage.DEDUP, False)])
    app.close()
    gauges = RedisGauges(redis_url, timeout=PATIENT)
    waiting = {labels: value for metric, labels, value in gauges.read() if metric.name == "memline_celery_messages"}
    gauges.close()
    assert waiting["dedup",] == 1 and sum(waiting.values()) == 1


def test_spooled_turns_are_told_by_their_bytes(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, redis_url=f"redis://127.0.0.1:{free_port()}/0")
    with Memory(settings=settings) as memory:
        memory.add("I like marmalade", user_id="ann")
        found = page_of(settings)
        (spooled,) = (tmp_path / "spool").glob("*.jsonl")
        spooled.with_suffix(".torn").write_bytes(b"no turn")  # it stays, and must not alert for ever
        assert page_of(settings)["memline_spool_bytes"] == found["memline_spool_bytes"] == spooled.stat().st_size
    assert found["memline_spool_bytes"] > 0 and found["memline_turns_handed_over_total spooled"] == 1


def test_a_port_that_is_taken_is_told_and_a_child_does_not_hold_it() -> None:
    server = MetricsServer(one, host="127.0.0.1", port=0)
    assert "test_level 1.0" in get(server)
    with pytest.raises(ConfigurationError, match=f"127.0.0.1:{server.port}.*MEMLINE_METRICS_PORT"):
        MetricsServer(one, host="127.0.0.1", port=server.port)
    assert in_child(lambda: server._server.socket.fileno()) == -1
    assert "test_level 1.0" in get(server), "the parent goes on"
    server.close()


def one() -> Figures:
    figures = Figures()
    figures.put(Gauge("test_level", "Level."), (), 1)
    return figures


def get(server: MetricsServer, query: str = "", **headers: str) -> str:
    with urlopen(Request(f"http://127.0.0.1:{server.port}/metrics{query}", headers=headers), timeout=PATIENT) as response:
        return str(response.headers["Content-Type"]) + "\n" + response.read().decode()


def test_prometheus_gets_the_format_it_asks_for() -> None:
    server = MetricsServer(one, host="127.0.0.1", port=0)
    assert get(server).startswith("text/plain; version=0.0.4")
    opened = get(server, Accept="application/openmetrics-text; version=1.0.0")
    assert opened.startswith("application/openmetrics-text; version=1.0.0") and opened.endswith("# EOF\n")
    assert "test_level 1.0" in get(server, "?name[]=test_level") and "test_level" not in get(server, "?name[]=test_other")
    server.close()


def test_a_client_that_says_nothing_is_let_go_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = MetricsServer(one, host="127.0.0.1", port=0)
    with socket.socket() as silent:
        silent.settimeout(PATIENT)
        silent.bind(("127.0.0.1", 0))
        known = silent.getsockname()
        # of this client alone: one that was a moment slow would be let go, too
        patience = property(lambda handler: 1 if handler.client_address == known else PATIENT)
        monkeypatch.setattr("memline.telemetry.metrics_server._Impatient.timeout", patience)
        silent.connect(("127.0.0.1", server.port))
        assert "test_level 1.0" in get(server)
        assert silent.recv(1) == b"", "it was closed"
    server.close()
    assert capsys.readouterr().err == ""


def test_a_page_that_breaks_is_an_error_of_that_scrape_alone(capfd: pytest.CaptureFixture[str]) -> None:
    from urllib.error import HTTPError

    rounds = iter([False, True])

    def figures() -> Figures:
        if not next(rounds):
            raise ValueError("a text that must not be told")
        return one()

    server = MetricsServer(figures, host="127.0.0.1", port=0)
    with pytest.raises(HTTPError, match="500") as caught:
        urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=PATIENT)
    assert b"must not" not in caught.value.read() and "must not" not in capfd.readouterr().err
    caught.value.close()
    assert "test_level 1.0" in get(server)
    server.close()


def test_without_prometheus_client_counting_goes_on_and_showing_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path)
    with monkeypatch.context() as patch, closing(Exporter(settings)) as exporter:
        patch.setitem(sys.modules, "prometheus_client", None)
        with Memory(settings=settings) as memory:
            memory.add("I like marmalade", user_id="ann", wait=True)
        with pytest.raises(MissingPackage, match=r"memline\[observe\]"):
            exporter.page()
        with pytest.raises(MissingPackage, match=r"memline\[observe\]"):
            MetricsServer(exporter.figures, host="127.0.0.1", port=0)
    assert page_of(settings)["memline_turn_committed_seconds_count"] == 1
