"""The relay: each object's own answer decides its row, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest
import sqlalchemy as sa

from memline.contracts.index_object import ObjectKey
from memline.ledger.counters import read_counters
from memline.ledger.memories import index_objects
from memline.ledger.outbox import enqueue
from memline.ledger.retire import delete_memory
from memline.ledger.schema import entities, jobs, memories, outbox
from memline.ledger.session import Ledger
from memline.outbox.relay import RelayLimits
from memline.pipeline.parts import Parts
from memline.search.index.port import Write
from tests.parts import HandClock, MemoryIndex, accept, job_of, make_parts, make_relay, make_turn, run_all, table


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    """Three committed turns, of which the index knows nothing."""
    parts = make_parts(ledger)
    accept(parts, make_turn("one", id="a"), make_turn("two Anna", id="b"), make_turn("three\nfour", id="c"))
    run_all(parts)
    return parts


def index_of(parts: Parts) -> MemoryIndex:
    assert isinstance(parts.index, MemoryIndex)
    return parts.index


def advance(parts: Parts, seconds: float) -> None:
    assert isinstance(parts.clock, HandClock)
    parts.clock.advance(seconds)


def ids(parts: Parts) -> list[str]:
    """Ids of the memories, in order."""
    return [row.id for row in table(parts.ledger, memories)]


def states(parts: Parts) -> list[str]:
    return [job_of(parts.ledger, id).state for id in "abc"]


def equals_the_ledger(parts: Parts) -> None:
    keys = [ObjectKey("memory", row.namespace, row.id) for row in table(parts.ledger, memories)]
    keys += [ObjectKey("entity", row.namespace, row.id) for row in table(parts.ledger, entities)]
    with parts.ledger.read() as connection:
        assert index_of(parts).objects == index_objects(connection, keys)


def test_everything_that_was_committed_is_shown_and_its_jobs_are_searchable(parts: Parts) -> None:
    assert make_relay(parts).drain() == 5
    equals_the_ledger(parts)
    assert states(parts) == ["searchable"] * 3
    assert table(parts.ledger, outbox) == []
    assert make_relay(parts).run_once() == 0


def test_an_index_object_says_whose_it_is_and_holds_terms_and_vector_but_no_text(parts: Parts) -> None:
    make_relay(parts).drain()
    row = next(row for row in table(parts.ledger, memories) if row.text == "two Anna")
    found = index_of(parts).objects[ObjectKey("memory", "default", row.id)]
    assert (found.user_id, found.agent_id, found.run_id, found.version, found.terms) == ("ann", None, None, 1, ("anna", "two"))
    assert len(found.vector) == 4 * 64
    (entity,) = [each for key, each in index_of(parts).objects.items() if key.kind == "entity"]
    assert (entity.user_id, entity.terms) == ("ann", ("anna",))


def test_rounds_are_bounded(parts: Parts) -> None:
    make_relay(parts, RelayLimits(rows=2)).drain()
    assert [len(round) for round in index_of(parts).rounds] == [2, 2, 1]
    equals_the_ledger(parts)


def test_what_the_index_refuses_waits_and_the_rest_is_shown(parts: Parts) -> None:
    refused = ids(parts)[2]
    index_of(parts).refuses = {refused}
    relay = make_relay(parts)
    relay.drain()
    assert states(parts) == ["searchable", "searchable", "committed"]
    (row,) = table(parts.ledger, outbox)
    assert (row.object_id, row.attempts, row.error, row.lease) == (refused, 1, "refused", None)
    index_of(parts).refuses = set()
    advance(parts, 1)
    relay.drain()
    assert states(parts) == ["searchable"] * 3
    equals_the_ledger(parts)


def test_an_object_that_the_index_says_nothing_about_is_not_taken_for_shown(parts: Parts) -> None:
    index_of(parts).silent_about = {ids(parts)[0]}
    make_relay(parts).drain()
    assert states(parts)[0] == "committed"
    assert [row.error for row in table(parts.ledger, outbox)] == ["the index did not answer for this object"]


def test_a_poison_object_is_set_aside_alone(parts: Parts) -> None:
    poison = ids(parts)[0]
    index_of(parts).breaks_on = poison
    relay = make_relay(parts, RelayLimits(attempts=3))
    for _ in range(5):
        relay.drain()
        advance(parts, 10)
    (row,) = table(parts.ledger, outbox)
    assert (row.object_id, row.parked, row.attempts, row.error) == (poison, True, 3, "ValueError")
    assert states(parts) == ["committed", "searchable", "searchable"]
    with parts.ledger.read() as connection:
        assert read_counters(connection)["outbox_parked"] == 1


def test_while_the_index_is_away_rows_wait_and_none_is_set_aside(parts: Parts) -> None:
    index_of(parts).away = True
    relay = make_relay(parts, RelayLimits(attempts=2, longest_pause=30))
    for _ in range(50):
        relay.drain()
        advance(parts, 30)
    rows = table(parts.ledger, outbox)
    assert {(row.attempts, row.parked, row.lease) for row in rows} == {(0, False, None)}
    assert {row.error for row in rows} == {"ServiceUnavailable: The index does not answer."}
    assert states(parts) == ["committed"] * 3
    index_of(parts).away = False
    relay.drain()
    assert states(parts) == ["searchable"] * 3
    equals_the_ledger(parts)


def test_an_index_that_is_away_is_not_asked_all_the_time(parts: Parts) -> None:
    index_of(parts).away = True
    relay = make_relay(parts)
    assert relay.run_once() > 0
    assert relay.run_once() == 0
    advance(parts, 1)
    assert relay.run_once() > 0
    advance(parts, 1)
    assert relay.run_once() == 0


def test_what_is_committed_while_the_index_is_away_makes_nothing_wait_longer(parts: Parts) -> None:
    index_of(parts).away = True
    relay = make_relay(parts)
    for number in range(10):
        with parts.ledger.write() as tx:
            enqueue(tx, "memory", {f"new {number}": ("default", 1)}, now=parts.clock.now())
        assert relay.run_once() > 0
    index_of(parts).away = False
    advance(parts, 1)
    relay.drain()
    assert states(parts) == ["searchable"] * 3
    assert table(parts.ledger, outbox) == []


def test_a_write_whose_answer_was_lost_is_shown_again_which_changes_nothing(parts: Parts) -> None:
    index_of(parts).loses_answer = True
    relay = make_relay(parts)
    relay.drain()
    assert states(parts) == ["committed"] * 3
    shown = dict(index_of(parts).objects)
    index_of(parts).loses_answer = False
    advance(parts, 1)
    relay.drain()
    assert index_of(parts).objects == shown
    assert states(parts) == ["searchable"] * 3
    equals_the_ledger(parts)


def test_a_memory_that_changes_while_it_is_written_is_written_again_as_it_is_then(parts: Parts) -> None:
    changed = ids(parts)[0]
    once = [True]

    def during(writes: Sequence[Write]) -> None:
        if once:
            once.pop()
            delete_memory(parts.ledger, "default", changed, now=parts.clock.now())

    index_of(parts).during = during
    relay = make_relay(parts)
    assert relay.run_once() == 5
    assert [(row.object_id, row.version, row.lease) for row in table(parts.ledger, outbox)] == [(changed, 2, None)]
    assert relay.run_once() == 1
    equals_the_ledger(parts)
    assert states(parts) == ["searchable"] * 3


def test_two_relays_never_write_one_object_at_the_same_time(parts: Parts) -> None:
    """What is written late must not be what was read early."""
    changed = ids(parts)[0]
    other = make_relay(parts, ids="other")
    seen: list[int] = []

    def during(writes: Sequence[Write]) -> None:
        index_of(parts).during = None
        delete_memory(parts.ledger, "default", changed, now=parts.clock.now())
        seen.append(other.run_once())

    index_of(parts).during = during
    make_relay(parts).drain()
    assert seen == [0]
    equals_the_ledger(parts)


def test_rows_of_a_relay_that_died_are_shown_by_another_after_its_lease(parts: Parts) -> None:
    class Killed(BaseException):
        pass

    def during(writes: Sequence[Write]) -> None:
        index_of(parts).during = None
        raise Killed

    index_of(parts).during = during
    with pytest.raises(Killed):
        make_relay(parts).run_once()
    other = make_relay(parts, ids="other")
    assert other.run_once() == 0
    advance(parts, 60)
    other.drain()
    equals_the_ledger(parts)
    assert states(parts) == ["searchable"] * 3


def test_what_a_relay_writes_after_its_lease_ran_out_is_shown_again_as_it_is(parts: Parts) -> None:
    deleted = ids(parts)[0]
    late, other = make_relay(parts), make_relay(parts, ids="other")

    def during(writes: Sequence[Write]) -> None:
        index_of(parts).during = None
        advance(parts, 60)
        delete_memory(parts.ledger, "default", deleted, now=parts.clock.now())
        other.drain()

    index_of(parts).during = during
    assert late.run_once() == 5
    assert ObjectKey("memory", "default", deleted) in index_of(parts).objects
    other.drain()
    equals_the_ledger(parts)
    assert table(parts.ledger, outbox) == []
    with parts.ledger.read() as connection:
        assert read_counters(connection)["late_writes"] == 5


def test_a_relay_does_not_settle_what_another_wrote_late_in_the_middle_of_its_own_round(parts: Parts) -> None:
    deleted = ids(parts)[0]
    late, other = make_relay(parts), make_relay(parts, ids="other")
    read, may_write = threading.Event(), threading.Event()

    def of_the_late_one(writes: Sequence[Write]) -> None:
        index_of(parts).during = None
        read.set()
        assert may_write.wait(300)

    def of_the_other(writes: Sequence[Write]) -> None:
        index_of(parts).during = None
        may_write.set()
        thread.join()

    index_of(parts).during = of_the_late_one
    thread = threading.Thread(target=late.run_once)
    thread.start()
    assert read.wait(300)
    advance(parts, 60)
    delete_memory(parts.ledger, "default", deleted, now=parts.clock.now())
    index_of(parts).during = of_the_other
    assert other.run_once() == 5
    assert len(table(parts.ledger, outbox)) == 5
    other.drain()
    equals_the_ledger(parts)
    assert table(parts.ledger, outbox) == []
    assert states(parts) == ["searchable"] * 3


def test_an_object_that_is_no_more_is_removed_from_the_index(parts: Parts) -> None:
    make_relay(parts).drain()
    with parts.ledger.write() as tx:
        enqueue(tx, "memory", {"nobody": ("default", 1)}, now=parts.clock.now())
    delete_memory(parts.ledger, "default", ids(parts)[1], now=parts.clock.now() + timedelta(0))
    make_relay(parts).drain()
    equals_the_ledger(parts)
    assert len(index_of(parts).objects) == 3
    assert table(parts.ledger, outbox) == []


@pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
def test_a_relay_waits_for_a_deletion_without_holding_what_that_one_needs(parts: Parts) -> None:
    """Who deletes locks jobs and then writes to the outbox: the other way round, each would wait for the other."""
    raised: list[Exception] = []

    def relay() -> None:
        try:
            make_relay(parts).run_once()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=relay)
    with parts.ledger.write() as deleting:
        deleting.execute(sa.select(jobs.c.no).order_by(jobs.c.no).with_for_update()).all()
        thread.start()
        while not _somebody_waits(parts.ledger):
            assert thread.is_alive(), raised
        enqueue(deleting, "memory", dict.fromkeys(ids(parts), ("default", 2)), now=parts.clock.now())
    thread.join(300)
    assert not thread.is_alive() and raised == []
    assert states(parts) == ["committed"] * 3, "what the deletion wrote has not been shown"
    make_relay(parts).drain()
    assert states(parts) == ["searchable"] * 3


def _somebody_waits(ledger: Ledger) -> bool:
    with ledger.read() as connection:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return bool(connection.execute(sa.text(waiting)).scalar_one())
