"""The outbox, on both databases."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from memline.ledger.counters import read_counters
from memline.ledger.outbox import OutboxRow, claim_outbox, enqueue, mark_searchable, next_due, outbox_size, release, settle, unsettled
from memline.ledger.pending import pending_work
from memline.ledger.schema import jobs, memories, outbox
from memline.ledger.session import Ledger
from tests.parts import START, accept, job_of, make_parts, make_turn, run_all, table


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def put(ledger: Ledger, *ids: str, version: int = 1, after: float = 0.0) -> None:
    with ledger.write() as tx:
        enqueue(tx, "memory", dict.fromkeys(ids, ("default", version)), now=at(after))


def claimed(ledger: Ledger, lease: str = "one", *, after: float = 0.0, limit: int = 100) -> list[OutboxRow]:
    with ledger.write() as tx:
        return claim_outbox(tx, lease=lease, seconds=60, limit=limit, now=at(after))


def ids(rows: list[OutboxRow]) -> list[str]:
    return sorted(row.key.id for row in rows)


def refuse(ledger: Ledger, rows: list[OutboxRow], *, after: float = 0.0, max_attempts: int = 3, lease: str = "one") -> None:
    with ledger.write() as tx:
        unsettled(tx, [(row, "refused") for row in rows], lease=lease, now=at(after), max_attempts=max_attempts)


def settled(ledger: Ledger, rows: list[OutboxRow], lease: str = "one") -> list[str]:
    with ledger.write() as tx:
        return settle(tx, rows, lease=lease)


def test_a_row_is_taken_by_one_relay_at_a_time(ledger: Ledger) -> None:
    put(ledger, "a", "b", "c")
    first = claimed(ledger, limit=2)
    second = claimed(ledger, "two")
    assert ids(first + second) == ["a", "b", "c"]
    assert claimed(ledger, "three") == []


def test_relays_at_the_same_time_share_the_rows(ledger: Ledger) -> None:
    put(ledger, *(f"m{number:03}" for number in range(120)))
    gate = threading.Barrier(4)

    def work(name: str) -> list[OutboxRow]:
        gate.wait()
        return [row for _ in range(5) for row in claimed(ledger, name, limit=10)]

    with ThreadPoolExecutor(4) as pool:
        found = [row for rows in pool.map(work, "abcd") for row in rows]
    assert ids(found) == sorted(set(ids(found)))
    assert len(found) <= 120


def test_the_oldest_rows_go_first(ledger: Ledger) -> None:
    for second, id in enumerate("cab"):
        put(ledger, id, after=second)
    assert ids(claimed(ledger, after=9, limit=2)) == ["a", "c"]


def test_a_row_that_the_index_took_is_gone(ledger: Ledger) -> None:
    put(ledger, "a", "b")
    rows = claimed(ledger)
    assert settled(ledger, [row for row in rows if row.key.id == "a"]) == ["a"]
    assert [row.object_id for row in table(ledger, outbox)] == ["b"]


def test_a_row_that_was_written_again_meanwhile_stays_and_is_due_when_the_relay_is_done(ledger: Ledger) -> None:
    put(ledger, "a")
    rows = claimed(ledger)
    put(ledger, "a", version=2, after=1)
    assert claimed(ledger, "two", after=2) == []  # never two relays at one object
    assert settled(ledger, rows) == []
    with ledger.write() as tx:
        release(tx, rows, lease="one", next_at=at(3))
    assert [(row.key.id, row.version) for row in claimed(ledger, "two", after=3)] == [("a", 2)]


def test_a_row_whose_relay_died_is_due_again_after_its_lease(ledger: Ledger) -> None:
    put(ledger, "a")
    dead = claimed(ledger)
    assert claimed(ledger, "two", after=59) == []
    alive = claimed(ledger, "two", after=60)
    assert ids(alive) == ["a"]
    assert settled(ledger, dead) == []
    assert settled(ledger, alive, "two") == ["a"]


def test_a_refused_row_waits_longer_each_time_and_is_set_aside_in_the_end(ledger: Ledger) -> None:
    put(ledger, "a")
    seconds = 0.0
    for attempt, wait in enumerate([1, 2, 4]):
        rows = claimed(ledger, after=seconds)
        assert [row.attempts for row in rows] == [attempt]
        refuse(ledger, rows, after=seconds, max_attempts=4)
        assert claimed(ledger, after=seconds + wait - 0.1) == []
        seconds += wait
    refuse(ledger, claimed(ledger, after=seconds), after=seconds, max_attempts=4)
    (row,) = table(ledger, outbox)
    assert (row.parked, row.attempts, row.error, row.lease) == (True, 4, "refused", None)
    assert claimed(ledger, after=1e6) == []
    with ledger.read() as connection:
        assert next_due(connection) is None
        assert outbox_size(connection) == (0, 1)
        assert read_counters(connection)["outbox_parked"] == 1
        assert pending_work(connection, "default") == (0, 0)


def test_the_wait_of_a_refused_row_is_bounded(ledger: Ledger) -> None:
    put(ledger, "a")
    with ledger.write() as tx:
        tx.execute(sa.update(outbox).values(attempts=15))
    refuse(ledger, claimed(ledger), max_attempts=1000)
    assert table(ledger, outbox)[0].next_at == at(300)


def test_a_change_brings_a_row_back_that_was_set_aside(ledger: Ledger) -> None:
    put(ledger, "a")
    refuse(ledger, claimed(ledger), max_attempts=1)
    put(ledger, "a", version=2, after=5)
    assert [(row.version, row.attempts) for row in claimed(ledger, after=5)] == [(2, 0)]


def test_a_refusal_of_an_old_version_does_not_touch_the_new_one(ledger: Ledger) -> None:
    put(ledger, "a")
    rows = claimed(ledger)
    put(ledger, "a", version=2)
    refuse(ledger, rows, max_attempts=1)
    (row,) = table(ledger, outbox)
    assert (row.version, row.parked, row.attempts) == (2, False, 0)


def test_released_rows_spend_no_attempt(ledger: Ledger) -> None:
    put(ledger, "a")
    rows = claimed(ledger)
    with ledger.write() as tx:
        release(tx, rows, lease="one", next_at=at(8), error="away")
    assert claimed(ledger, after=7) == []
    assert [row.attempts for row in claimed(ledger, after=8)] == [0]


def test_entities_and_memories_of_one_id_are_two_rows(ledger: Ledger) -> None:
    put(ledger, "a")
    with ledger.write() as tx:
        enqueue(tx, "entity", {"a": ("default", 1)}, now=START)
    rows = claimed(ledger)
    assert sorted(row.key.kind for row in rows) == ["entity", "memory"]
    assert settled(ledger, [row for row in rows if row.key.kind == "entity"]) == []
    assert [row.kind for row in table(ledger, outbox)] == ["memory"]


@pytest.fixture
def told(ledger: Ledger) -> list[str]:
    """Ids of the two memories of job "a", which is committed."""
    parts = make_parts(ledger)
    accept(parts, make_turn("one\ntwo", id="a"), make_turn("three", id="b"))
    run_all(parts)
    return [row.id for row in table(ledger, memories, memories.c.job_id == "a")]


def show(ledger: Ledger, *memory_ids: str) -> list[str]:
    with ledger.write() as tx:
        tx.execute(sa.delete(outbox).where(outbox.c.object_id.in_(memory_ids)))
        return mark_searchable(tx, memory_ids, now=at(7))


def test_a_job_is_searchable_when_all_of_its_memories_are_shown(ledger: Ledger, told: list[str]) -> None:
    assert show(ledger, told[0]) == []
    assert job_of(ledger, "a").state == "committed"
    assert show(ledger, told[1]) == ["a"]
    row = job_of(ledger, "a")
    assert (row.state, row.searchable_at) == ("searchable", at(7))
    assert job_of(ledger, "b").state == "committed"
    assert show(ledger, *told) == []


def test_a_failed_job_does_not_become_searchable(ledger: Ledger, told: list[str]) -> None:
    with ledger.write() as tx:
        tx.execute(sa.update(jobs).where(jobs.c.id == "a").values(state="cancelled"))
    assert show(ledger, *told) == []
    assert job_of(ledger, "a").state == "cancelled"


def test_of_two_relays_that_show_the_last_two_memories_at_the_same_time_one_sees_the_job_done(ledger: Ledger, told: list[str]) -> None:
    for lease, id in zip(("one", "two"), told, strict=True):
        with ledger.write() as tx:
            tx.execute(sa.update(outbox).where(outbox.c.object_id == id).values(lease=lease))
    rows = {row.object_id: row for row in table(ledger, outbox, outbox.c.kind == "memory")}
    gate = threading.Barrier(2)

    def work(lease: str, id: str) -> list[str]:
        from memline.contracts.index_object import ObjectKey

        with ledger.write() as tx:
            gone = settle(tx, [OutboxRow(ObjectKey("memory", "default", id), rows[id].version, 0)], lease=lease)
            if not ledger.is_sqlite:
                gate.wait(300)  # both have removed their row, and neither has committed
            return mark_searchable(tx, gone, now=START)

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(work, lease, id) for lease, id in zip(("one", "two"), told, strict=True)]
        assert sorted(future.result(timeout=300) for future in running) == [[], ["a"]]
    assert job_of(ledger, "a").state == "searchable"
