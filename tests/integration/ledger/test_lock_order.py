"""Writers of PostgreSQL that meet in the same rows: one waits for the other, and never both.

In each test a transaction of the test stands for one writer: it locks what that one locks first, waits until the verb under test waits for
it, and goes on to what that one locks next. Where the verb holds that already, PostgreSQL finds a deadlock and the test fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection

from memline.contracts.errors import ProviderRefused
from memline.contracts.scope import Owner, Scope, Subject
from memline.ledger.accept import accept_turns
from memline.ledger.calls import begin_calls
from memline.ledger.changes import prune_changes
from memline.ledger.claim import ClaimLimits, claim
from memline.ledger.counters import count, read_counters
from memline.ledger.delete_all import delete_all
from memline.ledger.erase import begin
from memline.ledger.jobs import STAGES, Stage, jobs_of_lease, retry_job
from memline.ledger.leases import LeaseTimes, dissolve_expired, take
from memline.ledger.locks import lock_one_of, lock_owners
from memline.ledger.meta import check_embedder
from memline.ledger.next_vectors import move_in
from memline.ledger.outbox import enqueue, write_enqueued
from memline.ledger.retire import delete_memory
from memline.ledger.schema import (
    changes,
    entities,
    jobs,
    lanes,
    leases,
    memories,
    next_entity_vectors,
    next_vectors,
    outbox,
    owners,
    stage_results,
)
from memline.ledger.seats import release_held
from memline.ledger.session import Ledger, before_commit
from memline.pipeline.paid import paid_call
from memline.pipeline.runner import run_stage
from tests.parts import START, CountingIds, accept, job_of, make_parts, make_turn, run_all, table

on_postgres = pytest.mark.parametrize("ledger", ["postgres"], indirect=True)

TIMES = LeaseTimes(lease=60, resend=5)
ANN, BOB = Scope("default", "ann"), Scope("default", "bob")


class Verb:
    """A verb that runs in a thread of its own, while a transaction of the test is open."""

    def __init__(self, ledger: Ledger, run: Callable[[], object]) -> None:
        self._ledger, self._run = ledger, run
        self.raised: list[Exception] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.raised.append(error)

    def until_it_waits(self) -> None:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        while True:
            with self._ledger.read() as connection:
                if connection.execute(sa.text(query)).scalar_one():
                    return
            assert self._thread.is_alive(), self.raised or "it waited for nothing"

    def until_it_ends(self) -> list[Exception]:
        self._thread.join(300)
        assert not self._thread.is_alive()
        return self.raised

    def ended(self) -> None:
        """Waits until it has ended, well."""
        assert self.until_it_ends() == []


@contextmanager
def beside(ledger: Ledger, first: Callable[[Connection], object], run: Callable[[], object]) -> Iterator[Connection]:
    """The test's transaction, after *first*, when the verb waits for it; at the end both have come through."""
    with ledger.write() as tx:
        first(tx)
        verb = Verb(ledger, run)
        verb.until_it_waits()
        yield tx
    verb.ended()


def writes(ledger: Ledger, verb: Callable[[Connection], object]) -> Callable[[], object]:
    def run() -> object:
        with ledger.write() as tx:
            return verb(tx)

    return run


def lock(tx: Connection, source: sa.Table, *where: sa.ColumnElement[bool]) -> None:
    assert tx.execute(sa.select(sa.literal(1)).select_from(source).where(*where).with_for_update()).all()


def committed(ledger: Ledger, *users: str) -> list[Any]:
    """A memory for each of *users*, which the index has not seen; their jobs, which are through, in the order in which all lock them."""
    parts = make_parts(ledger)
    accept(parts, *(make_turn(f"{user} met Anna {n} times", id=f"{user}-{n}", user=user) for n, user in enumerate(users, 1)))
    run_all(parts)
    return turned_round(ledger)


def turned_round(ledger: Ledger) -> list[Any]:
    """The jobs in the order in which all lock them. The last of a lane is the first: a statement that keeps no order meets it last."""
    last = table(ledger, jobs)[-1]
    with ledger.write() as tx:
        tx.execute(sa.update(jobs).where(jobs.c.no == last.no).values(no=-1))
    return sorted(table(ledger, jobs), key=lambda row: row.no)


def claimed(ledger: Ledger, *, unit: int = 32) -> None:
    """What is ready, as one batch, taken by a worker."""
    with ledger.write() as tx:
        limits = ClaimLimits(in_flight=1, unit=unit)
        (lease,) = claim(tx, now=START, limits=limits, times=TIMES, new_id=CountingIds("batch").new, paid=False)
        assert take(tx, lease.id, lease.epoch, lease.stage, worker="w", now=START, times=TIMES)


