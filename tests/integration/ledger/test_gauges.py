"""The states that are metrics: right at each step of a turn, and read by indexes over what is unfinished."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from memline.contracts import metrics
from memline.contracts.errors import ProviderRefused, ProviderUnavailable
from memline.contracts.metrics import Counter, Gauge, Histogram
from memline.ledger.counters import COUNTERS, count, read_counters
from memline.ledger.gauges import read_gauges
from memline.ledger.heartbeats import FAILING, Beat, Process, beat
from memline.ledger.leases import dissolve_expired
from memline.ledger.schema import tombstones
from memline.ledger.session import Ledger, when_committed
from memline.pipeline.parts import Parts
from memline.pipeline.runner import claim_and_send
from tests.parts import START, HandClock, MemoryIndex, ScriptedExtractor, accept, make_parts, make_relay, make_turn, run_all


class Said:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, ...], float] = {}
        self.seen: dict[tuple[str, ...], list[float]] = {}

    def add(self, metric: Counter, by: float, labels: tuple[str, ...]) -> None:
        if by:
            self.sums[metric.name, *labels] = self.sums.get((metric.name, *labels), 0) + by

    def observe(self, metric: Histogram, value: float, labels: tuple[str, ...]) -> None:
        self.seen.setdefault((metric.name, *labels), []).append(value)

    def set(self, metric: Gauge, value: float, labels: tuple[str, ...]) -> None:
        self.sums[metric.name, *labels] = value


@pytest.fixture
def said() -> Iterator[Said]:
    sink, before = Said(), metrics.installed()
    metrics.use(sink)
    yield sink
    metrics.use(before)


def gauges(parts: Parts) -> dict[str, float]:
    with parts.ledger.read() as connection:
        found = {" ".join((metric.name.removeprefix("memline_"), *labels)): value
                 for metric, labels, value in read_gauges(connection, now=parts.clock.now())}  # fmt: skip
    return {name: value for name, value in found.items() if value}


def test_a_turn_is_seen_where_it_is(ledger: Ledger) -> None:
    clock = HandClock()
    parts = make_parts(ledger, clock=clock)
    assert gauges(parts) == {}
    accept(parts, make_turn("Ann likes tea"), make_turn("Bob likes tea", user="bob"))
    clock.advance(7)
    assert gauges(parts) == {"jobs_unfinished extract": 2, "oldest_turn_seconds": 7, "lanes ready": 2}
    claim_and_send(parts, lambda leases: None)
    found = gauges(parts)
    assert found["lanes busy"] == 2 and found["batches waiting"] >= 1 and "lanes ready" not in found


def test_what_is_committed_waits_for_the_relay_and_then_for_nobody(ledger: Ledger) -> None:
    clock = HandClock()
    parts = make_parts(ledger, clock=clock)
    accept(parts, make_turn("Ann likes tea"))
    run_all(parts)
    clock.advance(3)
    assert gauges(parts) == {"outbox_rows waiting": gauges(parts)["outbox_rows waiting"], "outbox_oldest_seconds": 3}
    make_relay(parts).drain()
    assert gauges(parts) == {}


def test_a_turn_with_a_gap_before_it_is_held(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("second", producer="p", number=2))
    found = gauges(parts)
    assert found["jobs_held"] == 1 and found["jobs_unfinished extract"] == 1 and "lanes ready" not in found


def test_a_job_that_failed_is_failed_until_it_is_replayed_and_one_put_off_is_delayed(ledger: Ledger) -> None:
    script = {"bad": [ProviderRefused("no")], "later": [ProviderUnavailable("away")]}
    parts = make_parts(ledger, extractor=ScriptedExtractor(script))
    accept(parts, make_turn("bad"), make_turn("later", user="bob"))
    run_all(parts)
    found = gauges(parts)
    assert found["failed_jobs"] == 1 and found["lanes delayed"] == 1 and found["jobs_unfinished extract"] == 1


def test_a_parked_row_is_told_apart(ledger: Ledger) -> None:
    clock, index = HandClock(), MemoryIndex()
    parts = make_parts(ledger, clock=clock, index=index)
    accept(parts, make_turn("tea"))
    run_all(parts)
    with ledger.read() as connection:
        (memory_id,) = connection.execute(sa.text("SELECT id FROM memories")).scalars()
    index.refuses.add(memory_id)
    relay = make_relay(parts)
    for _ in range(40):
        relay.drain()
        clock.advance(5000)
    assert gauges(parts)["outbox_rows parked"] == 1 and "outbox_rows waiting" not in gauges(parts)


def test_every_gauge_that_is_read_is_declared_and_its_labels_too(ledger: Ledger) -> None:
    with ledger.read() as connection:
        found = read_gauges(connection, now=START)
    assert len({(metric.name, labels) for metric, labels, _ in found}) == len(found)
    for metric, labels, value in found:
        assert metric in metrics.declared() and value == 0
        assert all(value in allowed for value, allowed in zip(labels, metric.labels.values(), strict=True))


def test_no_table_of_turns_is_read_whole(ledger: Ledger) -> None:
    """Of jobs, lanes and the outbox only rows are read that are on their way, whatever number is finished."""
    if not ledger.is_sqlite:
        pytest.skip("PostgreSQL reads small tables whole; the indexes are the same")
    statements: list[tuple[str, object]] = []
    sa.event.listen(ledger.engine, "before_cursor_execute", lambda _c, _cur, text, given, *_: statements.append((text, given)))
    with ledger.read() as connection:
        read_gauges(connection, now=START)
    with ledger.read() as connection:
        for text, given in [pair for pair in statements if pair[0].startswith("SELECT")]:
            for row in connection.exec_driver_sql("EXPLAIN QUERY PLAN " + text, given):  # type: ignore[arg-type]
                plan = str(row[-1])
                assert not plan.startswith(("SCAN jobs", "SCAN lanes", "SCAN tombstones")) or "USING" in plan, plan


def test_an_erasure_without_its_certificate_is_told_by_its_age(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    with ledger.write() as tx:
        for name, minutes, ended in (("a", 50, START), ("b", 40, None), ("c", 10, None)):
            tx.execute(
                sa.insert(tombstones).values(
                    id=name, subject=name, namespace="default", kind="user", hash=name, key_id="k", epoch=1, place="0-1", at=START,
                    phase="waiting", started_at=START - timedelta(minutes=minutes), finished_at=ended, waits=[], counts={},
                )
            )  # fmt: skip
    assert gauges(parts) == {"erasures_unfinished": 2, "erasures_oldest_seconds": 2400}


def test_a_loop_in_its_first_round_is_neither_at_work_nor_stuck(ledger: Ledger) -> None:
    """Comparing a large index may take longer than an alert waits."""
    parts = make_parts(ledger)
    process = Process("here.1", "here", 1, "0.1.0", START)
    first = Beat(process, "reconcile", START, START + timedelta(seconds=30), None, START + timedelta(seconds=600), None, 0, None)
    failing = replace(first, loop="relay", failures=FAILING, reason="ServiceUnavailable")
    done = replace(first, loop="sweep", round_at=START, good_at=START)
    with ledger.write() as tx:
        beat(tx, [first, failing, done])
    assert gauges(parts) == {"loops relay stuck": 1, "loops sweep working": 1}
    hanging = replace(first, beat_by=START + timedelta(seconds=900))
    parts.clock.advance(700)  # type: ignore[attr-defined]
    with ledger.write() as tx:
        beat(tx, [hanging])
    assert gauges(parts) == {"loops reconcile stuck": 1, "loops relay dead": 1, "loops sweep dead": 1}


def test_stages_say_how_long_they_took_and_why_they_put_off(ledger: Ledger, said: Said) -> None:
    clock = HandClock()
    script = {"bad": [ProviderRefused("secret words")], "later": [ProviderUnavailable("away"), json.dumps(["Bob likes tea"])]}
    parts = make_parts(ledger, clock=clock, extractor=ScriptedExtractor(script))
    accept(parts, make_turn("bad"), make_turn("later", user="bob"))
    clock.advance(2)
    run_all(parts)
    clock.advance(10)
    run_all(parts)
    assert said.sums["memline_job_failures_total", "extract", "provider_refused"] == 1
    assert said.sums["memline_job_retries_total", "extract", "provider_unavailable"] == 1
    assert said.seen["memline_turn_committed_seconds",] == [12]
    assert ("memline_turn_searchable_seconds",) not in said.seen
    clock.advance(1)
    make_relay(parts).drain()
    assert said.seen["memline_turn_searchable_seconds",] == [13]
    assert sum(said.seen["memline_stage_batch_jobs", "extract"]) == 3
    assert len(said.seen["memline_stage_seconds", "persist", "done"]) == 1


def test_a_turn_without_a_memory_is_searchable_at_its_commit_and_a_duplicate_is_counted(ledger: Ledger, said: Said) -> None:
    clock = HandClock()
    parts = make_parts(ledger, clock=clock)
    accept(parts, make_turn("tea"))
    run_all(parts)
    clock.advance(4)
    accept(parts, make_turn("tea", at=clock.now()), make_turn("hello", user="bob", at=clock.now()))
    clock.advance(1)
    run_all(parts)
    assert said.seen["memline_turn_searchable_seconds",] == [1, 1]
    assert said.sums["memline_duplicates_total",] == 1
    assert said.sums["memline_turns_accepted_total", "new"] == 3


def test_a_dead_workers_jobs_are_counted_as_tried_again(ledger: Ledger, said: Said) -> None:
    clock = HandClock()
    parts = make_parts(ledger, clock=clock)
    accept(parts, make_turn("tea"))
    claim_and_send(parts, lambda leases: None)
    with ledger.write() as tx:
        tx.execute(sa.text("UPDATE leases SET taken = true"))
    clock.advance(3600)
    with ledger.write() as tx:
        assert dissolve_expired(tx, now=clock.now(), max_attempts=3) == 1
    assert said.sums["memline_job_retries_total", "extract", "worker_died"] == 1


def test_what_is_rolled_back_is_not_counted(ledger: Ledger) -> None:
    told: list[int] = []

    def fails() -> None:
        with ledger.write() as tx:
            when_committed(tx, lambda: told.append(1))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    with ledger.write() as tx:
        when_committed(tx, lambda: told.append(2))
        assert told == []
    assert told == [2]


def test_the_counters_are_read_as_they_were_written(ledger: Ledger) -> None:
    with ledger.write() as tx:
        count(tx, "order_gaps", 3)
    with ledger.read() as connection:
        assert read_counters(connection) == dict.fromkeys(COUNTERS, 0) | {"order_gaps": 3}


def test_ages_never_go_below_zero(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("tea", at=START + timedelta(seconds=50)))
    assert "oldest_turn_seconds" not in gauges(parts)
