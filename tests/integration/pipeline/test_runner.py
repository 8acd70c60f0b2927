"""A whole turn through the stages, on both databases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.turn import Message
from memline.ledger.jobs import STAGES, Stage, jobs_of_lease
from memline.ledger.leases import Lease
from memline.ledger.messages import window_before
from memline.ledger.schema import (
    entities,
    entity_links,
    jobs,
    lanes,
    leases,
    memories,
    messages,
    outbox,
    stage_results,
)
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.pipeline.runner import give_back_waiting, run_through
from tests.integration.pipeline.steps import claimed, live, nothing_is_left_over, stage, state, up_to
from tests.parts import (
    accept,
    job_of,
    make_parts,
    make_relay,
    make_turn,
    run_all,
    table,
)


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


def test_a_turn_goes_through_six_stages_and_is_searchable_when_the_relay_has_shown_it(parts: Parts) -> None:
    turn = make_turn("User met Anna", id="a")
    accept(parts, turn)
    (lease,) = claimed(parts)
    seen: list[Stage] = []
    current: Lease | None = lease
    while current is not None:
        seen.append(current.stage)
        current = stage(parts, current)
    assert tuple(seen) == STAGES
    assert state(parts.ledger, "a") == ("committed", "done", 0, False)
    nothing_is_left_over(parts.ledger)
    make_relay(parts).drain()
    assert state(parts.ledger, "a")[0] == "searchable"
    assert {key.kind for key in parts.index.objects} == {"memory", "entity"}  # type: ignore[attr-defined]
    assert table(parts.ledger, outbox) == []


def test_messages_enter_the_window_in_order_also_those_of_a_turn_without_a_memory(parts: Parts) -> None:
    accept(parts, make_turn(["one", "two"], id="a"), make_turn("hello", id="b"), make_turn("three", id="c"))
    run_all(parts)
    assert [(row.job_id, row.place, row.ordinal, row.text) for row in table(parts.ledger, messages)] == [
        ("a", 1, 0, "one"),
        ("a", 1, 1, "two"),
        ("b", 2, 0, "hello"),
        ("c", 3, 0, "three"),
    ]
    lane = make_turn().scope.lane
    with parts.ledger.read() as connection:
        assert window_before(connection, lane, 3, size=2) == [Message("user", "two"), Message("user", "hello")]
        assert window_before(connection, lane, 1, size=2) == []
    assert job_of(parts.ledger, "b").reason == "nothing to extract"


def test_verbatim_turns_are_their_own_facts(parts: Parts) -> None:
    accept(parts, make_turn(["I live in Berlin", "boom"], infer=False))
    run_all(parts)
    assert live(parts.ledger) == ["I live in Berlin", "boom"]
    assert all(row.verbatim and row.role == "user" for row in table(parts.ledger, memories))


def test_a_lane_is_run_in_its_order_and_lanes_do_not_wait_for_each_other(parts: Parts) -> None:
    accept(parts, *(make_turn(f"[n] says {number}", user=user) for number in range(6) for user in ("ann", "bob")))
    run_all(parts)
    assert sorted(live(parts.ledger)) == ["says 5", "says 5"]
    for user in ("ann", "bob"):
        rows = table(parts.ledger, memories, memories.c.user_id == user)
        assert [row.text for row in rows] == [f"says {number}" for number in range(6)]
    nothing_is_left_over(parts.ledger)


@pytest.mark.parametrize("which", STAGES)
def test_a_stage_that_is_run_twice_does_nothing_the_second_time(parts: Parts, which: Stage) -> None:
    accept(parts, make_turn("User met Anna", id="a"))
    (lease,) = claimed(parts)
    here = up_to(parts, lease, which)
    after = stage(parts, here)
    sources = (jobs, memories, entities, entity_links, messages, outbox, stage_results, leases, lanes)
    before = [table(parts.ledger, source) for source in sources]
    assert stage(parts, here) is None
    assert [table(parts.ledger, source) for source in sources] == before
    assert (after is None) == (which is Stage.SAVE)


def test_a_stage_that_frees_a_lane_claims_its_next_head(parts: Parts) -> None:
    accept(parts, make_turn("one", id="a"))
    (lease,) = claimed(parts)
    accept(parts, make_turn("two", id="b"))
    sent: list[Lease] = []
    last = up_to(parts, lease, Stage.SAVE)
    assert stage(parts, last, sent.extend) is None
    (following,) = sent
    with parts.ledger.read() as connection:
        assert [job.id for job in jobs_of_lease(connection, following.id)] == ["b"]


def test_batches_that_can_not_be_sent_now_are_not_a_failure_of_the_stage(parts: Parts) -> None:
    accept(parts, make_turn("one", id="a"))
    (lease,) = claimed(parts)
    accept(parts, make_turn("two", id="b"))

    def away(batches: Sequence[Lease]) -> None:
        if batches:
            raise ServiceUnavailable("Redis is away.")

    run_through(parts, lease, worker="w", send=away, stopped=lambda: False)
    assert state(parts.ledger, "a") == ("committed", "done", 0, False)
    assert state(parts.ledger, "b")[2:] == (0, False)
    (waiting,) = table(parts.ledger, leases)
    assert waiting.taken is False


def test_a_stopped_run_gives_its_batch_back_for_the_next_start(parts: Parts) -> None:
    accept(parts, make_turn("one", id="a"))
    (lease,) = claimed(parts)
    stops = iter([False, False, True])
    run_through(parts, lease, worker="w", send=lambda _: None, stopped=lambda: next(stops))
    assert state(parts.ledger, "a") == ("accepted", "dedup", 0, False)
    assert table(parts.ledger, leases) == []
    run_all(parts)
    assert live(parts.ledger) == ["one"]


def test_waiting_batches_are_given_back_and_taken_ones_are_not(parts: Parts) -> None:
    accept(parts, make_turn("one", id="a"), make_turn("two", id="b", user="bob"))
    one, other = claimed(parts)
    with parts.ledger.write() as tx:
        tx.execute(sa.update(leases).where(leases.c.id == other.id).values(taken=True))
    give_back_waiting(parts, [one, other])
    assert [row.id for row in table(parts.ledger, leases)] == [other.id]