def counted(ledger: Ledger) -> dict[str, int]:
    with ledger.read() as connection:
        return {name: number for name, number in read_counters(connection).items() if number}


def test_what_a_transaction_counts_is_there_for_itself_and_after_its_commit(ledger: Ledger) -> None:
    def fails(tx: Connection) -> None:
        count(tx, "late_turns")
        raise ZeroDivisionError

    with ledger.write() as tx:
        count(tx, "late_turns")
        count(tx, "drift_stale", 3)
        count(tx, "late_turns", 2)
        assert read_counters(tx)["late_turns"] == 3
    with pytest.raises(ZeroDivisionError):
        writes(ledger, fails)()
    with ledger.write() as tx:
        count(tx, "late_turns")
    assert counted(ledger) == {"late_turns": 4, "drift_stale": 3}


def test_what_would_never_be_written_is_refused(ledger: Ledger) -> None:
    with ledger.write() as over:
        count(over, "late_turns")
    with ledger.read() as reading, pytest.raises(KeyError):
        enqueue(reading, "memory", {"a": ("default", 1)}, now=START)
    with pytest.raises(KeyError):
        enqueue(over, "memory", {"a": ("default", 1)}, now=START)
    assert table(ledger, outbox) == []


def test_what_is_written_last_may_count(ledger: Ledger) -> None:
    with ledger.write() as tx:
        before_commit(tx, 1, lambda tx: count(tx, "late_turns"))
        before_commit(tx, 2, lambda tx: count(tx, "order_gaps"))
    assert counted(ledger) == {"late_turns": 1, "order_gaps": 1}


@on_postgres
def test_who_counts_holds_nobody_up_until_it_commits(ledger: Ledger) -> None:
    def other(tx: Connection) -> None:
        count(tx, "turns_cancelled")
        count(tx, "late_turns")

    with ledger.write() as tx:
        count(tx, "late_turns")
        Verb(ledger, writes(ledger, other)).ended()
        count(tx, "turns_cancelled")
    assert counted(ledger) == {"late_turns": 2, "turns_cancelled": 2}


@on_postgres
def test_turns_that_were_masked_are_accepted_side_by_side(ledger: Ledger) -> None:
    def take_in(*kinds: str) -> Callable[[Connection], object]:
        turns = [make_turn(user=f"{kinds[0]}-{number}", masked={kind: 1}) for number, kind in enumerate(kinds)]
        return lambda tx: accept_turns(tx, turns, now=START, order_wait=30)

    with ledger.write() as tx:
        take_in("email", "api_key")(tx)
        Verb(ledger, writes(ledger, take_in("api_key", "email"))).ended()
    assert counted(ledger) == {"masked_email": 2, "masked_api_key": 2}


@on_postgres
def test_the_outbox_is_written_in_one_order_whatever_the_order_of_a_transaction(ledger: Ledger) -> None:
    def enqueue_all(tx: Connection) -> None:
        enqueue(tx, "entity", {"e": ("default", 1)}, now=START)
        for memory_id in "ba":
            enqueue(tx, "memory", {memory_id: ("default", 1)}, now=START)

    writes(ledger, enqueue_all)()
    with beside(ledger, lambda tx: lock(tx, outbox, outbox.c.object_id == "a"), writes(ledger, enqueue_all)) as relaying:
        lock(relaying, outbox, outbox.c.object_id == "b")
        lock(relaying, outbox, outbox.c.object_id == "e")


def test_what_was_enqueued_is_written_once_in_its_newest_version(ledger: Ledger) -> None:
    with ledger.write() as tx:
        enqueue(tx, "memory", {"a": ("default", 1)}, now=START)
        assert write_enqueued(tx) == {}
        tx.execute(sa.update(outbox).values(lease="relay", next_at=START + timedelta(seconds=60)))
        enqueue(tx, "memory", {"a": ("default", 2)}, now=START)
        enqueue(tx, "memory", {"a": ("default", 3)}, now=START)
        assert write_enqueued(tx) == {"relay": START + timedelta(seconds=60)}
        enqueue(tx, "entity", {"a": ("default", 1)}, now=START)
    assert sorted((row.kind, row.version, row.lease) for row in table(ledger, outbox)) == [("entity", 1, None), ("memory", 3, "relay")]


@on_postgres
def test_a_deletion_locks_the_turn_of_its_memory_before_the_outbox(ledger: Ledger) -> None:
    committed(ledger, "ann")
    (memory,) = table(ledger, memories)

    def delete() -> None:
        delete_memory(ledger, "default", memory.id, now=START)

    with beside(ledger, lambda tx: lock(tx, jobs), delete) as relaying:
        lock(relaying, outbox, outbox.c.object_id == memory.id)
    assert job_of(ledger, "ann-1").messages is None


