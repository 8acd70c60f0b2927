"""A worker whose lease ran out and the one that has its jobs now may call at the same time: neither fails of it, and both calls count."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for

from sqlalchemy.engine import Connection

from memline.ledger.calls import begin_calls, drop_calls
from memline.ledger.counters import read_counters
from memline.ledger.session import Ledger
from memline.ledger.usage import Used, keep_usage_of_jobs, usage_of_job
from tests.parts import START, accept, make_parts, make_turn

JOBS = ["a", "b"]


def at_the_same_time(
    ledger: Ledger, first: Callable[[Connection], object], second: Callable[[Connection], object]
) -> tuple[object, object]:
    """What both return; *second* begins while the transaction of *first* is open."""

    def run() -> object:
        with ledger.write() as tx:
            return second(tx)

    with ThreadPoolExecutor(1) as pool:
        with ledger.write() as tx:
            found = first(tx)
            other = pool.submit(run)
            wait_for([other], timeout=0.5)
        return found, other.result(300)


def with_jobs(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    for job in JOBS:
        accept(parts, make_turn("hello", id=job, user=job))


def test_two_that_note_a_call_count_one_as_repeated(ledger: Ledger) -> None:
    with_jobs(ledger)

    def begin(tx: Connection) -> int:
        return begin_calls(tx, "extract", JOBS, now=START)

    assert at_the_same_time(ledger, begin, begin) == (0, 2)
    with ledger.write() as tx:
        assert read_counters(tx)["repeated_calls"] == 2
        drop_calls(tx, "extract", JOBS)
        assert begin(tx) == 0


def test_what_both_used_is_kept(ledger: Ledger) -> None:
    with_jobs(ledger)

    def keep(tx: Connection) -> None:
        keep_usage_of_jobs(tx, {job: [Used("default", "extract", "m", 1, 0, 10, 0, 2, 0, 0)] for job in JOBS}, now=START)

    at_the_same_time(ledger, keep, keep)
    with ledger.write() as tx:
        keep(tx)
        assert [usage_of_job(tx, job)[0]["calls"] for job in JOBS] == [3, 3]
