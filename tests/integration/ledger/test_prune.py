"""What is over age leaves the ledger, and what is still needed stays, on both databases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from memline.contracts.errors import JobFailed, ProviderRefused
from memline.ledger.accept import Outcome
from memline.ledger.audit import CHECKS, violations
from memline.ledger.counters import read_counters
from memline.ledger.jobs import retry_job
from memline.ledger.messages import window_before
from memline.ledger.prune import Retention, begin_pass, prune_keys, prune_producers, prune_receipts, visit_jobs
from memline.ledger.receipts import note_lost, receipt_state
from memline.ledger.retire import delete_memory
from memline.ledger.schema import (
    idempotency_keys,
    jobs,
    lane_numbers,
    lane_producers,
    lost_turns,
    memories,
    messages,
    repeats,
    stage_results,
)
from memline.ledger.seats import release_held
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.workers.pruner import Pruner
from tests.parts import HandClock, ScriptedExtractor, accept, job_of, make_parts, make_relay, make_turn, run_all, table

DAY = 86400.0


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


def later(parts: Parts, days: float) -> None:
    assert isinstance(parts.clock, HandClock)
    parts.clock.advance(days * DAY)


def finish(parts: Parts, *turns: Any) -> None:
    accept(parts, *turns)
    run_all(parts)
    make_relay(parts).drain()


def prune(parts: Parts, keep: Retention | None = None, **given: Any) -> int:
    """A whole pass, whenever the last one was."""
    return Pruner(parts.ledger, parts.clock, keep, **given).run_from(0)


def ids(parts: Parts, source: sa.Table, column: str) -> list[Any]:
    return [getattr(row, column) for row in table(parts.ledger, source)]


def counted(parts: Parts, name: str) -> int:
    with parts.ledger.read() as connection:
        return read_counters(connection)[name]


def carries(parts: Parts, job_id: str) -> bool:
    """Whether a job has anything of what it was handed over with; all of it or nothing."""
    query = sa.select(
        jobs.c.messages.is_not(sa.null()), jobs.c.metadata.is_not(sa.null()), jobs.c.prompt.is_not(None)
    ).where(jobs.c.id == job_id)  # fmt: skip
    with parts.ledger.read() as connection:
        found = set(connection.execute(query).one())
    assert len(found) == 1
    return bool(found.pop())


def test_a_finished_job_loses_payload_results_and_replies_after_its_time_and_not_before(parts: Parts) -> None:
    finish(parts, make_turn("likes tea", id="a", prompt="briefly", metadata={"channel": "web"}))
    assert ids(parts, stage_results, "job_id")
    later(parts, 6.99)
    assert prune(parts) == 0
    assert carries(parts, "a")
    later(parts, 0.01)
    assert prune(parts) == 1
    assert not carries(parts, "a")
    assert table(parts.ledger, stage_results) == []
    assert counted(parts, "payloads_pruned") == 1
    assert prune(parts) == 0
    (memory,) = table(parts.ledger, memories)
    assert (memory.text, memory.metadata) == ("likes tea", {"channel": "web"})  # what was committed is not touched


def test_a_turn_that_is_still_on_its_way_keeps_everything_whatever_its_age(parts: Parts) -> None:
    accept(parts, make_turn("likes tea", id="a", prompt="briefly"))
    later(parts, 1000)
    assert prune(parts) == 0
    run_all(parts)
    assert [row.text for row in table(parts.ledger, memories)] == ["likes tea"]


def test_a_failed_job_can_be_replayed_until_its_own_time_is_over(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"likes tea": [ProviderRefused("no"), ProviderRefused("no"), '["likes tea"]']})
    parts = make_parts(ledger, extractor=extractor)
    finish(parts, make_turn("likes tea", id="a", prompt="briefly"))
    assert job_of(ledger, "a").state == "failed"
    later(parts, 29.9)
    assert prune(parts) == 0
    with ledger.write() as tx:
        assert retry_job(tx, "a", now=parts.clock.now())
    run_all(parts)
    assert job_of(ledger, "a").state == "failed"
    later(parts, 29.9)
    prune(parts)
    assert carries(parts, "a")  # it counts from the last failure
    later(parts, 0.2)
    assert prune(parts) == 1
    assert not carries(parts, "a")
    with ledger.write() as tx, pytest.raises(JobFailed, match="MEMLINE_KEEP_FAILED"):
        retry_job(tx, "a", now=parts.clock.now())
    assert job_of(ledger, "a").state == "failed"


def test_a_job_that_failed_after_its_commit_keeps_its_messages_for_the_replay(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    from memline.pipeline import link

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(link, "prepare", broken)
        accept(parts, make_turn("likes tea", id="a", prompt="briefly"))
        for _ in range(10):
            run_all(parts)
            later(parts, 0.01)
    job = job_of(parts.ledger, "a")
    assert (job.stage, job.finished_at is not None) == ("link", True)
    later(parts, 20)
    prune(parts)
    with parts.ledger.write() as tx:
        assert retry_job(tx, "a", now=parts.clock.now())
    run_all(parts)
    assert [row.text for row in table(parts.ledger, messages)] == ["likes tea"]


def test_keys_hold_for_their_retention_and_are_new_after_it(parts: Parts) -> None:
    finish(parts, make_turn("likes tea", id="a", idempotency_key="k"))
    later(parts, 29.9)
    prune(parts)
    assert accept(parts, make_turn("likes tea", id="b", idempotency_key="k"))[0].outcome is Outcome.REPEAT
    later(parts, 0.1)
    prune(parts)
    assert counted(parts, "keys_pruned") == 1
    assert accept(parts, make_turn("likes tea", id="c", idempotency_key="k"))[0].outcome is Outcome.NEW


def test_a_job_is_known_as_long_as_its_key_or_a_receipt_that_repeated_it(parts: Parts) -> None:
    finish(parts, make_turn("hello", id="a", idempotency_key="k"), make_turn("likes tea", id="newer"))
    later(parts, 60)
    accept(parts, make_turn("hello", id="b", idempotency_key="k"))

    def pruned(key_days: float) -> list[str]:
        for _ in range(2):  # what a pass frees, the next one may take
            prune(parts, Retention(keys=timedelta(days=key_days), window=1))
        return ids(parts, jobs, "id")

    later(parts, 30)
    assert pruned(200) == ["a", "newer"]  # the key names it
    assert pruned(30) == ["a", "newer"]  # the receipt does
    with parts.ledger.read() as connection:
        state = receipt_state(connection, "b")
    assert state is not None and (state.same_as, state.status) == ("a", "searchable")
    later(parts, 60)
    assert pruned(30) == ["newer"]
    assert (table(parts.ledger, repeats), counted(parts, "receipts_pruned")) == ([], 1)


def test_a_job_whose_key_still_holds_is_kept(parts: Parts) -> None:
    finish(parts, make_turn("hello", id="a", idempotency_key="k"), make_turn("likes tea", id="newer"))
    later(parts, 100)
    prune(parts, Retention(keys=timedelta(days=200), window=1))
    assert accept(parts, make_turn("hello", id="b", idempotency_key="k"))[0].job_id == "a"
    assert ids(parts, jobs, "id") == ["a", "newer"]


def test_a_job_row_goes_when_nothing_names_it(parts: Parts) -> None:
    finish(parts, make_turn("hello", id="nothing"), make_turn("likes tea", id="named"), make_turn("hello", id="last"))
    later(parts, 89.9)
    keep = Retention(window=1)
    prune(parts, keep)
    assert ids(parts, jobs, "id") == ["nothing", "named", "last"]
    later(parts, 0.1)
    prune(parts, keep)
    assert ids(parts, jobs, "id") == ["named", "last"]  # a memory names one, the window of the lane the other
    assert counted(parts, "jobs_pruned") == 1


def test_a_deleted_memory_still_keeps_its_job_so_that_nothing_brings_it_back(parts: Parts) -> None:
    turn = make_turn("likes tea", id="a")
    finish(parts, turn, make_turn("hello", id="b"))
    delete_memory(parts.ledger, "default", table(parts.ledger, memories)[0].id, now=parts.clock.now())
    later(parts, 365)
    prune(parts, Retention(window=1))
    assert ids(parts, messages, "job_id") == ["b"]  # its words are gone
    assert accept(parts, turn)[0].outcome is Outcome.AGAIN  # from a spool that lay for a year
    run_all(parts)
    assert [row.state for row in table(parts.ledger, memories)] == ["deleted"]


def test_messages_are_kept_while_a_memory_came_from_them_or_the_window_holds_them(parts: Parts) -> None:
    finish(parts, make_turn("likes tea", id="fact"), *(make_turn("hello", id=f"t{number}") for number in range(6)))
    finish(parts, make_turn("hello", id="other", user="bob"))
    keep = Retention(window=3)
    prune(parts, keep)
    assert len(table(parts.ledger, messages)) == 8  # all young
    later(parts, 7)
    prune(parts, keep)
    assert ids(parts, messages, "job_id") == ["fact", "t3", "t4", "t5", "other"]
    assert counted(parts, "messages_pruned") == 3
    with parts.ledger.read() as connection:
        lane = table(parts.ledger, jobs)[0].lane
        assert len(window_before(connection, lane, 100, size=3)) == 3
    prune(parts, keep)
    assert len(table(parts.ledger, messages)) == 5


def test_the_window_is_filled_with_the_newest_messages_of_a_turn_with_many(parts: Parts) -> None:
    finish(parts, make_turn(["hello"] * 5, id="a"), make_turn(["hello"] * 2, id="b"))
    later(parts, 7)
    prune(parts, Retention(window=4))
    assert [(row.job_id, row.ordinal) for row in table(parts.ledger, messages)] == [("a", 3), ("a", 4), ("b", 0), ("b", 1)]


def test_lost_turns_are_forgotten_with_the_jobs_of_their_time(parts: Parts) -> None:
    with parts.ledger.write() as tx:
        note_lost(tx, "gone", now=parts.clock.now())
    later(parts, 89.9)
    assert prune(parts) == 0
    later(parts, 0.1)
    assert prune(parts) == 1
    assert table(parts.ledger, lost_turns) == []


def test_numbers_of_a_producer_that_is_heard_of_anywhere_stay(parts: Parts) -> None:
    finish(parts, make_turn("one", producer="p", number=1), make_turn("one", user="bob", producer="p", number=1))
    later(parts, 30)
    accept(parts, make_turn("two", user="bob", producer="p", number=2))
    run_all(parts)
    assert prune(parts) == 3  # the two old payloads, and the first of the two old changes
    assert len(table(parts.ledger, lane_producers)) == 2
    accept(parts, make_turn("two", id="back", producer="p", number=2))
    assert job_of(parts.ledger, "back").position is not None  # a user who comes back after a month is not held up
    run_all(parts)
    later(parts, 7)
    prune(parts)
    assert table(parts.ledger, lane_producers) == []
    assert counted(parts, "producers_pruned") == 2


def test_a_producer_with_a_turn_that_is_held_or_on_its_way_is_not_forgotten(parts: Parts) -> None:
    accept(parts, make_turn("three", id="held", producer="p", number=3), make_turn("one", user="bob", producer="q", number=1))
    later(parts, 30)
    assert prune(parts) == 0
    assert len(table(parts.ledger, lane_producers)) == 2
    assert len(table(parts.ledger, lane_numbers)) == 1


def test_a_forgotten_producer_that_comes_back_loses_and_misorders_nothing(parts: Parts) -> None:
    finish(parts, *(make_turn(f"n{number}", producer="p", number=number) for number in range(1, 4)))
    later(parts, 8)
    prune(parts)
    assert table(parts.ledger, lane_producers) == []
    accept(parts, make_turn("n5", producer="p", number=5), make_turn("n4", producer="p", number=4))
    later(parts, parts.order_wait / DAY)
    with parts.ledger.write() as tx:
        assert release_held(tx, now=parts.clock.now()) == 2
    run_all(parts)
    accept(parts, make_turn("n6", id="next", producer="p", number=6))
    assert job_of(parts.ledger, "next").position is not None  # held once, not each time
    run_all(parts)
    assert [row.text for row in table(parts.ledger, memories)] == [f"n{number}" for number in range(1, 7)]


def test_each_verb_does_a_bounded_batch(parts: Parts) -> None:
    finish(parts, *(make_turn(f"n{number}", user=f"u{number}", idempotency_key="k", producer="p", number=1) for number in range(7)))
    for number in range(7):
        accept(parts, make_turn(f"n{number}", user=f"u{number}", idempotency_key="k"))
    later(parts, 400)
    now, keep = parts.clock.now(), Retention()
    with parts.ledger.write() as tx:
        visit = visit_jobs(tx, 0, keep=keep, now=now, limit=5)
        assert (visit.removed.total(), visit.after) == (5, 5)
        visit = visit_jobs(tx, 5, keep=keep, now=now, limit=5)
        assert (visit.removed.total(), visit.after) == (2, None)
        for verb in (prune_keys, prune_receipts, prune_producers):
            assert [verb(tx, keep=keep, now=now, limit=5) for _ in range(3)] == [5, 2, 0]


def test_a_pass_stops_when_its_budget_is_spent_and_the_next_one_goes_on_there(parts: Parts) -> None:
    finish(parts, *(make_turn(f"n{number}", id=f"t{number}", user=f"u{number}", prompt="x") for number in range(6)))
    later(parts, 7)
    clock = iter(range(1000))
    pruner = Pruner(parts.ledger, parts.clock, every=300, budget=2, batch=2, seconds=lambda: next(clock))
    stripped: list[int] = []
    for _ in range(4):
        pruner.run_once()
        stripped.append(sum(not carries(parts, f"t{number}") for number in range(6)))
        later(parts, 300 / DAY)
    assert 0 < stripped[0] < 6
    assert stripped == sorted(stripped) and stripped[-1] == 6


def test_of_several_processes_one_begins_a_pass_in_each_period(parts: Parts) -> None:
    every = timedelta(seconds=300)

    def begun(times: int) -> Sequence[int | None]:
        found = []
        for _ in range(times):
            with parts.ledger.write() as tx:
                found.append(begin_pass(tx, now=parts.clock.now(), every=every))
        return found

    assert begun(3) == [0, None, None]
    later(parts, 299 / DAY)
    assert begun(1) == [None]
    later(parts, 1 / DAY)
    assert begun(2) == [0, None]


def test_a_pruned_ledger_is_sound(parts: Parts) -> None:
    finish(
        parts,
        make_turn("likes tea in Kyoto", id="a", idempotency_key="k", producer="p", number=1),
        make_turn("hello", id="b", producer="p", number=2),
        make_turn("[home] lives in Rome", id="c", producer="p", number=3),
        make_turn("[home] lives in Oslo", id="d", producer="p", number=4),
    )
    delete_memory(parts.ledger, "default", table(parts.ledger, memories)[0].id, now=parts.clock.now())
    make_relay(parts).drain()
    for days in (7, 30, 60, 400):
        later(parts, days)
        prune(parts, Retention(window=1))
        with parts.ledger.read() as connection:
            assert {check.problem: found for check in CHECKS if (found := list(violations(connection, check, limit=5)))} == {}
    assert len(table(parts.ledger, idempotency_keys)) == 0