@on_postgres
def test_delete_all_locks_finished_turns_in_their_order(ledger: Ledger) -> None:
    first, second = committed(ledger, "ann", "ann")

    def delete() -> None:
        delete_all(ledger, ANN, now=START)

    with beside(ledger, lambda tx: lock(tx, jobs, jobs.c.no == first.no), delete) as relaying:
        lock(relaying, jobs, jobs.c.no == second.no)
    assert [row.messages for row in table(ledger, jobs)] == [None, None]


def deletes(tx: Connection) -> None:
    """What a deletion of everything of Ann has locked when it comes to lanes whose batch is on its way."""
    lock_one_of(tx, Subject("default", "user", "ann"), [Subject("default", "namespace", "default")])
    tx.execute(sa.select(jobs.c.no).order_by(jobs.c.no).with_for_update()).all()


@on_postgres
@pytest.mark.parametrize("verb", ["delete_all", "erase"])
def test_a_batch_that_is_claimed_while_its_jobs_are_cancelled_is_locked_before_them(ledger: Ledger, verb: str) -> None:
    accept(make_parts(ledger), make_turn(id="a"))
    free: list[Any] = []

    @event.listens_for(ledger.engine, "before_cursor_execute")
    def look(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement.startswith("SELECT count(*)") and "FROM jobs" in statement and "FOR UPDATE" in statement and watching:
            watching.clear()
            with ledger.write() as worker:  # takes it, if it can
                free.extend(worker.execute(sa.select(leases.c.id).with_for_update(skip_locked=True)).all())
                there.extend(worker.execute(sa.select(leases.c.id)).all())

    there: list[Any] = []
    watching: list[bool] = []

    def cancel() -> None:
        if verb == "delete_all":
            delete_all(ledger, ANN, now=START)
        else:
            subject = Subject("default", "user", "ann")
            begin(ledger, subject, id="e", hash="h", key_id="k", place="", now=START)

    def claiming(tx: Connection) -> None:
        claim(tx, now=START, limits=ClaimLimits(in_flight=1), times=TIMES, new_id=CountingIds("batch").new, paid=False)
        watching.append(True)

    with beside(ledger, claiming, cancel):
        pass
    assert there and not free
    assert table(ledger, leases) == [] and job_of(ledger, "a").state == "cancelled"
    assert table(ledger, lanes)[0].lease_id is None


@on_postgres
def test_the_sweep_seats_no_turn_whose_scope_is_being_deleted(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn(id="first", producer="p", number=1))
    claimed(ledger)
    accept(parts, make_turn(id="third", producer="p", number=3))
    late = START + timedelta(seconds=31)
    with beside(ledger, deletes, writes(ledger, lambda tx: release_held(tx, now=late))) as deleting:
        lock(deleting, lanes)
    assert job_of(ledger, "third").position == 2


@on_postgres
def test_a_replay_waits_for_a_deletion_before_it_locks_the_lane(ledger: Ledger) -> None:
    accept(make_parts(ledger), make_turn(id="failed"), make_turn(id="next"))
    claimed(ledger)
    with ledger.write() as tx:
        tx.execute(sa.update(jobs).where(jobs.c.id == "failed").values(state="failed", finished_at=START, lease_id=None))
    with beside(ledger, deletes, writes(ledger, lambda tx: retry_job(tx, "failed", now=START))) as deleting:
        lock(deleting, lanes)
    assert job_of(ledger, "failed").position == 3


@on_postgres
def test_the_sweep_locks_the_jobs_of_dead_workers_in_their_order(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, *(make_turn(id=id) for id in ("a", "b")))
    claimed(ledger)
    first, second = turned_round(ledger)
    late = START + timedelta(seconds=61)
    sweep = writes(ledger, lambda tx: dissolve_expired(tx, now=late, max_attempts=3))
    with beside(ledger, lambda tx: lock(tx, jobs, jobs.c.no == first.no), sweep) as relaying:
        lock(relaying, jobs, jobs.c.no == second.no)
    assert table(ledger, leases) == []


@on_postgres
def test_a_job_that_is_cancelled_while_it_is_claimed_stays_cancelled(ledger: Ledger) -> None:
    accept(make_parts(ledger), make_turn(id="a"), make_turn(id="b", user="bob"))

    def cancel(tx: Connection) -> None:
        ended = {"state": "cancelled", "finished_at": START}
        tx.execute(sa.update(jobs).where(jobs.c.id == "a").values(ended))

    with beside(ledger, cancel, lambda: claimed(ledger)):
        pass
    assert [(row.state, row.lease_id) for row in table(ledger, jobs)] == [("cancelled", None), ("accepted", "batch-000001")]


@pytest.mark.parametrize("stage", STAGES)
def test_a_batch_of_which_no_job_is_left_ends_and_frees_its_lane(ledger: Ledger, stage: Stage) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn(id="a"))
    with ledger.write() as tx:
        limits = ClaimLimits(in_flight=1)
        (lease,) = claim(tx, now=START, limits=limits, times=TIMES, new_id=CountingIds("batch").new, paid=False)
        tx.execute(sa.update(jobs).values(state="cancelled", finished_at=START, lease_id=None))
        tx.execute(sa.update(leases).values(stage=stage.value))
    assert run_stage(parts, lease.id, lease.epoch, stage, worker="w", send=lambda batches: None) is None
    (lane,) = table(ledger, lanes)
    assert (table(ledger, leases), lane.lease_id, lane.done_position) == ([], None, lane.last_position)


