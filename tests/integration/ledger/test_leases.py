"""A batch on its way, and what is done about one that stopped, on both databases."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from memline.contracts.errors import LeaseLost, UnknownReceipt
from memline.ledger import leases as verbs
from memline.ledger.claim import ClaimLimits, claim
from memline.ledger.counters import read_counters
from memline.ledger.jobs import Stage, fail_jobs, jobs_of_lease, list_jobs, postpone_jobs, retry_job
from memline.ledger.leases import Lease, LeaseTimes
from memline.ledger.schema import jobs, lanes, leases
from memline.ledger.session import Ledger
from tests.parts import START, CountingIds, accept, job_of, make_parts, make_turn, table

TIMES = LeaseTimes(lease=60, resend=5)
_ids = CountingIds("batch")


def at(seconds: float) -> Any:
    return START + timedelta(seconds=seconds)


def fill(ledger: Ledger, *lanes_and_jobs: tuple[str, int]) -> None:
    accept(make_parts(ledger), *(make_turn(id=f"{user}-{n}", user=user) for user, many in lanes_and_jobs for n in range(1, many + 1)))


def claimed(ledger: Ledger, *, after: float = 0, in_flight: int = 1, unit: int = 32) -> list[Lease]:
    with ledger.write() as tx:
        limits = ClaimLimits(in_flight=in_flight, unit=unit)
        return claim(tx, now=at(after), limits=limits, times=TIMES, new_id=_ids.new, paid=False)


def taken(ledger: Ledger, lease: Lease, *, after: float = 0) -> Lease | None:
    with ledger.write() as tx:
        return verbs.take(tx, lease.id, lease.epoch, lease.stage, worker="w", now=at(after), times=TIMES)


def batch(ledger: Ledger, *lanes_and_jobs: tuple[str, int], unit: int = 32) -> Lease:
    """One batch of all, taken."""
    fill(ledger, *lanes_and_jobs)
    (lease,) = claimed(ledger, unit=unit)
    found = taken(ledger, lease)
    assert found is not None
    return found


def ids_of(ledger: Ledger, lease: Lease) -> list[str]:
    with ledger.read() as connection:
        return [job.id for job in jobs_of_lease(connection, lease.id)]


def lane_of(ledger: Ledger, user: str) -> Any:
    return table(ledger, lanes, lanes.c.user_id == user)[0]


def counted(ledger: Ledger, name: str) -> int:
    with ledger.read() as connection:
        return read_counters(connection)[name]


def test_a_batch_is_taken_once(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1))
    (lease,) = claimed(ledger)
    assert taken(ledger, lease, after=3) == lease
    assert taken(ledger, lease, after=4) is None
    (row,) = table(ledger, leases)
    assert (row.taken, row.worker, row.until) == (True, "w", at(63))


def test_a_batch_is_taken_once_by_threads_at_the_same_time(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1))
    (lease,) = claimed(ledger)
    gate = threading.Barrier(4)

    def work() -> Lease | None:
        gate.wait()
        return taken(ledger, lease)

    with ThreadPoolExecutor(4) as pool:
        found = [future.result(timeout=300) for future in [pool.submit(work) for _ in range(4)]]
    assert sorted(each is not None for each in found) == [False, False, False, True]


@pytest.mark.parametrize("change", ["epoch", "stage", "id"])
def test_a_message_of_another_epoch_stage_or_batch_takes_nothing(ledger: Ledger, change: str) -> None:
    fill(ledger, ("ann", 1))
    (lease,) = claimed(ledger)
    other = {
        "epoch": Lease(lease.id, 0, lease.stage, False),
        "stage": Lease(lease.id, 1, Stage.EMBED, False),
        "id": Lease("gone", 1, lease.stage, False),
    }[change]
    assert taken(ledger, other) is None
    assert taken(ledger, lease) is not None


def test_a_batch_that_waited_longer_than_its_lease_can_still_be_taken(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1))
    (lease,) = claimed(ledger)
    assert taken(ledger, lease, after=3600) is not None


def test_the_guard_passes_until_the_lease_runs_out_and_no_longer(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 1))
    with ledger.write() as tx:
        verbs.guard(tx, lease, now=at(59.9))
    with pytest.raises(LeaseLost, match=lease.id), ledger.write() as tx:
        verbs.guard(tx, lease, now=at(60))


def test_the_guard_refuses_a_batch_that_nobody_took(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1))
    (lease,) = claimed(ledger)
    with pytest.raises(LeaseLost), ledger.write() as tx:
        verbs.guard(tx, lease, now=START)


def test_a_renewed_lease_holds_longer_and_one_that_ran_out_is_not_renewed(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 1))
    with ledger.write() as tx:
        verbs.renew(tx, lease, now=at(50), times=TIMES)
    with ledger.write() as tx:
        verbs.guard(tx, lease, now=at(109))
    with pytest.raises(LeaseLost), ledger.write() as tx:
        verbs.renew(tx, lease, now=at(110), times=TIMES)


def test_an_advanced_batch_waits_at_the_next_stage(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 2))
    with ledger.write() as tx:
        after = verbs.advance(tx, lease, now=at(10), times=TIMES)
    assert after == Lease(lease.id, 1, Stage.EMBED, False)
    (row,) = table(ledger, leases)
    assert (row.stage, row.taken, row.worker, row.until, row.send_at) == ("embed", False, None, at(70), at(15))
    assert {row.stage for row in table(ledger, jobs)} == {"embed"}
    assert taken(ledger, lease) is None
    with pytest.raises(LeaseLost), ledger.write() as tx:
        verbs.guard(tx, lease, now=at(11))
    assert taken(ledger, after) is not None


def test_a_divided_batch_goes_on_in_two_parts(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 2), ("bob", 1))
    with ledger.write() as tx:
        ready = [job for job in jobs_of_lease(tx, lease.id) if job.scope.user_id == "ann"]
        part = verbs.divide(tx, lease, ready, new_id="part", now=at(1), times=TIMES)
    assert part == Lease("part", 1, Stage.EMBED, False)
    assert (ids_of(ledger, part), ids_of(ledger, lease)) == (["ann-1", "ann-2"], ["bob-1"])
    assert (lane_of(ledger, "ann").lease_id, lane_of(ledger, "bob").lease_id) == ("part", lease.id)
    assert (job_of(ledger, "ann-1").stage, job_of(ledger, "bob-1").stage) == ("embed", "extract")
    with ledger.write() as tx:
        verbs.guard(tx, lease, now=at(2))
    assert taken(ledger, part) is not None


def test_an_ended_batch_leaves_finished_jobs_and_free_lanes(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 3), unit=2)
    with ledger.write() as tx:
        verbs.end(tx, lease, now=at(9))
    row = job_of(ledger, "ann-2")
    assert (row.stage, row.finished_at, row.lease_id) == ("done", at(9), None)
    lane = lane_of(ledger, "ann")
    assert (lane.lease_id, lane.done_position, lane.last_position, lane.ready_at) == (None, 2, 3, at(9))
    assert table(ledger, leases) == []
    assert [ids_of(ledger, each) for each in claimed(ledger, after=9)] == [["ann-3"]]


def test_an_ended_batch_leaves_an_empty_lane_idle(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 2))
    with ledger.write() as tx:
        verbs.end(tx, lease, now=at(9))
    lane = lane_of(ledger, "ann")
    assert lane.done_position == lane.last_position == 2
    assert claimed(ledger, after=10) == []


def test_a_turn_that_comes_while_a_batch_runs_is_next(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 1))
    accept(make_parts(ledger), make_turn(id="ann-2"))
    with ledger.write() as tx:
        verbs.end(tx, lease, now=at(9))
    assert [ids_of(ledger, each) for each in claimed(ledger, after=9)] == [["ann-2"]]


def test_a_batch_that_is_handed_back_is_claimed_again_where_it_stands(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 2))
    with ledger.write() as tx:
        after = verbs.advance(tx, lease, now=START, times=TIMES)
        verbs.hand_back(tx, after, now=at(1))
    (again,) = claimed(ledger, after=1)
    assert again.stage is Stage.EMBED
    assert again.id != lease.id
    assert ids_of(ledger, again) == ["ann-1", "ann-2"]
    assert [row.attempts for row in table(ledger, jobs)] == [0, 0]


def test_a_postponed_head_holds_its_lane_until_its_time(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 2), ("bob", 1))
    with ledger.write() as tx:
        found = [job for job in jobs_of_lease(tx, lease.id) if job.scope.user_id == "ann"]
        postpone_jobs(tx, found[:1], next_at=at(30), spend=True, alone=False, reason="later")
        postpone_jobs(tx, found[1:], next_at=START, spend=False, alone=False, reason="waits")
        verbs.free_lanes(tx, lease.id, now=START, only_empty=True)
    assert (lane_of(ledger, "ann").lease_id, lane_of(ledger, "ann").ready_at) == (None, at(30))
    assert lane_of(ledger, "bob").lease_id == lease.id
    assert claimed(ledger, after=29, in_flight=5) == []
    assert [ids_of(ledger, each) for each in claimed(ledger, after=30, in_flight=2)] == [["ann-1", "ann-2"]]
    assert (job_of(ledger, "ann-1").attempts, job_of(ledger, "ann-2").attempts) == (1, 0)


def test_only_lanes_without_a_job_in_the_batch_are_freed(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 2), ("bob", 1))
    with ledger.write() as tx:
        first = jobs_of_lease(tx, lease.id)
        fail_jobs(tx, [job.no for job in first if job.id in ("ann-1", "bob-1")], reason="no", now=START)
        verbs.free_lanes(tx, lease.id, now=START, only_empty=True)
    assert lane_of(ledger, "ann").lease_id == lease.id
    assert (lane_of(ledger, "bob").lease_id, lane_of(ledger, "bob").done_position) == (None, 1)


def test_what_nobody_took_is_sent_again_and_waits_on(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1), ("bob", 1))
    one, other = claimed(ledger, in_flight=2)
    assert taken(ledger, other) is not None
    with ledger.write() as tx:
        assert verbs.send_again(tx, now=at(4), times=TIMES) == []
    with ledger.write() as tx:
        assert verbs.send_again(tx, now=at(5), times=TIMES) == [one]
    with ledger.write() as tx:
        assert verbs.send_again(tx, now=at(6), times=TIMES) == []
    row = next(row for row in table(ledger, leases) if row.id == one.id)
    assert (row.send_at, row.until) == (at(10), at(65))
    assert counted(ledger, "messages_resent") == 1


def test_a_batch_in_a_queue_never_runs_out_by_waiting(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1))
    (lease,) = claimed(ledger)
    with ledger.write() as tx:
        assert verbs.dissolve_expired(tx, now=at(86400), max_attempts=3) == 0
    assert taken(ledger, lease, after=86400) is not None


def test_a_worker_that_stops_hands_back_what_it_took_and_nothing_else(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1), ("bob", 1), ("cat", 1))
    mine, others, waiting = claimed(ledger, in_flight=3)
    for lease, worker in ((mine, "w-1"), (others, "w-2")):
        with ledger.write() as tx:
            assert verbs.take(tx, lease.id, lease.epoch, lease.stage, worker=worker, now=START, times=TIMES) is not None
    with ledger.write() as tx:
        assert verbs.hand_back_all(tx, "w-1", now=at(1)) == 1
    with ledger.write() as tx:
        assert verbs.hand_back_all(tx, "w-1", now=at(1)) == 0
    assert {row.id for row in table(ledger, leases)} == {others.id, waiting.id}
    assert counted(ledger, "batches_handed_back") == 1
    with pytest.raises(LeaseLost), ledger.write() as tx:
        verbs.guard(tx, mine, now=at(1))  # what the worker still does for it commits nothing
    (again,) = claimed(ledger, after=1, in_flight=3)  # at once, as they were
    assert ids_of(ledger, again) == list(mine.jobs)
    assert {(row.alone, row.attempts) for row in table(ledger, jobs)} == {(False, 0)}


def test_the_jobs_of_a_dead_workers_batch_are_retried_alone_and_spend_nothing(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 2), ("bob", 1))
    with ledger.write() as tx:
        assert verbs.dissolve_expired(tx, now=at(59), max_attempts=3) == 0
        assert verbs.dissolve_expired(tx, now=at(60), max_attempts=3) == 1
    assert [(row.alone, row.attempts, row.lease_id, row.state) for row in table(ledger, jobs)] == [(True, 0, None, "accepted")] * 3
    assert counted(ledger, "leases_expired") == 1
    with pytest.raises(LeaseLost), ledger.write() as tx:
        verbs.guard(tx, lease, now=START)
    again = claimed(ledger, after=60, in_flight=8)
    assert sorted(ids_of(ledger, each) for each in again) == [["ann-1"], ["bob-1"]]
    assert all(each.alone for each in again)


def test_a_job_whose_worker_dies_while_it_is_alone_spends_attempts_and_fails_at_last(ledger: Ledger) -> None:
    fill(ledger, ("ann", 2))
    seconds = 0.0
    for attempt in (0, 1, 2, 3):
        (lease,) = claimed(ledger, after=seconds, unit=1)
        assert ids_of(ledger, lease) == ["ann-1"] if attempt < 3 else ["ann-2"]
        if attempt == 3:
            break
        assert taken(ledger, lease, after=seconds) is not None
        seconds += 61
        with ledger.write() as tx:
            verbs.dissolve_expired(tx, now=at(seconds), max_attempts=3)
        assert job_of(ledger, "ann-1").attempts == attempt + 1
    row = job_of(ledger, "ann-1")
    assert (row.state, row.finished_at) == ("failed", at(seconds))
    assert "died or hung 3 times at extract" in row.reason
    assert counted(ledger, "jobs_failed") == 1
    assert job_of(ledger, "ann-2").attempts == 0


def failed(ledger: Ledger, *ids: str) -> None:
    """Fails jobs that are in the one batch there is, and ends it."""
    (row,) = table(ledger, leases)
    with ledger.write() as tx:
        found = jobs_of_lease(tx, row.id)
        fail_jobs(tx, [job.no for job in found if job.id in ids], reason="it can't be read", now=START)
        verbs.end(tx, Lease(row.id, 1, Stage(row.stage), False), now=START)


def test_a_replayed_job_goes_to_the_end_of_the_queue_and_keeps_its_seat(ledger: Ledger) -> None:
    batch(ledger, ("ann", 3), unit=2)
    failed(ledger, "ann-1")
    with ledger.write() as tx:
        assert retry_job(tx, "ann-1", now=at(5)) is True
    row = job_of(ledger, "ann-1")
    assert (row.place, row.position, row.state, row.attempts, row.alone) == (1, 4, "accepted", 0, True)
    assert (row.reason, row.finished_at) == (None, None)
    assert [ids_of(ledger, each) for each in claimed(ledger, after=5, in_flight=4)] == [["ann-3"]]


def test_a_replayed_job_of_an_idle_lane_can_be_claimed_at_once(ledger: Ledger) -> None:
    batch(ledger, ("ann", 2))
    failed(ledger, "ann-1", "ann-2")
    with ledger.write() as tx:
        retry_job(tx, "ann-2", now=at(500))
    assert lane_of(ledger, "ann").ready_at == at(500)
    assert [ids_of(ledger, each) for each in claimed(ledger, after=500)] == [["ann-2"]]


def test_only_a_job_that_failed_is_replayed(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1))
    with ledger.write() as tx:
        assert retry_job(tx, "ann-1", now=START) is False
    (lease,) = claimed(ledger)
    with ledger.write() as tx:
        assert retry_job(tx, "ann-1", now=START) is False
        verbs.end(tx, lease, now=START)
        assert retry_job(tx, "ann-1", now=START) is False
    with pytest.raises(UnknownReceipt, match="nobody"), ledger.write() as tx:
        retry_job(tx, "nobody", now=START)


def test_two_replays_at_the_same_time_replay_once(ledger: Ledger) -> None:
    batch(ledger, ("ann", 1))
    failed(ledger, "ann-1")
    gate = threading.Barrier(2)

    def work() -> bool:
        gate.wait()
        with ledger.write() as tx:
            return retry_job(tx, "ann-1", now=START)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(future.result(timeout=300) for future in [pool.submit(work) for _ in range(2)]) == [False, True]
    assert job_of(ledger, "ann-1").position == 2


def test_a_committed_job_that_fails_stays_committed_and_shows_the_stage(ledger: Ledger) -> None:
    lease = batch(ledger, ("ann", 1))
    with ledger.write() as tx:
        tx.execute(sa.update(jobs).values(state="committed", stage="link", committed_at=START))
        fail_jobs(tx, [job.no for job in jobs_of_lease(tx, lease.id)], reason="no", now=START)
    row = job_of(ledger, "ann-1")
    assert (row.state, row.stage, row.finished_at, row.reason) == ("committed", "link", START, "no")
    with ledger.write() as tx:
        verbs.hand_back(tx, lease, now=START)
        assert retry_job(tx, "ann-1", now=START) is True
    row = job_of(ledger, "ann-1")
    assert (row.state, row.stage) == ("committed", "link")


def test_jobs_are_listed_newest_first_by_state_and_without_text(ledger: Ledger) -> None:
    batch(ledger, ("ann", 3), unit=2)
    failed(ledger, "ann-1")
    with ledger.read() as connection:
        assert [row["id"] for row in list_jobs(connection, "default")] == ["ann-3", "ann-2", "ann-1"]
        (only,) = list_jobs(connection, "default", state="failed")
        assert (only["id"], only["reason"], only["user_id"]) == ("ann-1", "it can't be read", "ann")
        assert not {"messages", "metadata", "prompt"} & set(only)
        assert [row["id"] for row in list_jobs(connection, "default", state="unfinished")] == ["ann-3"]
        assert [row["id"] for row in list_jobs(connection, "default", limit=1)] == ["ann-3"]
        assert list_jobs(connection, "other") == []


def test_batches_and_accepts_that_lock_the_same_lanes_at_the_same_time_all_get_through(ledger: Ledger) -> None:
    users = [f"u{number:02}" for number in range(16)]
    lease = batch(ledger, *((user, 1) for user in users))
    gate = threading.Barrier(3)

    def accepting(order: list[str], name: str) -> None:
        gate.wait()
        for round in range(4):
            accept(make_parts(ledger), *(make_turn(id=f"{name}-{round}-{user}", user=user) for user in order))

    def dividing() -> None:
        gate.wait()
        for start in range(0, 14, 2):
            with ledger.write() as tx:
                ready = jobs_of_lease(tx, lease.id)[::-1][:2]
                verbs.divide(tx, lease, ready, new_id=f"part-{start}", now=START, times=TIMES)
                verbs.free_lanes(tx, lease.id, now=START, only_empty=True)

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(accepting, users, "p"), pool.submit(accepting, users[::-1], "q"), pool.submit(dividing)]
        for future in running:
            future.result(timeout=300)
    assert len(ids_of(ledger, lease)) == 2
    assert all(row.last_position == 9 for row in table(ledger, lanes))
