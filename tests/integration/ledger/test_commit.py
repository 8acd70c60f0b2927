"""The commit: what becomes of facts, on both databases."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
import sqlalchemy as sa

from memline.contracts.content_hash import content_hash
from memline.contracts.fact import Fact, Link, Relation
from memline.ledger.commit import Candidate, commit_memories
from memline.ledger.jobs import Job, jobs_of_lease
from memline.ledger.leases import Lease
from memline.ledger.locks import lock_owners, lock_subjects
from memline.ledger.memories import index_objects, load_memories
from memline.ledger.receipts import receipt_state
from memline.ledger.schema import history, jobs, memories, memory_links, outbox, owners, postings, vectors
from memline.ledger.session import Ledger
from memline.pipeline.embed import vector_bytes
from memline.pipeline.parts import Parts
from memline.pipeline.runner import claim_and_send, run_through
from tests.parts import START, HandClock, TrigramEmbedder, accept, job_of, make_parts, make_turn, run_all, table


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def tell(parts: Parts, *texts: str, id: str | None = None, **options: Any) -> str:
    """One turn, run to its end; its id."""
    turn = make_turn("\n".join(texts), id=id, **options)
    accept(parts, turn)
    run_all(parts)
    check_counts(parts.ledger)
    return turn.id


def live(ledger: Ledger) -> list[str]:
    return [row.text for row in table(ledger, memories, memories.c.state == "live")]


def memory(ledger: Ledger, text: str, *where: sa.ColumnElement[bool]) -> Any:
    (row,) = table(ledger, memories, memories.c.text == text, *where)
    return row


def results(ledger: Ledger, job_id: str) -> list[tuple[str, str]]:
    with ledger.read() as connection:
        state = receipt_state(connection, job_id)
    assert state is not None
    return [(result["memory"], result["event"]) for result in state.results]


def check_counts(ledger: Ledger) -> None:
    """What is counted on the way equals what is there, and every row has what belongs to it."""
    rows = {row.no: row for row in table(ledger, memories)}
    for owner in table(ledger, owners):
        here = [row for row in rows.values() if row.owner_no == owner.no and row.state == "live"]
        assert (owner.live, owner.length) == (len(here), sum(row.length for row in here))
    for posting in table(ledger, postings):
        row = rows[posting.memory_no]
        assert row.state in ("live", "superseded")
        assert (posting.live, posting.owner_no, posting.length) == (row.state == "live", row.owner_no, row.length)
    changes: dict[str, list[int]] = {}
    for change in table(ledger, history):
        changes.setdefault(change.memory_id, []).append(change.version)
    assert {row.id: list(range(1, row.version + 1)) for row in rows.values()} == {key: sorted(found) for key, found in changes.items()}
    assert {row.memory_no for row in table(ledger, vectors)} == {row.no for row in rows.values() if row.state != "deleted"}
    shown = {row.object_id: row.version for row in table(ledger, outbox, outbox.c.kind == "memory")}
    assert all(shown[row.id] == row.version for row in rows.values() if row.id in shown)


def test_facts_become_memories_with_all_that_belongs_to_them(parts: Parts) -> None:
    ledger = parts.ledger
    said = day(-3)
    tell(parts, "User likes green tea", "User plays chess", id="a", occurred_at=said, metadata={"cat": "x"}, expires_on=date(2030, 1, 1))
    one, two = table(ledger, memories)
    assert (one.text, one.ordinal, two.text, two.ordinal) == ("User likes green tea", 0, "User plays chess", 1)
    assert (one.job_id, one.state, one.version, one.metadata, one.expires_on) == ("a", "live", 1, {"cat": "x"}, date(2030, 1, 1))
    assert (one.occurred_at, one.valid_from, one.valid_to, one.created_at) == (said, said, None, START)
    assert (one.user_id, one.attributed_to, one.verbatim, one.length) == ("ann", "user", False, 4)
    assert sorted((row.term, row.tf, row.live) for row in table(ledger, postings, postings.c.memory_no == one.no)) == [
        ("green", 1, True),
        ("likes", 1, True),
        ("tea", 1, True),
        ("user", 1, True),
    ]
    vector = next(row for row in table(ledger, vectors) if row.memory_no == one.no)
    assert (vector.model, vector.dimension) == ("trigrams", 64)
    assert bytes(vector.vector) == vector_bytes(TrigramEmbedder().embed(["User likes green tea"])[0])
    assert [(row.event, row.old_text, row.new_text, row.job_id) for row in table(ledger, history)] == [
        ("ADD", None, "User likes green tea", "a"),
        ("ADD", None, "User plays chess", "a"),
    ]
    assert [(row.kind, row.version) for row in table(ledger, outbox)] == [("memory", 1), ("memory", 1)]
    job = job_of(ledger, "a")
    assert (job.state, job.stage, job.reason, job.extractor) == ("committed", "done", None, "lines")
    assert results(ledger, "a") == [("User likes green tea", "ADD"), ("User plays chess", "ADD")]


def test_a_turn_that_says_nothing_is_searchable_at_once_and_says_why(parts: Parts) -> None:
    tell(parts, "hello", id="a")
    job = job_of(parts.ledger, "a")
    assert (job.state, job.reason, job.outcome, job.searchable_at) == ("searchable", "nothing to extract", [], START)
    assert table(parts.ledger, memories) == []


def test_a_fact_that_is_there_already_is_a_duplicate_of_it(parts: Parts) -> None:
    tell(parts, "User likes tea", id="a")
    (row,) = table(parts.ledger, memories)
    tell(parts, "user  likes TEa".replace("TE", "te"), id="b")
    assert live(parts.ledger) == ["User likes tea"]
    job = job_of(parts.ledger, "b")
    assert (job.state, job.reason) == ("searchable", f"duplicate of {row.id}")
    assert results(parts.ledger, "b") == [("User likes tea", "DUPLICATE")]


def test_duplicates_inside_one_turn_and_inside_one_batch_are_one_memory(parts: Parts) -> None:
    accept(parts, make_turn("User likes tea\nUser likes tea", id="a"), make_turn("User likes tea\nUser likes cake", id="b"))
    run_all(parts)
    assert live(parts.ledger) == ["User likes tea", "User likes cake"]
    assert [event for _, event in results(parts.ledger, "a")] == ["ADD", "DUPLICATE"]
    assert [event for _, event in results(parts.ledger, "b")] == ["DUPLICATE", "ADD"]
    check_counts(parts.ledger)


@pytest.mark.parametrize("options", [{"run": "r1"}, {"agent": "coach"}, {"user": "bob"}, {"namespace": "other"}])
def test_another_scope_has_its_own_copy(parts: Parts, options: dict[str, Any]) -> None:
    tell(parts, "User likes tea")
    tell(parts, "User likes tea", **options)
    assert live(parts.ledger) == ["User likes tea"] * 2


def test_a_newer_answer_supersedes_the_older_one(parts: Parts) -> None:
    tell(parts, "[work] User works at Contoso", at=day(0))
    tell(parts, "[work] User works at Fabrikam", at=day(9))
    assert live(parts.ledger) == ["User works at Fabrikam"]
    old, new = memory(parts.ledger, "User works at Contoso"), memory(parts.ledger, "User works at Fabrikam")
    assert (old.state, old.superseded_by, old.valid_to, old.version) == ("superseded", new.id, day(9), 2)
    assert (new.valid_from, new.valid_to, new.version) == (day(9), None, 1)
    changes = table(parts.ledger, history, history.c.memory_id == old.id)
    assert [(row.event, row.version, row.reason) for row in changes] == [
        ("ADD", 1, None),
        ("SUPERSEDE", 2, f"superseded by {new.id}"),
    ]


def test_a_move_told_in_one_run_closes_the_address_of_another(parts: Parts) -> None:
    tell(parts, "[home] User lives in Berlin", run="r1", at=day(0))
    tell(parts, "[home] User lives in Porto", run="r2", at=day(5))
    assert live(parts.ledger) == ["User lives in Porto"]


@pytest.mark.parametrize("options", [{"user": "bob"}, {"agent": "coach"}, {"namespace": "other"}, {"user": None, "run": "r1"}])
def test_another_owners_answer_closes_nothing(parts: Parts, options: dict[str, Any]) -> None:
    tell(parts, "[home] User lives in Berlin", at=day(0))
    tell(parts, "[home] User lives in Porto", at=day(5), **options)
    assert len(live(parts.ledger)) == 2


def test_answers_to_another_question_close_nothing(parts: Parts) -> None:
    tell(parts, "[home] User lives in Berlin", "[work] User works at Contoso", "User likes Berlin")
    assert len(live(parts.ledger)) == 3


def times_of(ledger: Ledger) -> dict[str, tuple[str, datetime, datetime | None, str | None]]:
    rows = table(ledger, memories)
    names = {row.id: row.text for row in rows}
    return {row.text: (row.state, row.valid_from, row.valid_to, names.get(row.superseded_by)) for row in rows}


def test_an_older_answer_that_arrives_late_is_in_the_past_from_the_start(parts: Parts) -> None:
    tell(parts, "[work] User works at Fabrikam", at=day(9))
    tell(parts, "[work] User works at Contoso", at=day(0), id="late")
    assert live(parts.ledger) == ["User works at Fabrikam"]
    assert times_of(parts.ledger)["User works at Contoso"] == ("superseded", day(0), day(9), "User works at Fabrikam")
    assert [event for _, event in results(parts.ledger, "late")] == ["ADD"]
    assert [row.version for row in table(parts.ledger, memories)] == [1, 2]


@pytest.mark.parametrize("order", list(permutations([0, 1, 2, 3])))
def test_answers_are_in_the_order_in_which_they_were_said_whichever_arrives_first(parts: Parts, order: Sequence[int]) -> None:
    for number in order:
        tell(parts, f"[work] User works at C{number}", at=day(number), run=f"r{number % 2}")
    assert times_of(parts.ledger) == {
        "User works at C0": ("superseded", day(0), day(1), "User works at C1"),
        "User works at C1": ("superseded", day(1), day(2), "User works at C2"),
        "User works at C2": ("superseded", day(2), day(3), "User works at C3"),
        "User works at C3": ("live", day(3), None, None),
    }


def test_answers_of_one_batch_supersede_each_other_in_their_order(parts: Parts) -> None:
    accept(parts, *(make_turn(f"[work] User works at C{number}", at=day(number)) for number in range(3)))
    run_all(parts)
    assert live(parts.ledger) == ["User works at C2"]
    assert [row.version for row in table(parts.ledger, memories)] == [2, 2, 1]
    check_counts(parts.ledger)


def test_of_two_answers_in_one_turn_the_later_one_is_current(parts: Parts) -> None:
    tell(parts, "[work] User works at Contoso", "[work] User works at Fabrikam")
    assert live(parts.ledger) == ["User works at Fabrikam"]


def test_back_to_what_was_is_a_new_current_memory(parts: Parts) -> None:
    for number, city in enumerate(["Berlin", "Porto", "Berlin"]):
        tell(parts, f"[home] User lives in {city}", at=day(number))
    berlin = table(parts.ledger, memories, memories.c.text == "User lives in Berlin")
    assert [(row.state, row.valid_from, row.valid_to) for row in berlin] == [("superseded", day(0), day(1)), ("live", day(2), None)]
    assert live(parts.ledger) == ["User lives in Berlin"]


def test_back_to_what_was_within_one_batch(parts: Parts) -> None:
    accept(parts, *(make_turn(f"[home] User lives in {city}", at=day(n)) for n, city in enumerate(["Berlin", "Porto", "Berlin"])))
    run_all(parts)
    assert live(parts.ledger) == ["User lives in Berlin"]
    assert [row.state for row in table(parts.ledger, memories)] == ["superseded", "superseded", "live"]
    check_counts(parts.ledger)


def test_a_verbatim_memory_has_no_slot_to_be_closed_by(parts: Parts) -> None:
    tell(parts, "[home] I live in Berlin", infer=False, at=day(0))
    tell(parts, "[home] User lives in Porto", at=day(1))
    assert live(parts.ledger) == ["[home] I live in Berlin", "User lives in Porto"]
    row = table(parts.ledger, memories)[0]
    assert (row.verbatim, row.role, row.attributed_to, row.slot) == (True, "user", None, None)


def test_an_expired_twin_is_retired_first(parts: Parts) -> None:
    clock = parts.clock
    assert isinstance(clock, HandClock)
    tell(parts, "User is in Rome", expires_on=START.date())
    clock.advance(3600)
    tell(parts, "User is in Rome", id="same-day")
    assert [event for _, event in results(parts.ledger, "same-day")] == ["DUPLICATE"]
    clock.advance(86400)
    tell(parts, "User is in Rome", id="next-day")
    old, new = table(parts.ledger, memories)
    assert (old.state, old.version, new.state) == ("expired", 2, "live")
    assert [row.event for row in table(parts.ledger, history, history.c.memory_id == old.id)] == ["ADD", "EXPIRE"]
    assert results(parts.ledger, "next-day") == [("User is in Rome", "ADD")]
    assert table(parts.ledger, postings, postings.c.memory_no == old.no) == []
    with parts.ledger.read() as connection:
        keys = [found.key for found in index_objects(connection, _keys(parts.ledger)).values()]
    assert [key.id for key in keys] == [new.id]


def test_a_memory_that_is_retired_in_the_commit_that_adds_it_leaves_no_postings(parts: Parts) -> None:
    clock = parts.clock
    assert isinstance(clock, HandClock)
    turns = [make_turn("User is in Rome", id=name, expires_on=START.date()) for name in ("a", "b")]
    clock.advance(86400)  # both waited until they had expired, and go in one batch
    accept(parts, *turns)
    run_all(parts)
    old, new = table(parts.ledger, memories)
    assert (old.state, old.version, new.state) == ("expired", 2, "live")
    assert {row.memory_no for row in table(parts.ledger, postings)} == {new.no}
    check_counts(parts.ledger)


def _keys(ledger: Ledger) -> list[Any]:
    from memline.contracts.index_object import ObjectKey

    return [ObjectKey("memory", row.namespace, row.id) for row in table(ledger, memories)]


# Straight into commit_memories, for what no extractor of these tests can say


def candidate(text: str, **options: Any) -> Candidate:
    terms = Counter(text.lower().split())
    return Candidate(Fact(text, **options), terms, sum(terms.values()), vector_bytes(TrigramEmbedder().embed([text])[0]))


def claimed_jobs(parts: Parts) -> list[Job]:
    found: list[Lease] = []
    claim_and_send(parts, found.extend)
    with parts.ledger.read() as connection:
        return [job for lease in found for job in jobs_of_lease(connection, lease.id)]


def commit(parts: Parts, *pairs: tuple[Job, Sequence[Candidate]]) -> dict[str, list[list[str]]]:
    with parts.ledger.write() as tx:
        lock_subjects(tx, {subject for job, _ in pairs for subject in job.scope.subjects})
        lock_owners(tx, {job.scope.owner.key for job, _ in pairs})
        return commit_memories(tx, pairs, model="trigrams", extractor="test", now=parts.clock.now())


def test_a_second_commit_of_a_job_changes_nothing(parts: Parts) -> None:
    accept(parts, make_turn(id="a"))
    (job,) = claimed_jobs(parts)
    first = commit(parts, (job, [candidate("User likes tea"), candidate("User likes cake")]))
    before = [table(parts.ledger, each) for each in (memories, history, outbox, owners, jobs)]
    assert commit(parts, (job, [candidate("User likes tea"), candidate("User likes cake")])) == first
    assert [table(parts.ledger, each) for each in (memories, history, outbox, owners, jobs)] == before


def test_a_link_that_closes_supersedes_and_one_that_only_relates_does_not(parts: Parts) -> None:
    tell(parts, "User has a cat", "User has a dog", at=day(0))
    cat, dog = table(parts.ledger, memories)
    accept(parts, make_turn(id="b", at=day(1)))
    (job,) = claimed_jobs(parts)
    links = (Link(cat.id, Relation.CONTRADICTS), Link(dog.id, Relation.EXTENDS), Link("not-an-id", Relation.UPDATES))
    commit(parts, (job, [candidate("User has no cat", links=links)]))
    assert live(parts.ledger) == ["User has a dog", "User has no cat"]
    new = memory(parts.ledger, "User has no cat")
    assert sorted((row.memory_no, row.to_no, row.relation) for row in table(parts.ledger, memory_links)) == [
        (new.no, cat.no, "contradicts"),
        (new.no, dog.no, "extends"),
    ]
    check_counts(parts.ledger)


def test_a_link_into_another_owners_memories_is_dropped(parts: Parts) -> None:
    tell(parts, "User has a cat", user="bob")
    (cat,) = table(parts.ledger, memories)
    accept(parts, make_turn(id="b", at=day(1)))
    (job,) = claimed_jobs(parts)
    commit(parts, (job, [candidate("User has no cat", links=(Link(cat.id, Relation.CONTRADICTS),))]))
    assert live(parts.ledger) == ["User has a cat", "User has no cat"]
    assert table(parts.ledger, memory_links) == []


def test_a_verbatim_memory_that_is_contradicted_is_marked_once_and_stays(parts: Parts) -> None:
    tell(parts, "I live in Berlin", infer=False, at=day(0))
    (verbatim,) = table(parts.ledger, memories)
    for number, city in [(1, "Porto"), (2, "Rome")]:
        accept(parts, make_turn(id=city, at=day(number)))
        (job,) = claimed_jobs(parts)
        commit(parts, (job, [candidate(f"User lives in {city}", links=(Link(verbatim.id, Relation.UPDATES),))]))
        with parts.ledger.write() as tx:
            from memline.ledger.leases import end

            (lease_id,) = {row.lease_id for row in tx.execute(sa.select(jobs.c.lease_id).where(jobs.c.id == city))}
            end(tx, Lease(lease_id, 1, job.stage, False), now=START)
        check_counts(parts.ledger)
    row = memory(parts.ledger, "I live in Berlin")
    assert (row.state, row.valid_to, row.superseded_by, row.version) == ("live", day(1), None, 2)
    assert len(live(parts.ledger)) == 3


def test_a_memory_is_read_back_as_it_was_committed(parts: Parts) -> None:
    tell(parts, "User likes Grüner Tee 綠茶 🍵")
    (row,) = table(parts.ledger, memories)
    with parts.ledger.read() as connection:
        (loaded,) = load_memories(connection, "default", ids=[row.id])
        assert loaded.text == "User likes Grüner Tee 綠茶 🍵"
        assert loaded.content_hash == content_hash(loaded.text)
        assert load_memories(connection, "other", ids=[row.id]) == []


def test_eight_threads_that_commit_one_fact_into_one_scope_leave_one_memory(ledger: Ledger) -> None:
    plain = make_parts(ledger)
    gate = threading.Barrier(8)

    def work(number: int) -> None:
        gate.wait()
        parts = make_parts(ledger, clock=plain.clock, ids=plain.ids)
        accept(parts, make_turn("User likes tea", id=f"turn-{number}"))
        waiting: list[Lease] = []
        for _ in range(30):
            claim_and_send(parts, waiting.extend)
            while waiting:
                run_through(parts, waiting.pop(), worker=f"w{number}", send=waiting.extend, stopped=lambda: False)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, number) for number in range(8)]:
            future.result(timeout=300)
    run_all(plain)
    (row,) = table(ledger, memories)
    outcomes = [job.outcome for job in table(ledger, jobs)]
    assert Counter(event for ((_, event),) in outcomes) == {"ADD": 1, "DUPLICATE": 7}
    assert {memory_id for ((memory_id, _),) in outcomes} == {row.id}
    check_counts(ledger)


def test_runs_of_one_owner_that_commit_side_by_side_leave_one_current_answer(ledger: Ledger) -> None:
    plain = make_parts(ledger)
    accept(plain, *(make_turn(f"[home] User lives in C{n}", run=f"r{n}", at=day(n)) for n in range(8)))
    batches: list[Lease] = []
    claim_and_send(plain, batches.extend)
    assert len(batches) == 8
    gate = threading.Barrier(8)

    def work(lease: Lease) -> None:
        gate.wait()
        run_through(plain, lease, worker=lease.id, send=lambda _: None, stopped=lambda: False)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, lease) for lease in batches]:
            future.result(timeout=300)
    run_all(plain)
    assert live(ledger) == ["User lives in C7"]
    assert [times_of(ledger)[f"User lives in C{n}"][2] for n in range(7)] == [day(n + 1) for n in range(7)]
    check_counts(ledger)
