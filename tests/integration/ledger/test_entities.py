"""Entities and links, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from memline.contracts.content_hash import text_md5
from memline.contracts.scope import Scope
from memline.ledger.entities import Named, entity_id, known_names, link_entities, memories_of_jobs, names_of_entities
from memline.ledger.jobs import Job, jobs_of_lease
from memline.ledger.leases import Lease
from memline.ledger.locks import lock_owners
from memline.ledger.schema import entities, entity_links, entity_names, memories, outbox
from memline.ledger.session import Ledger
from memline.pipeline.embed import vector_bytes
from memline.pipeline.parts import Parts
from memline.pipeline.runner import claim_and_send
from tests.parts import START, TrigramEmbedder, accept, make_parts, make_turn, run_all, table


def vector(name: str) -> bytes:
    return vector_bytes(TrigramEmbedder().embed([name])[0])


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    """A ledger in which ann's lane has three memories and waits with a fourth turn."""
    parts = make_parts(ledger)
    accept(parts, make_turn("one\ntwo\nthree", id="a"))
    run_all(parts)
    accept(parts, make_turn("four", id="b"))
    return parts


@pytest.fixture
def job(parts: Parts) -> Job:
    claimed: list[Lease] = []
    claim_and_send(parts, claimed.extend)
    with parts.ledger.read() as connection:
        (found,) = jobs_of_lease(connection, claimed[0].id)
    return found


def link(parts: Parts, job: Job, names: Sequence[Named], pairs: Sequence[tuple[str, int]]) -> None:
    with parts.ledger.write() as tx:
        lock_owners(tx, [job.scope.owner.key])
        all_pairs = [(job.lane, norm, number) for norm, number in pairs]
        link_entities(tx, {job.lane: (job.scope.namespace, job.owner_no)}, names, all_pairs, model="trigrams", now=START)


def named(job: Job, name: str, alias_of: str | None = None) -> Named:
    return Named(job.lane, name.lower(), name, "PROPER", vector(name), alias_of)


def numbers(ledger: Ledger) -> list[int]:
    return [row.no for row in table(ledger, memories)]


def test_a_name_becomes_one_entity_with_a_pair_a_memory(parts: Parts, job: Job) -> None:
    one, two, _ = numbers(parts.ledger)
    link(parts, job, [named(job, "Anna")], [("anna", one), ("anna", two)])
    (row,) = table(parts.ledger, entities)
    assert (row.id, row.name, row.norm, row.type, row.version) == (entity_id(job.lane, "anna"), "Anna", "anna", "PROPER", 1)
    assert [(each.entity_no, each.memory_no) for each in table(parts.ledger, entity_links)] == [(row.no, one), (row.no, two)]
    assert [each.object_id for each in table(parts.ledger, outbox, outbox.c.kind == "entity")] == [row.id]


def test_linking_twice_changes_nothing(parts: Parts, job: Job) -> None:
    one, *_ = numbers(parts.ledger)
    sources = (entities, entity_names, entity_links, outbox)
    link(parts, job, [named(job, "Anna")], [("anna", one)])
    before = [table(parts.ledger, source) for source in sources]
    link(parts, job, [named(job, "Anna")], [("anna", one), ("anna", one)])
    assert [table(parts.ledger, source) for source in sources] == before


def test_an_alias_leads_to_the_entity_it_stands_for(parts: Parts, job: Job) -> None:
    one, two, _ = numbers(parts.ledger)
    link(parts, job, [named(job, "Katherine")], [("katherine", one)])
    link(parts, job, [named(job, "Catherine", entity_id(job.lane, "katherine"))], [("catherine", two)])
    (row,) = table(parts.ledger, entities)
    assert {each.norm: each.entity_no for each in table(parts.ledger, entity_names)} == {"katherine": row.no, "catherine": row.no}
    assert [each.memory_no for each in table(parts.ledger, entity_links)] == [one, two]


def test_an_alias_of_a_name_that_is_met_in_the_same_batch_makes_no_entity_of_its_own(parts: Parts, job: Job) -> None:
    one, two, _ = numbers(parts.ledger)
    names = [named(job, "Katherine"), named(job, "Catherine", entity_id(job.lane, "katherine"))]
    link(parts, job, names, [("katherine", one), ("catherine", two)])
    (row,) = table(parts.ledger, entities)
    assert row.norm == "katherine"
    assert len(table(parts.ledger, entity_names)) == len(table(parts.ledger, entity_links)) == 2


def test_an_alias_of_an_entity_that_is_gone_is_an_entity_of_its_own(parts: Parts, job: Job) -> None:
    one, *_ = numbers(parts.ledger)
    link(parts, job, [named(job, "Catherine", entity_id(job.lane, "katherine"))], [("catherine", one)])
    assert [row.norm for row in table(parts.ledger, entities)] == ["catherine"]


def test_a_name_that_is_not_known_links_nothing(parts: Parts, job: Job) -> None:
    link(parts, job, [], [("anna", numbers(parts.ledger)[0])])
    assert table(parts.ledger, entity_links) == table(parts.ledger, entities) == []


def test_names_are_known_by_lane(parts: Parts, job: Job) -> None:
    one, *_ = numbers(parts.ledger)
    link(parts, job, [named(job, "Anna")], [("anna", one)])
    other = Scope.of("default", "bob", None, None).lane
    with parts.ledger.read() as connection:
        known = known_names(connection, [(job.lane, "anna"), (other, "anna"), (job.lane, "rome")])
        assert set(known) == {(job.lane, "anna")}
        assert known_names(connection, []) == {}
        assert names_of_entities(connection, [entity_id(job.lane, "anna"), "nobody"]) == {entity_id(job.lane, "anna"): "anna"}


def test_memories_of_jobs_are_found_by_job_and_ordinal(parts: Parts) -> None:
    with parts.ledger.read() as connection:
        found = memories_of_jobs(connection, ["a", "b", "nobody"])
    assert set(found) == {("a", ordinal) for ordinal in range(3)}
    texts = {row.ordinal: row.text for row in table(parts.ledger, memories, memories.c.job_id == "a")}
    assert {key[1]: made.md5 for key, made in found.items()} == {ordinal: text_md5(text) for ordinal, text in texts.items()}


def test_threads_that_meet_one_name_at_the_same_time_make_one_entity(parts: Parts, job: Job) -> None:
    all_numbers = numbers(parts.ledger)
    gate = threading.Barrier(6)

    def work(number: int) -> None:
        gate.wait()
        link(parts, job, [named(job, "Anna"), named(job, "Rome")], [("anna", all_numbers[number % 3]), ("rome", all_numbers[number % 3])])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert sorted(row.norm for row in table(parts.ledger, entities)) == ["anna", "rome"]
    assert len(table(parts.ledger, entity_links)) == 6
