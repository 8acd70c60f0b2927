"""Turns become jobs: keys, numbers and seats, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memline.contracts.turn import Turn
from memline.ledger.accept import Outcome, accept_turns
from memline.ledger.counters import read_counters
from memline.ledger.receipts import note_lost, receipt_state
from memline.ledger.schema import idempotency_keys, jobs, lane_numbers, lane_producers, lanes, owners, repeats
from memline.ledger.seats import release_held
from memline.ledger.session import Ledger
from tests.parts import START, job_of, make_turn, table

WAIT = 30.0


def take_in(ledger: Ledger, *turns: Turn, after: float = 0.0) -> list[tuple[str, Outcome]]:
    with ledger.write() as tx:
        found = accept_turns(tx, turns, now=START + timedelta(seconds=after), order_wait=WAIT)
    return [(accepted.job_id, accepted.outcome) for accepted in found]


def release(ledger: Ledger, after: float) -> int:
    with ledger.write() as tx:
        return release_held(tx, now=START + timedelta(seconds=after))


def seated(ledger: Ledger, user: str = "ann") -> list[str]:
    """Ids of the jobs of a lane in the order of their seats."""
    lane = make_turn(user=user).scope.lane
    with ledger.read() as connection:
        query = sa.select(jobs.c.id, jobs.c.place, jobs.c.position).where(jobs.c.lane == lane, jobs.c.place.is_not(None))
        rows = connection.execute(query.order_by(jobs.c.place)).all()
        last = connection.execute(sa.select(lanes.c.last_place, lanes.c.last_position).where(lanes.c.key == lane)).one_or_none()
    assert [row.place for row in rows] == [row.position for row in rows] == list(range(1, len(rows) + 1))
    assert last is None or tuple(last) == (len(rows), len(rows))
    return [row.id for row in rows]


def counted(ledger: Ledger, name: str) -> int:
    with ledger.read() as connection:
        return read_counters(connection)[name]


def numbered(number: int, producer: str = "p", **options: Any) -> Turn:
    return make_turn(f"fact {number} of {producer}", id=f"{producer}-{number}", producer=producer, number=number, **options)


def test_a_new_turn_is_a_job_at_the_end_of_its_lane(ledger: Ledger) -> None:
    assert take_in(ledger, make_turn("one", id="a"), make_turn("two", id="b")) == [("a", Outcome.NEW), ("b", Outcome.NEW)]
    assert take_in(ledger, make_turn("three", id="c")) == [("c", Outcome.NEW)]
    assert seated(ledger) == ["a", "b", "c"]
    (lane,) = table(ledger, lanes)
    assert (lane.done_position, lane.lease_id, lane.ready_at) == (0, None, START)


def test_a_turn_keeps_all_that_it_was_handed_over_with(ledger: Ledger) -> None:
    told = START - timedelta(days=3)
    turn = make_turn(["one", "two"], id="a", metadata={"cat": "work", "n": [1, None]}, prompt="only pets", occurred_at=told, infer=False)
    take_in(ledger, turn, after=5)
    row = job_of(ledger, "a")
    assert row.messages == [{"role": "user", "text": "one"}, {"role": "user", "text": "two"}]
    assert (row.metadata, row.prompt, row.infer) == ({"cat": "work", "n": [1, None]}, "only pets", False)
    assert (row.said_at, row.occurred_at, row.handed_at, row.accepted_at) == (told, told, START, START + timedelta(seconds=5))


def test_a_turn_that_arrives_again_is_the_first_job_again(ledger: Ledger) -> None:
    turn = make_turn("one", id="a")
    take_in(ledger, turn)
    assert take_in(ledger, turn, turn) == [("a", Outcome.AGAIN), ("a", Outcome.AGAIN)]
    assert seated(ledger) == ["a"]


def test_a_turn_that_stands_twice_in_one_batch_is_one_job(ledger: Ledger) -> None:
    turn = make_turn("one", id="a")
    assert take_in(ledger, turn, turn) == [("a", Outcome.NEW), ("a", Outcome.AGAIN)]
    assert seated(ledger) == ["a"]


def test_equal_turns_without_a_key_are_two_turns(ledger: Ledger) -> None:
    take_in(ledger, make_turn("yes", id="a"), make_turn("yes", id="b"))
    assert seated(ledger) == ["a", "b"]


def test_the_same_key_with_the_same_content_is_the_first_job(ledger: Ledger) -> None:
    take_in(ledger, make_turn("one", id="a", idempotency_key="k"))
    assert take_in(ledger, make_turn("one", id="b", idempotency_key="k")) == [("a", Outcome.REPEAT)]
    assert take_in(ledger, make_turn("one", id="b", idempotency_key="k")) == [("a", Outcome.AGAIN)]
    assert seated(ledger) == ["a"]
    with ledger.read() as connection:
        state = receipt_state(connection, "b")
        assert state is not None
        assert (state.status, state.same_as) == ("accepted", "a")


def test_the_same_key_with_another_content_is_a_conflict_that_ends_its_receipt(ledger: Ledger) -> None:
    take_in(ledger, make_turn("one", id="a", idempotency_key="k"))
    assert take_in(ledger, make_turn("two", id="b", idempotency_key="k")) == [("a", Outcome.CONFLICT)]
    with ledger.read() as connection:
        state = receipt_state(connection, "b")
        assert state is not None
        assert (state.status, state.same_as, state.finished) == ("conflict", "a", True)
        first = receipt_state(connection, "a")
        assert first is not None
        assert first.status == "accepted"
    assert seated(ledger) == ["a"]


def test_options_belong_to_the_content_of_a_key(ledger: Ledger) -> None:
    take_in(ledger, make_turn("one", id="a", idempotency_key="k", metadata={"x": 1}))
    assert take_in(ledger, make_turn("one", id="b", idempotency_key="k", metadata={"x": 2})) == [("a", Outcome.CONFLICT)]


def test_a_key_decides_within_one_batch_too(ledger: Ledger) -> None:
    found = take_in(ledger, *(make_turn(text, id=id, idempotency_key="k") for id, text in [("a", "one"), ("b", "one"), ("c", "two")]))
    assert found == [("a", Outcome.NEW), ("a", Outcome.REPEAT), ("a", Outcome.CONFLICT)]
    assert len(table(ledger, idempotency_keys)) == 1
    assert [(row.turn_id, row.conflict) for row in table(ledger, repeats)] == [("b", False), ("c", True)]


def test_a_key_is_unique_in_its_scope_only(ledger: Ledger) -> None:
    turns = [
        make_turn("one", id="a", idempotency_key="k"),
        make_turn("two", id="b", idempotency_key="k", user="bob"),
        make_turn("three", id="c", idempotency_key="k", run="r1"),
        make_turn("four", id="d", idempotency_key="k", namespace="other"),
    ]
    assert [outcome for _, outcome in take_in(ledger, *turns)] == [Outcome.NEW] * 4


def test_lanes_of_one_owner_share_its_row(ledger: Ledger) -> None:
    take_in(ledger, make_turn(run="r1"), make_turn(run="r2"), make_turn(), make_turn(user=None, run="r3"))
    assert len(table(ledger, lanes)) == 4
    assert sorted((row.user_id, row.run_id) for row in table(ledger, owners) if row.user_id) == [("ann", None)]
    assert [row.run_id for row in table(ledger, owners) if row.user_id is None] == ["r3"]


def test_turns_of_a_producer_are_seated_by_their_numbers_whatever_the_order_of_arrival(ledger: Ledger) -> None:
    take_in(ledger, numbered(3))
    take_in(ledger, numbered(2))
    assert seated(ledger) == []
    assert job_of(ledger, "p-3").held_until == START + timedelta(seconds=WAIT)
    take_in(ledger, numbered(1), after=2)
    assert seated(ledger) == ["p-1", "p-2", "p-3"]
    assert job_of(ledger, "p-3").held_until is None
    assert table(ledger, lane_numbers) == []
    assert [row.expected for row in table(ledger, lane_producers)] == [4]
    assert (counted(ledger, "order_gaps"), counted(ledger, "late_turns")) == (0, 0)


def test_a_reordered_batch_is_seated_in_order(ledger: Ledger) -> None:
    take_in(ledger, numbered(2), numbered(4), numbered(1), numbered(3))
    assert seated(ledger) == ["p-1", "p-2", "p-3", "p-4"]


def test_one_producer_does_not_wait_for_another(ledger: Ledger) -> None:
    take_in(ledger, numbered(2, "p"), numbered(1, "q"), make_turn(id="unnumbered"), numbered(2, "q"))
    assert seated(ledger) == ["q-1", "unnumbered", "q-2"]


def test_a_producer_counts_each_lane_for_itself(ledger: Ledger) -> None:
    take_in(ledger, numbered(1), make_turn(id="other", user="bob", producer="p", number=1))
    assert (seated(ledger), seated(ledger, "bob")) == (["p-1"], ["other"])


def test_a_gap_is_passed_after_order_wait_and_counted(ledger: Ledger) -> None:
    take_in(ledger, numbered(1), numbered(4), numbered(5))
    assert release(ledger, WAIT - 1) == 0
    assert seated(ledger) == ["p-1"]
    assert release(ledger, WAIT) == 2
    assert seated(ledger) == ["p-1", "p-4", "p-5"]
    assert counted(ledger, "order_gaps") == 2
    assert release(ledger, WAIT + 1) == 0
    assert counted(ledger, "order_gaps") == 2
    assert take_in(ledger, numbered(6), after=WAIT + 1) == [("p-6", Outcome.NEW)]
    assert seated(ledger)[-1] == "p-6"


def test_what_waits_behind_a_passed_gap_for_another_one_goes_on_waiting(ledger: Ledger) -> None:
    take_in(ledger, numbered(2))
    take_in(ledger, numbered(4), after=20)
    assert release(ledger, WAIT) == 1
    assert seated(ledger) == ["p-2"]
    take_in(ledger, numbered(3), after=WAIT + 1)
    assert seated(ledger) == ["p-2", "p-3", "p-4"]
    assert counted(ledger, "order_gaps") == 1


def test_a_turn_that_comes_after_its_gap_was_passed_is_seated_last_and_counted(ledger: Ledger) -> None:
    take_in(ledger, numbered(2))
    release(ledger, WAIT)
    take_in(ledger, numbered(1), after=WAIT + 5)
    assert seated(ledger) == ["p-2", "p-1"]
    assert counted(ledger, "late_turns") == 1


@pytest.mark.parametrize("content", ["same", "other"])
def test_a_number_whose_turn_made_no_job_is_no_gap(ledger: Ledger, content: str) -> None:
    take_in(ledger, make_turn("same", id="first", idempotency_key="k", producer="p", number=1))
    take_in(ledger, make_turn(content, id="second", idempotency_key="k", producer="p", number=2))
    take_in(ledger, numbered(3))
    assert seated(ledger) == ["first", "p-3"]
    assert table(ledger, lane_numbers) == []


def test_a_number_without_a_job_that_arrives_too_early_is_kept_and_is_no_gap(ledger: Ledger) -> None:
    take_in(ledger, make_turn("same", id="first", idempotency_key="k", producer="p", number=1))
    take_in(ledger, make_turn("same", id="third", idempotency_key="k", producer="p", number=3), numbered(4))
    assert [row.number for row in table(ledger, lane_numbers)] == [3, 4]
    take_in(ledger, numbered(2))
    assert seated(ledger) == ["first", "p-2", "p-4"]
    assert counted(ledger, "order_gaps") == 0


def test_only_what_is_missing_counts_as_a_gap(ledger: Ledger) -> None:
    take_in(ledger, make_turn("same", id="first", idempotency_key="k", producer="p", number=1))
    take_in(ledger, make_turn("same", id="third", idempotency_key="k", producer="p", number=3), numbered(5))
    release(ledger, WAIT)
    assert seated(ledger) == ["first", "p-5"]
    assert counted(ledger, "order_gaps") == 2  # 2 and 4


@pytest.mark.parametrize("together", [True, False])
def test_a_turn_whose_second_call_arrives_first_takes_effect_at_the_place_of_the_first_call(ledger: Ledger, together: bool) -> None:
    first, other = numbered(1, idempotency_key="k"), numbered(2)
    again = make_turn("fact 1 of p", id="p-3", producer="p", number=3, idempotency_key="k")
    if together:
        take_in(ledger, other, again, first)
    else:
        for turn in (other, again, first):
            take_in(ledger, turn)
    assert seated(ledger) == ["p-3", "p-2"]  # the second call's job stands for both
    with ledger.read() as connection:
        state = receipt_state(connection, "p-1")
    assert state is not None
    assert state.same_as == "p-3"
    take_in(ledger, numbered(4))
    assert seated(ledger) == ["p-3", "p-2", "p-4"]
    assert counted(ledger, "order_gaps") == counted(ledger, "late_turns") == 0


def test_a_number_given_out_twice_loses_no_turn(ledger: Ledger) -> None:
    take_in(ledger, numbered(2), make_turn("twin", id="twin", producer="p", number=2))
    take_in(ledger, numbered(1))
    release(ledger, WAIT)
    assert sorted(seated(ledger)) == ["p-1", "p-2", "twin"]


def test_a_turn_that_was_called_lost_and_arrives_is_lost_no_more(ledger: Ledger) -> None:
    with ledger.write() as tx:
        note_lost(tx, "a", now=START)
        note_lost(tx, "a", now=START)
    assert counted(ledger, "lost_turns") == 1
    take_in(ledger, make_turn(id="a"))
    with ledger.read() as connection:
        state = receipt_state(connection, "a")
    assert state is not None
    assert state.status == "accepted"


def test_an_unknown_turn_has_no_state_and_another_namespace_sees_none(ledger: Ledger) -> None:
    take_in(ledger, make_turn(id="a"))
    with ledger.read() as connection:
        assert receipt_state(connection, "b") is None
        assert receipt_state(connection, "a", namespace="other") is None
        assert receipt_state(connection, "a", namespace="default") is not None


def test_a_lane_that_had_nothing_to_do_is_ready_from_the_arrival_on(ledger: Ledger) -> None:
    take_in(ledger, make_turn(id="a"), after=0)
    with ledger.write() as tx:
        tx.execute(sa.update(lanes).values(done_position=1))
    take_in(ledger, make_turn(id="b"), after=90000)
    take_in(ledger, make_turn(id="c"), after=90001)
    (lane,) = table(ledger, lanes)
    assert lane.ready_at == START + timedelta(seconds=90000)


def together(*works: Any) -> None:
    """Runs each in a thread of its own, all beginning at once; raises what one of them raises."""
    gate = threading.Barrier(len(works))

    def run(work: Any) -> None:
        gate.wait()
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(run, work) for work in works]:
            future.result(timeout=300)


def test_accepts_at_the_same_time_into_one_lane_seat_every_turn_once(ledger: Ledger) -> None:
    def work(producer: str) -> Any:
        def run() -> None:
            for start in range(1, 21, 4):
                take_in(ledger, *(numbered(number, producer) for number in range(start, start + 4)))

        return run

    together(*(work(name) for name in "pqrs"))
    order = seated(ledger)
    assert len(order) == 80
    for name in "pqrs":
        assert [id for id in order if id.startswith(name)] == [f"{name}-{number}" for number in range(1, 21)]


def test_accepts_at_the_same_time_of_one_key_and_of_one_turn_make_one_job(ledger: Ledger) -> None:
    outcomes: list[Outcome] = []

    def run(id: str) -> Any:
        def work() -> None:
            outcomes.extend(outcome for _, outcome in take_in(ledger, make_turn("one", id=id, idempotency_key="k")))

        return work

    together(*(run(id) for id in ("a", "b", "c", "c")))
    assert len(seated(ledger)) == 1
    assert outcomes.count(Outcome.NEW) == 1


def test_accepts_at_the_same_time_into_many_new_lanes_do_not_block_each_other_for_good(ledger: Ledger) -> None:
    users = [f"u{number}" for number in range(12)]

    def work(order: Sequence[str], name: str) -> Any:
        def run() -> None:
            for round in range(3):
                take_in(ledger, *(make_turn(user=user, id=f"{name}-{round}-{user}") for user in order))

        return run

    together(work(users, "p"), work(users[::-1], "q"), work(users[6:] + users[:6], "r"))
    assert all(len(seated(ledger, user)) == 9 for user in users)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """One SQLite ledger for all examples, each in a namespace of its own."""
    from memline.ledger.migrate import open_ledger

    opened = Ledger(f"sqlite:///{tmp_path_factory.mktemp('accept') / 'ledger.db'}")
    open_ledger(opened)
    yield opened
    opened.close()


_example = iter(range(1_000_000))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_order_of_arrival_each_producers_turns_are_seated_in_its_order_and_once(shared: Ledger, data: st.DataObject) -> None:
    space = f"example-{next(_example)}"
    turns = []
    for producer in "pqr":
        for user in ("ann", "bob"):
            for number in range(1, data.draw(st.integers(0, 4), label=f"turns of {producer} for {user}") + 1):
                options: dict[str, Any] = {"producer": producer, "number": number, "user": user, "namespace": space}
                if number == 2 and data.draw(st.booleans(), label="repeats its key"):
                    options["idempotency_key"] = f"{producer}-key"
                if number == 3 and data.draw(st.booleans(), label="uses the key again"):
                    options["idempotency_key"] = f"{producer}-key"
                turns.append(make_turn("same", id=f"{space}-{producer}-{user}-{number}", **options))
    arrivals = data.draw(st.permutations(turns), label="arrivals")
    again = data.draw(st.lists(st.sampled_from(turns), max_size=3) if turns else st.just([]), label="delivered twice")
    arrivals = [*arrivals, *again]
    start = 0
    while start < len(arrivals):
        size = data.draw(st.integers(1, 5), label="batch")
        take_in(shared, *arrivals[start : start + size])
        start += size
    with shared.read() as connection:
        rows = connection.execute(sa.select(jobs).where(jobs.c.namespace == space).order_by(jobs.c.lane, jobs.c.place)).all()
        made_none = set(connection.execute(sa.select(repeats.c.turn_id)).scalars())
    assert {row.id for row in rows} == {turn.id for turn in turns} - made_none
    assert all(row.place is not None for row in rows)
    assert len({(row.lane, row.place) for row in rows}) == len(rows)
    for lane in {row.lane for row in rows}:
        for producer in "pqr":
            numbers = [row.number for row in rows if row.lane == lane and row.producer == producer]
            assert numbers == sorted(numbers)
