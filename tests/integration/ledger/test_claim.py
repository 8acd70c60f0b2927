"""Claiming: heads of idle lanes become batches, on both databases."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from memline.ledger.cancel import cancel_jobs
from memline.ledger.claim import ClaimLimits, claim
from memline.ledger.leases import Lease, LeaseTimes
from memline.ledger.schema import jobs, lanes, leases
from memline.ledger.session import Ledger
from tests.parts import START, CountingIds, accept, job_of, make_parts, make_turn, table

TIMES = LeaseTimes(lease=60, resend=5)
_ids = CountingIds("batch")


def fill(ledger: Ledger, *lanes_and_jobs: tuple[str, int], **options: Any) -> None:
    """Accepts so many turns for each user: ids are user-1, user-2, …"""
    parts = make_parts(ledger)
    accept(parts, *(make_turn(id=f"{user}-{n}", user=user, **options) for user, many in lanes_and_jobs for n in range(1, many + 1)))


def take_out(ledger: Ledger, *, after: float = 0.0, paid: bool = False, **limits: int) -> list[list[str]]:
    """Claims, and says which jobs the batches have, each lane in its order."""
    with ledger.write() as tx:
        now = START + timedelta(seconds=after)
        claimed = claim(tx, now=now, limits=ClaimLimits(**limits), times=TIMES, new_id=_ids.new, paid=paid)
    return [batch_of(ledger, lease) for lease in claimed]


def batch_of(ledger: Ledger, lease: Lease) -> list[str]:
    with ledger.read() as connection:
        query = sa.select(jobs.c.id).where(jobs.c.lease_id == lease.id).order_by(jobs.c.lane, jobs.c.position)
        return list(connection.execute(query).scalars())


def set_job(ledger: Ledger, *ids: str, **values: Any) -> None:
    with ledger.write() as tx:
        tx.execute(sa.update(jobs).where(jobs.c.id.in_(ids)).values(**values))


def test_an_empty_ledger_gives_nothing(ledger: Ledger) -> None:
    assert take_out(ledger) == []


def test_a_lane_has_at_most_one_batch_at_a_time(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1))
    assert take_out(ledger) == [["ann-1"]]
    fill(ledger, ("bob", 1))
    accept(make_parts(ledger), make_turn(id="ann-2"))
    assert take_out(ledger) == [["bob-1"]]
    assert take_out(ledger) == []


def test_an_idle_system_claims_a_job_a_batch(ledger: Ledger) -> None:
    fill(ledger, ("ann", 1), ("bob", 1), ("cat", 1))
    assert sorted(take_out(ledger)) == [["ann-1"], ["bob-1"], ["cat-1"]]


def test_batches_grow_with_the_load(ledger: Ledger) -> None:
    fill(ledger, *((f"u{number:02}", 1) for number in range(20)))
    batches = take_out(ledger, in_flight=4, batch=32)
    assert sorted(map(len, batches)) == [5, 5, 5, 5]


def test_a_batch_is_never_larger_than_its_limit(ledger: Ledger) -> None:
    fill(ledger, *((f"u{number:02}", 1) for number in range(20)))
    batches = take_out(ledger, in_flight=2, batch=3)
    assert sorted(map(len, batches)) == [3, 3]


def test_no_more_batches_are_out_than_in_flight_allows(ledger: Ledger) -> None:
    fill(ledger, *((f"u{number:02}", 1) for number in range(20)))
    assert len(take_out(ledger, in_flight=3, batch=2)) == 3
    assert take_out(ledger, in_flight=3, batch=2) == []
    assert len(take_out(ledger, in_flight=4, batch=2)) == 1
    assert len(table(ledger, leases)) == 4


def test_a_unit_is_the_consecutive_jobs_of_a_lane_up_to_its_limit(ledger: Ledger) -> None:
    fill(ledger, ("ann", 5))
    assert take_out(ledger, unit=3) == [["ann-1", "ann-2", "ann-3"]]


def test_a_paid_model_gets_one_job_of_a_lane_at_a_time(ledger: Ledger) -> None:
    fill(ledger, ("ann", 3))
    assert take_out(ledger, paid=True) == [["ann-1"]]


def test_a_paid_model_is_no_reason_to_cut_verbatim_turns_or_later_stages(ledger: Ledger) -> None:
    fill(ledger, ("ann", 3), infer=False)
    fill(ledger, ("bob", 3))
    set_job(ledger, "bob-1", "bob-2", stage="persist")
    assert sorted(take_out(ledger, paid=True)) == [["ann-1", "ann-2", "ann-3"], ["bob-1", "bob-2"]]


def test_a_verbatim_turn_before_one_for_a_paid_model_goes_without_it(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn(id="a", infer=False), make_turn(id="b", infer=False), make_turn(id="c"), make_turn(id="d"))
    assert take_out(ledger, paid=True) == [["a", "b"]]


def test_a_unit_ends_before_a_job_that_is_to_run_alone_and_that_one_runs_alone(ledger: Ledger) -> None:
    fill(ledger, ("ann", 3), ("bob", 1))
    set_job(ledger, "ann-2", alone=True)
    assert sorted(take_out(ledger, in_flight=1, batch=10)) == [["ann-1", "bob-1"]]
    set_job(ledger, "ann-1", lease_id=None, finished_at=START)
    with ledger.write() as tx:
        tx.execute(sa.update(lanes).values(lease_id=None))
        tx.execute(sa.update(jobs).where(jobs.c.id == "bob-1").values(lease_id=None))
        tx.execute(sa.delete(leases))
    assert sorted(take_out(ledger, in_flight=8)) == [["ann-2"], ["bob-1"]]
    assert [row.alone for row in table(ledger, leases)] in ([True, False], [False, True])


def test_a_unit_ends_where_the_stage_changes_and_a_batch_has_one_stage(ledger: Ledger) -> None:
    fill(ledger, ("ann", 2), ("bob", 1))
    set_job(ledger, "ann-1", stage="link")
    assert sorted(take_out(ledger)) == [["ann-1"], ["bob-1"]]
    assert sorted(row.stage for row in table(ledger, leases)) == ["extract", "link"]


def test_a_head_that_waits_for_its_next_try_holds_its_lane_and_no_other(ledger: Ledger) -> None:
    fill(ledger, ("ann", 2), ("bob", 2))
    set_job(ledger, "ann-1", next_at=START + timedelta(seconds=10))
    set_job(ledger, "bob-2", next_at=START + timedelta(seconds=10))
    assert take_out(ledger) == [["bob-1"]]
    assert take_out(ledger, after=11) == [["ann-1", "ann-2"]]
    assert job_of(ledger, "ann-1").next_at is None


def test_the_lane_that_waited_longest_goes_first(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    for second, user in enumerate(["zoe", "ann", "mia"]):
        parts.clock.advance(1)  # type: ignore[attr-defined]
        accept(parts, make_turn(id=user, user=user))
        assert second < 3
    assert take_out(ledger, after=10, in_flight=2, batch=1) == [["zoe"], ["ann"]]


def test_holes_in_a_queue_do_not_stop_it(ledger: Ledger) -> None:
    fill(ledger, ("ann", 10))
    with ledger.write() as tx:
        nos = [row.no for row in tx.execute(sa.select(jobs).order_by(jobs.c.no)).all()[:8]]
        cancel_jobs(tx, nos, reason="its scope was deleted", now=START)
    assert take_out(ledger, unit=2) == [["ann-9", "ann-10"]]
    row = job_of(ledger, "ann-1")
    assert (row.state, row.messages, row.finished_at) == ("cancelled", None, START)


def test_a_hole_behind_the_head_does_not_stop_it_either(ledger: Ledger) -> None:
    fill(ledger, ("ann", 5))
    set_job(ledger, "ann-2", "ann-3", finished_at=START)
    assert take_out(ledger, unit=4) == [["ann-1", "ann-4"]]


def test_a_lane_all_of_whose_jobs_were_cancelled_is_idle(ledger: Ledger) -> None:
    fill(ledger, ("ann", 3))
    with ledger.write() as tx:
        cancel_jobs(tx, list(tx.execute(sa.select(jobs.c.no)).scalars()), reason="its scope was deleted", now=START)
    (lane,) = table(ledger, lanes)
    assert (lane.last_position, lane.done_position) == (3, 3)
    assert take_out(ledger) == []


def test_a_claim_writes_the_lease_to_its_jobs_and_lanes(ledger: Ledger) -> None:
    fill(ledger, ("ann", 2))
    take_out(ledger)
    (lease,) = table(ledger, leases)
    assert (lease.epoch, lease.stage, lease.taken, lease.worker) == (1, "extract", False, None)
    assert (lease.until, lease.send_at) == (START + timedelta(seconds=60), START + timedelta(seconds=5))
    assert {row.lease_id for row in table(ledger, jobs)} == {row.lease_id for row in table(ledger, lanes)} == {lease.id}


def test_held_turns_are_not_claimed(ledger: Ledger) -> None:
    accept(make_parts(ledger), make_turn(id="second", producer="p", number=2))
    assert take_out(ledger) == []


def test_claims_at_the_same_time_never_take_one_lane_twice(ledger: Ledger) -> None:
    fill(ledger, *((f"u{number:02}", 3) for number in range(40)))
    gate = threading.Barrier(4)

    def work() -> list[list[str]]:
        gate.wait()
        found: list[list[str]] = []
        for out in range(1, 25):
            found += take_out(ledger, in_flight=out, batch=1, unit=1)
        return found

    with ThreadPoolExecutor(4) as pool:
        batches = [batch for future in [pool.submit(work) for _ in range(4)] for batch in future.result(timeout=300)]
    taken = Counter(id for batch in batches for id in batch)
    assert set(taken.values()) == {1}
    assert len(table(ledger, leases)) == len(batches) == 24
    assert {id.partition("-")[2] for id in taken} == {"1"}
    assert sum(row.lease_id is not None for row in table(ledger, lanes)) == len(taken)


def test_paid_turns_go_together_up_to_the_limit_of_turns_and_of_size(ledger: Ledger) -> None:
    fill(ledger, ("ann", 5))
    assert take_out(ledger, paid=True, paid_unit=3) == [["ann-1", "ann-2", "ann-3"]]
    fill(ledger, ("bob", 4), text="x" * 1000)
    assert take_out(ledger, paid=True, paid_unit=4, unit_size=2500) == [["bob-1", "bob-2"]]
    fill(ledger, ("cid", 2), text="x" * 5000)
    assert take_out(ledger, paid=True, paid_unit=4, unit_size=2500) == [["cid-1"]]


def test_paid_turns_that_stand_apart_go_alone(ledger: Ledger) -> None:
    fill(ledger, ("ann", 4))
    set_job(ledger, "ann-2", prompt="only food", prompt_source="call")
    assert take_out(ledger, paid=True, paid_unit=4) == [["ann-1"]]
    fill(ledger, ("bob", 3))
    set_job(ledger, "bob-1", "bob-2", "bob-3", prompt="only food", prompt_source="namespace")
    assert take_out(ledger, paid=True, paid_unit=4) == [["bob-1", "bob-2", "bob-3"]]
    fill(ledger, ("cid", 2))
    set_job(ledger, "cid-2", memory_type="procedural_memory")
    assert take_out(ledger, paid=True, paid_unit=4) == [["cid-1"]]
    fill(ledger, ("dan", 2))
    set_job(ledger, "dan-2", messages=[{"role": "user", "text": "look", "images": [{"url": "https://example.com/a.png"}]}])
    assert take_out(ledger, paid=True, paid_unit=4) == [["dan-1"]]
    fill(ledger, ("eve", 2))
    set_job(ledger, "eve-2", alone=True)
    assert take_out(ledger, paid=True, paid_unit=4) == [["eve-1"]]
