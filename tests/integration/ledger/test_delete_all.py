"""Deleting scopes and namespaces, and the turns that were handed over before, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from memline.contracts.filters import parse
from memline.contracts.scope import Scope
from memline.contracts.turn import Turn
from memline.ledger.accept import Accepted, Outcome, accept_turns
from memline.ledger.claim import ClaimLimits
from memline.ledger.counters import read_counters
from memline.ledger.delete_all import Cleared, delete_all, reset_namespace
from memline.ledger.history import history_of
from memline.ledger.jobs import STAGES, Stage, fail_jobs, retry_job
from memline.ledger.marks import place_of
from memline.ledger.retire import delete_memory
from memline.ledger.schema import (
    entities,
    entity_names,
    idempotency_keys,
    jobs,
    lanes,
    leases,
    marks,
    memories,
    messages,
    owners,
    postings,
    stage_results,
    vectors,
)  # fmt: skip
from memline.ledger.session import Ledger
from memline.outbox.verify import verify
from memline.pipeline.edit import Change, edit_memory
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_through
from memline.search.searcher import Searcher
from tests.integration.pipeline.steps import claimed, live, nothing_is_left_over, state, up_to
from tests.parts import (
    START,
    HandClock,
    ScriptedExtractor,
    TrigramEmbedder,
    WordAnalyser,
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


def clear(parts: Parts, place: str | None = None, namespace: str = "default", **ids: str) -> Cleared:
    return delete_all(parts.ledger, Scope.of(namespace, **ids), now=parts.clock.now(), place=None if place is None else place_of(place))


def arrive(parts: Parts, *entries: tuple[str, Turn], margin: float = 60) -> list[Accepted]:
    """Turns that reach the ledger through the stream."""
    with parts.ledger.write() as tx:
        turns = [turn for _, turn in entries]
        ids = [entry for entry, _ in entries]
        return accept_turns(tx, turns, now=parts.clock.now(), order_wait=parts.order_wait, entries=ids, clock_margin=margin)


def tell(parts: Parts, *texts: str, **options: Any) -> list[str]:
    turn = make_turn("\n".join(texts), **options)
    accept(parts, turn)
    run_all(parts)
    return [row.id for row in table(parts.ledger, memories, memories.c.job_id == turn.id)]


def sound(parts: Parts) -> None:
    make_relay(parts).drain()
    report = verify(parts.ledger, parts.index, deep=True)
    assert report.sound and report.lag == 0, report.to_json()


def outcomes(found: Sequence[Accepted]) -> list[Outcome]:
    return [each.outcome for each in found]


def test_a_scope_goes_with_everything_that_was_made_in_it_and_nobody_elses(parts: Parts) -> None:
    tell(parts, "User met Anna", "User likes tea")
    tell(parts, "User met Bert", run="r", agent="a")
    tell(parts, "User met Carl", user="bob", agent="a")
    tell(parts, "User met Dora", namespace="other")
    assert clear(parts, user_id="ann") == Cleared(deleted=3, cancelled=0)
    assert live(parts.ledger) == ["User met Carl", "User met Dora"]
    assert [row.norm for row in table(parts.ledger, entities)] == ["carl", "dora"]
    assert [row.norm for row in table(parts.ledger, entity_names)] == ["carl", "dora"]
    assert sorted(row.text for row in table(parts.ledger, messages)) == ["User met Carl", "User met Dora"]
    counts = {row.user_id: (row.live, row.length) for row in table(parts.ledger, owners, owners.c.namespace == "default")}
    assert counts == {"ann": (0, 0), "bob": (1, 3)}
    alive = table(parts.ledger, memories, memories.c.state == "live")
    for source in (postings, vectors):
        assert {row.memory_no for row in table(parts.ledger, source)} == {row.no for row in alive}
    of_ann = {row.id for row in table(parts.ledger, jobs)} - {row.job_id for row in alive}
    assert not of_ann & {row.job_id for row in table(parts.ledger, stage_results)}
    assert all(job_of(parts.ledger, job_id).messages is None for job_id in of_ann)
    sound(parts)
    assert {key.kind for key in parts.index.objects} == {"memory", "entity"}  # type: ignore[attr-defined]
    assert len(parts.index.objects) == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("ids", "left"),
    [
        ({"user_id": "ann"}, ["bob+a", "bob+a+r"]),
        ({"agent_id": "a"}, ["ann", "ann+r"]),
        ({"run_id": "r"}, ["ann", "ann+a", "bob+a"]),
        ({"user_id": "ann", "agent_id": "a"}, ["ann", "ann+r", "bob+a", "bob+a+r"]),
        ({"agent_id": "a", "run_id": "r"}, ["ann", "ann+a", "ann+r", "bob+a"]),
        ({"user_id": "An"}, ["ann", "ann+a", "ann+r", "bob+a", "bob+a+r"]),
    ],
)
def test_ids_are_compared_as_they_are_and_all_of_them(parts: Parts, ids: dict[str, str], left: list[str]) -> None:
    for user, agent, run in (("ann", None, None), ("ann", "a", None), ("ann", None, "r"), ("bob", "a", None), ("bob", "a", "r")):
        tell(parts, "+".join(filter(None, (user, agent, run))), user=user, agent=agent, run=run)
    assert clear(parts, **ids).deleted == 5 - len(left)
    assert sorted(live(parts.ledger)) == left
    sound(parts)


def test_turns_that_wait_are_held_run_or_failed_end_cancelled_with_what_they_carried(parts: Parts) -> None:
    accept(parts, make_turn("secret one", id="waits"), make_turn("secret two", id="held", producer="p", number=2))
    accept(parts, make_turn("secret three", id="runs", run="r"), make_turn("boom secret", id="failed", run="f"))
    with parts.ledger.write() as tx:
        fail_jobs(tx, [job_of(parts.ledger, "failed").no], reason="it broke", now=START)
        tx.execute(sa.update(lanes).where(lanes.c.key == job_of(parts.ledger, "failed").lane).values(done_position=1))
    here = [up_to(parts, lease, Stage.PERSIST) for lease in claimed(parts)]
    accept(parts, make_turn("other", id="other", user="bob"))
    assert clear(parts, user_id="ann") == Cleared(deleted=0, cancelled=4)
    for job_id in ("waits", "held", "runs", "failed"):
        row = job_of(parts.ledger, job_id)
        assert (row.state, row.reason, row.messages, row.metadata) == ("cancelled", "delete_all removed its scope", None, None)
        assert row.finished_at is not None
    assert table(parts.ledger, stage_results) == []
    with parts.ledger.write() as tx:
        assert retry_job(tx, "failed", now=START) is False
        assert read_counters(tx)["turns_cancelled"] == 4
    for lease in here:
        run_through(parts, lease, worker="w", send=lambda _: None, stopped=lambda: False)
    run_all(parts)
    assert live(parts.ledger) == ["other"]
    nothing_is_left_over(parts.ledger)
    sound(parts)


@pytest.mark.parametrize("which", STAGES)
def test_a_turn_that_stands_between_two_stages_leaves_nothing(parts: Parts, which: Stage) -> None:
    accept(parts, make_turn("User met Anna", id="a"), make_turn("User met Bert", id="b", user="bob"))
    waiting = [up_to(parts, lease, which) for lease in claimed(parts)]
    cleared = clear(parts, user_id="ann")
    committed = which in (Stage.LINK, Stage.SAVE)
    assert cleared == Cleared(deleted=int(committed), cancelled=int(not committed))
    for lease in waiting:
        run_through(parts, lease, worker="w", send=lambda _: None, stopped=lambda: False)
    run_all(parts)
    make_relay(parts).drain()
    assert state(parts.ledger, "a")[0] == ("searchable" if committed else "cancelled")
    assert live(parts.ledger) == ["User met Bert"]
    assert [row.norm for row in table(parts.ledger, entities)] == ["bert"]
    assert [row.text for row in table(parts.ledger, messages)] == ["User met Bert"]
    nothing_is_left_over(parts.ledger)
    sound(parts)


def test_a_stage_that_is_at_work_when_its_scope_is_deleted_commits_nothing(ledger: Ledger) -> None:
    cleared: list[Cleared] = []
    extractor = ScriptedExtractor(wait=lambda first: cleared.append(clear(parts, user_id="ann")) if first == "User met Anna" else None)
    parts = make_parts(ledger, extractor=extractor)
    accept(parts, make_turn("User met Anna", id="a"))
    run_all(parts)
    assert cleared == [Cleared(deleted=0, cancelled=1)]
    assert state(ledger, "a")[0] == "cancelled"
    assert table(ledger, stage_results) == []  # the reply that came after it is not kept either
    nothing_is_left_over(ledger)
    sound(parts)


def test_a_batch_of_several_scopes_goes_on_with_the_others(parts: Parts) -> None:
    accept(parts, make_turn("one", id="a"), make_turn("two", id="b"), make_turn("three", id="c", user="bob"))
    waiting = claimed(parts)
    assert clear(parts, user_id="ann").cancelled == 2
    for lease in waiting:
        run_through(parts, lease, worker="w", send=lambda _: None, stopped=lambda: False)
    assert live(parts.ledger) == ["three"]
    nothing_is_left_over(parts.ledger)
    tell(parts, "after it")
    assert live(parts.ledger) == ["three", "after it"]


def test_turns_on_their_way_end_cancelled_if_their_entry_is_before_the_mark(parts: Parts) -> None:
    clear(parts, "1000-5", user_id="ann", agent_id="a")
    found = arrive(
        parts,
        ("999-9", make_turn("one", agent="a", id="before")),
        ("1000-4", make_turn("two", agent="a", run="r", id="just before")),
        ("1000-6", make_turn("three", agent="a", id="after")),
        ("10000-0", make_turn("four", agent="a", id="long after")),
        ("999-9", make_turn("five", id="no agent")),
        ("999-9", make_turn("six", user="bob", agent="a", id="another user")),
        ("999-9", make_turn("seven", agent="a", namespace="other", id="another namespace")),
    )
    assert outcomes(found) == [Outcome.CANCELLED] * 2 + [Outcome.NEW] * 5
    row = job_of(parts.ledger, "before")
    assert (row.state, row.messages, row.metadata, row.place) == ("cancelled", None, None, None) and row.finished_at is not None
    run_all(parts)
    assert sorted(live(parts.ledger)) == ["five", "four", "seven", "six", "three"]
    assert outcomes(arrive(parts, ("1000-4", make_turn("two", agent="a", run="r", id="just before")))) == [Outcome.AGAIN]
    nothing_is_left_over(parts.ledger)
    sound(parts)


def test_a_spooled_turn_ends_cancelled_up_to_the_margin_after_the_mark(parts: Parts) -> None:
    clear(parts, "1000-0", user_id="ann")
    at = HandClock(START)
    early, late = make_turn("one", at=at.advance(59)), make_turn("two", at=at.advance(2))
    found = arrive(parts, ("2000-0", early.as_spooled()), ("2000-1", late.as_spooled()), ("2000-2", make_turn("three", at=START)))
    assert outcomes(found) == [Outcome.CANCELLED, Outcome.NEW, Outcome.NEW]


def test_a_turn_straight_from_the_caller_is_after_every_deletion_that_the_ledger_has(parts: Parts) -> None:
    clear(parts, user_id="ann")
    assert outcomes(accept(parts, make_turn("one"))) == [Outcome.NEW]


def test_a_cancelled_turn_uses_its_number_and_its_key(parts: Parts) -> None:
    clear(parts, "1000-0", user_id="ann")
    first = make_turn("one", producer="p", number=1, idempotency_key="k", id="a")
    arrive(parts, ("1-0", first), ("2000-0", make_turn("two", producer="p", number=2, id="b")))
    assert outcomes(arrive(parts, ("3000-0", make_turn("one", producer="p", number=3, idempotency_key="k")))) == [Outcome.REPEAT]
    assert len(table(parts.ledger, idempotency_keys)) == 1
    run_all(parts)
    assert live(parts.ledger) == ["two"]
    nothing_is_left_over(parts.ledger)


def test_a_cancelled_turn_closes_the_gap_before_those_that_wait_for_it(parts: Parts) -> None:
    clear(parts, "1000-0", user_id="ann")
    arrive(parts, ("2000-0", make_turn("two", producer="p", number=2, id="b")))
    run_all(parts)
    assert live(parts.ledger) == []
    arrive(parts, ("900-0", make_turn("one", producer="p", number=1, id="a")))
    run_all(parts)
    assert live(parts.ledger) == ["two"]


def test_the_newest_mark_of_ids_stands_and_a_reset_covers_those_of_its_namespace(parts: Parts) -> None:
    clear(parts, "1000-0", user_id="ann")
    clear(parts, "3000-0", user_id="ann")
    clear(parts, "2000-0", user_id="ann")
    (mark,) = table(parts.ledger, marks)
    assert mark.place == place_of("3000-0") and "ann" not in str(mark)
    clear(parts, "1-0", namespace="other", user_id="ann")
    reset_namespace(parts.ledger, "default", now=START, place=place_of("4000-0"))
    there = {row.namespace: row.place for row in table(parts.ledger, marks)}
    assert there == {"default": place_of("4000-0"), "other": place_of("1-0")}
    found = arrive(parts, ("3500-0", make_turn("one", user="anyone")), ("3500-1", make_turn("two", namespace="other")))
    assert outcomes(found) == [Outcome.CANCELLED, Outcome.NEW]


def test_a_reset_empties_its_namespace_and_its_history_and_no_other(parts: Parts) -> None:
    gone, kept = tell(parts, "User met Anna X123", "User likes tea")
    tell(parts, "User met Dora", namespace="other")
    accept(parts, make_turn("secret X123", id="waits"))
    delete_memory(parts.ledger, "default", gone, now=START)
    assert reset_namespace(parts.ledger, "default", now=START) == Cleared(deleted=1, cancelled=1)
    assert live(parts.ledger) == ["User met Dora"]
    with parts.ledger.read() as connection:
        for memory_id in (gone, kept):
            rows = history_of(connection, "default", memory_id)
            assert [(row["event"], row["old_text"], row["new_text"]) for row in rows] == [("ADD", None, None), ("DELETE", None, None)]
        for source in (memories, messages, jobs, stage_results, entities, entity_names, postings):
            assert "x123" not in str(connection.execute(sa.select(source)).all()).lower()
    assert [row.text for row in table(parts.ledger, messages)] == ["User met Dora"]
    assert {row.md5 for row in table(parts.ledger, memories, memories.c.namespace == "default")} == {""}
    assert [row.state for row in table(parts.ledger, jobs, jobs.c.namespace == "default")] == ["committed", "cancelled"]
    tell(parts, "User met Anna X123")
    assert "User met Anna X123" in live(parts.ledger)
    nothing_is_left_over(parts.ledger)
    sound(parts)


def test_a_reset_of_more_lanes_than_go_in_one_statement_frees_all_of_them(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memline.ledger.delete_all._CHUNK", 2)
    parts = make_parts(ledger, limits=ClaimLimits(in_flight=1, batch=3))
    users = [f"u{number}" for number in range(5)]
    accept(parts, *(make_turn("one", user=user) for user in users))
    claimed(parts)  # of three of them
    accept(parts, *(make_turn("two", user=user) for user in users))
    assert reset_namespace(ledger, "default", now=START) == Cleared(0, 10)
    assert {(row.state, row.lease_id, row.messages) for row in table(ledger, jobs)} == {("cancelled", None, None)}
    assert table(ledger, leases) == []
    assert all(row.lease_id is None and row.done_position == row.last_position for row in table(ledger, lanes))
    accept(parts, *(make_turn("three", user=user) for user in users))
    run_all(parts)
    assert live(ledger) == ["three"] * 5


def test_an_empty_scope_is_deleted_without_an_effect(parts: Parts) -> None:
    tell(parts, "User likes tea")
    assert clear(parts, user_id="nobody") == Cleared(0, 0)
    assert live(parts.ledger) == ["User likes tea"]


def test_deletions_of_overlapping_scopes_at_the_same_time_count_each_memory_once(parts: Parts) -> None:
    for number in range(12):
        tell(parts, f"fact {number}", agent="a", run=f"r{number}")
    gate = threading.Barrier(4)
    found: list[Cleared] = []

    def work(ids: dict[str, str]) -> None:
        gate.wait()
        found.append(clear(parts, **ids))

    scopes = ({"user_id": "ann"}, {"agent_id": "a"}, {"user_id": "ann", "agent_id": "a"}, {"run_id": "r3"})
    threads = [threading.Thread(target=work, args=[ids]) for ids in scopes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.deleted for each in found) == 12
    assert {(row.live, row.length) for row in table(parts.ledger, owners)} == {(0, 0)}
    sound(parts)


def test_a_deletion_beside_turns_that_are_accepted_and_run_leaves_only_what_came_after_it(parts: Parts) -> None:
    """Whatever the ledger met before the mark is gone, whatever after it is there; nothing is in between."""
    stop = threading.Event()
    errors: list[BaseException] = []
    handed: list[str] = []

    def write() -> None:
        try:
            while not stop.is_set() and len(handed) < 40:
                turn = make_turn(f"fact {len(handed)}", id=f"t-{len(handed):03}")
                accept(parts, turn)
                handed.append(turn.id)
                run_all(parts)
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(3):
        clear(parts, user_id="ann")
    stop.set()
    writer.join()
    run_all(parts)
    assert errors == []
    alive = {row.job_id for row in table(parts.ledger, memories, memories.c.state == "live")}
    states = [(job_id, job_of(parts.ledger, job_id).state, job_id in alive) for job_id in handed]
    kept = [kept for _, _, kept in states]
    assert kept == sorted(kept), states
    assert table(parts.ledger, leases) == []
    sound(parts)


def test_no_search_finds_what_was_deleted_or_changed_while_the_index_lags(parts: Parts) -> None:
    """The index is told nothing after the first round, as one that is five seconds behind, or was restored from yesterday's backup."""
    (tea,) = tell(parts, "User likes tea")
    (gone,) = tell(parts, "User likes cake", run="r")
    (deleted,) = tell(parts, "User likes cake too")
    make_relay(parts).drain()
    searcher = Searcher(parts.ledger, parts.index, WordAnalyser(), TrigramEmbedder(), parts.clock, deadline=240)

    def found() -> list[str]:
        hits = searcher.search("default", "What cake does the User likes?", parse({"user_id": "ann"}), top_k=10, threshold=0.0).results
        return sorted(hit.row.text for hit in hits)

    assert found() == ["User likes cake", "User likes cake too", "User likes tea"]
    delete_memory(parts.ledger, "default", deleted, now=START)
    edit_memory(parts, "default", tea, Change("User likes coffee"))
    clear(parts, run_id="r")
    assert found() == ["User likes coffee"]
    assert {key.id for key in parts.index.objects} >= {tea, gone, deleted}  # type: ignore[attr-defined]
    clear(parts, user_id="ann")
    assert found() == []
    sound(parts)
