"""Deleting memories, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from memline.contracts.errors import MemoryNotFound
from memline.contracts.index_object import ObjectKey
from memline.ledger.history import history_of
from memline.ledger.memories import index_objects, load_memory
from memline.ledger.receipts import receipt_state
from memline.ledger.retire import delete_memory
from memline.ledger.schema import entities, entity_links, entity_names, memories, memory_links, outbox, owners, postings, vectors
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from tests.parts import START, ScriptedExtractor, accept, job_of, make_parts, make_relay, make_turn, run_all, table


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


def tell(parts: Parts, *texts: str, id: str | None = None, **options: str) -> list[str]:
    """One turn, run to its end; the ids of its memories."""
    turn = make_turn("\n".join(texts), id=id, **options)
    accept(parts, turn)
    run_all(parts)
    return [row.id for row in table(parts.ledger, memories, memories.c.job_id == turn.id)]


def delete(ledger: Ledger, memory_id: str, namespace: str = "default") -> None:
    delete_memory(ledger, namespace, memory_id, now=START)


def test_a_deleted_memory_leaves_its_row_without_text_and_nothing_made_from_it(parts: Parts) -> None:
    ledger = parts.ledger
    gone, kept = tell(parts, "User met Anna in Rome", "User likes tea")
    delete(ledger, gone)
    row, other = table(ledger, memories)
    assert (row.id, row.state, row.text, row.metadata, row.length, row.version) == (gone, "deleted", "", {}, 0, 2)
    assert (other.id, other.state) == (kept, "live")
    for source, column in ((postings, postings.c.memory_no), (vectors, vectors.c.memory_no), (entity_links, entity_links.c.memory_no)):
        assert table(ledger, source, column == row.no) == []
    assert table(ledger, entities) == table(ledger, entity_names) == []
    (owner,) = table(ledger, owners)
    assert (owner.live, owner.length) == (1, other.length)
    with ledger.read() as connection:
        assert load_memory(connection, "default", gone) is None
        assert [(each["event"], each["old_text"], each["new_text"]) for each in history_of(connection, "default", gone)] == [
            ("ADD", None, "User met Anna in Rome"),
            ("DELETE", "User met Anna in Rome", None),
        ]
        assert index_objects(connection, [ObjectKey("memory", "default", gone)]) == {}


def test_the_index_is_told_of_a_deleted_memory_and_of_entities_that_nothing_names_any_more(parts: Parts) -> None:
    ledger = parts.ledger
    one, two = tell(parts, "User met Anna in Rome", "User visited Rome")
    make_relay(parts).drain()
    assert table(ledger, outbox) == []
    index = parts.index.objects  # type: ignore[attr-defined]
    assert {key.kind for key in index} == {"memory", "entity"}
    delete(ledger, one)
    assert sorted((row.kind, row.version) for row in table(ledger, outbox)) == [("entity", 2), ("memory", 2)]
    make_relay(parts).drain()
    assert sorted(key.kind for key in index) == ["entity", "memory"]
    assert [row.norm for row in table(ledger, entities)] == ["rome"]
    assert {key.id for key in index if key.kind == "memory"} == {two}


def test_a_deleted_fact_can_be_told_again(parts: Parts) -> None:
    (gone,) = tell(parts, "User likes Rome")
    delete(parts.ledger, gone)
    (again,) = tell(parts, "User likes Rome")
    assert again != gone
    assert [row.state for row in table(parts.ledger, memories)] == ["deleted", "live"]
    assert [row.norm for row in table(parts.ledger, entities)] == ["rome"]
    assert len(table(parts.ledger, entity_links)) == 1


def test_deleting_the_current_answer_does_not_bring_the_old_one_back(parts: Parts) -> None:
    tell(parts, "[home] User lives in Berlin")
    (new,) = tell(parts, "[home] User lives in Porto")
    delete(parts.ledger, new)
    assert [row.state for row in table(parts.ledger, memories)] == ["superseded", "deleted"]
    (owner,) = table(parts.ledger, owners)
    assert (owner.live, owner.length) == (0, 0)


def test_a_superseded_memory_can_be_deleted(parts: Parts) -> None:
    (old,) = tell(parts, "[home] User lives in Berlin")
    tell(parts, "[home] User lives in Porto")
    delete(parts.ledger, old)
    row = table(parts.ledger, memories)[0]
    assert (row.state, row.superseded_by, row.version) == ("deleted", None, 3)
    assert table(parts.ledger, owners)[0].live == 1


def test_links_to_a_deleted_memory_go_with_it(ledger: Ledger) -> None:
    parts = make_parts(ledger, extractor=ScriptedExtractor(wants_context=True))
    (dog,) = tell(parts, "User has a dog")
    make_relay(parts).drain()
    tell(parts, "User walks the dog ->0")
    assert len(table(ledger, memory_links)) == 1
    delete(ledger, dog)
    assert table(ledger, memory_links) == []


@pytest.mark.parametrize(("memory_id", "namespace"), [("nobody", "default"), (None, "other")])
def test_an_unknown_memory_and_one_of_another_namespace_are_not_found(parts: Parts, memory_id: str | None, namespace: str) -> None:
    (mine,) = tell(parts, "User likes tea")
    with pytest.raises(MemoryNotFound):
        delete(parts.ledger, memory_id or mine, namespace)
    assert table(parts.ledger, memories)[0].state == "live"


def test_a_memory_is_deleted_once(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")
    delete(parts.ledger, mine)
    with pytest.raises(MemoryNotFound, match=mine):
        delete(parts.ledger, mine)
    assert table(parts.ledger, owners)[0].live == 0


def test_a_memory_is_deleted_once_by_threads_at_the_same_time(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")

    def work(_: int) -> bool:
        try:
            delete(parts.ledger, mine)
        except MemoryNotFound:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(work, range(4))) == [False, False, False, True]
    assert table(parts.ledger, owners)[0].live == 0


def test_a_job_whose_memory_was_deleted_before_the_index_saw_it_becomes_searchable(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea", id="a")
    delete(parts.ledger, mine)
    make_relay(parts).drain()
    assert job_of(parts.ledger, "a").state == "searchable"
    assert parts.index.objects == {}  # type: ignore[attr-defined]
    with parts.ledger.read() as connection:
        state = receipt_state(connection, "a")
    assert state is not None
    assert state.results == ({"id": mine, "memory": None, "event": "ADD"},)