@on_postgres
def test_the_bill_of_a_failed_call_waits_for_a_deletion_with_empty_hands(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn(id="ann", user="ann"), make_turn(id="bob", user="bob"))
    found: list[Any] = []
    claimed(ledger)
    with ledger.write() as tx:
        (row,) = table(ledger, leases)
        found += jobs_of_lease(tx, row.id)
        begin_calls(tx, "extract", ["ann", "bob"], now=START)  # its answer was lost: the next one is a repetition, which is told
    asking, goes_wrong = threading.Event(), threading.Event()

    def call() -> None:
        with paid_call(parts, "extract", found, model="m"):
            asking.set()
            assert goes_wrong.wait(300)
            raise ProviderRefused("no")

    verb = Verb(ledger, call)
    assert asking.wait(300)
    with ledger.write() as deleting:
        lock(deleting, jobs)
        goes_wrong.set()
        verb.until_it_waits()
        deleting.execute(sa.delete(stage_results))
    (error,) = verb.until_it_ends()
    assert isinstance(error, ProviderRefused)


@on_postgres
def test_vectors_move_in_with_all_subjects_locked_before_any_owner(ledger: Ledger) -> None:
    committed(ledger, "ann", "bob")
    (anns,) = table(ledger, memories, memories.c.user_id == "ann")
    bobs = table(ledger, entities, entities.c.lane == BOB.lane)[0]
    zeros = bytes(4 * 64)
    with ledger.write() as tx:
        check_embedder(tx, make_parts(ledger).embedder.model, 64)
        tx.execute(sa.insert(next_vectors).values(memory_no=anns.no, source=anns.digest, model="next", vector=zeros))
        tx.execute(sa.insert(next_entity_vectors).values(entity_no=bobs.no, source="1", model="next", vector=zeros))

    def delete_bobs(tx: Connection) -> None:
        lock_one_of(tx, Subject("default", "user", "bob"), [Subject("default", "namespace", "default")])

    with beside(ledger, delete_bobs, writes(ledger, lambda tx: move_in(tx, limit=10))) as deleting:
        lock_owners(deleting, [Owner("default", "ann", None, None).key])
    assert table(ledger, next_vectors) == table(ledger, next_entity_vectors) == []


@on_postgres
def test_an_owner_that_an_erasure_removes_at_the_moment_is_made_anew(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.execute(sa.insert(owners).values(key=ANN.owner.key, namespace="default", user_id="ann"))
    (before,) = table(ledger, owners)
    erased: list[str] = []

    @event.listens_for(ledger.engine, "before_cursor_execute")
    def erase(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement.startswith("SELECT owners.key") and not erased:
            erased.append(statement)
            with ledger.write() as erasing:
                erasing.execute(sa.delete(owners))

    accept(make_parts(ledger), make_turn(id="a"))
    (after,) = table(ledger, owners)
    assert after.no != before.no
    assert [row.owner_no for row in table(ledger, lanes)] == [after.no]


@on_postgres
def test_the_feed_is_pruned_up_to_what_an_erasure_changes_at_the_moment(ledger: Ledger) -> None:
    committed(ledger, "ann", "bob", "cid", "dan")
    rows = table(ledger, changes)
    with ledger.write() as erasing:
        erasing.execute(sa.update(changes).where(changes.c.no == rows[2].no).values(event="ERASE"))
        with ledger.write() as tx:
            assert prune_changes(tx, until=START + timedelta(days=1), limit=100) == 1
    assert [row.no for row in table(ledger, changes)] == [row.no for row in rows[1:]]
