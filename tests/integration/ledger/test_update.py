"""Updating memories, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from memline.contracts.content_hash import content_hash, text_md5
from memline.contracts.errors import DuplicateMemory, InvalidInput, MemoryNotFound, VersionConflict
from memline.ledger.expire import expire_due
from memline.ledger.history import HistoryMode, history_of
from memline.ledger.jobs import Stage
from memline.ledger.memories import MemoryRow, load_memory
from memline.ledger.retire import delete_memory
from memline.ledger.schema import entities, entity_links, memories, outbox, owners, postings, vectors
from memline.ledger.session import Ledger
from memline.outbox.verify import verify
from memline.pipeline.edit import Change, edit_memory
from memline.pipeline.embed import vector_bytes
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_through
from tests.integration.pipeline.steps import claimed, up_to
from tests.parts import START, HandClock, TrigramEmbedder, accept, make_parts, make_relay, make_turn, run_all, table


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


def tell(parts: Parts, *texts: str, **options: Any) -> list[str]:
    turn = make_turn("\n".join(texts), **options)
    accept(parts, turn)
    run_all(parts)
    return [row.id for row in table(parts.ledger, memories, memories.c.job_id == turn.id)]


def get(parts: Parts, memory_id: str) -> MemoryRow:
    with parts.ledger.read() as connection:
        row = load_memory(connection, "default", memory_id)
    assert row is not None
    return row


def past(parts: Parts, memory_id: str) -> list[dict[str, Any]]:
    with parts.ledger.read() as connection:
        return history_of(connection, "default", memory_id)


def update(parts: Parts, memory_id: str, text: str | None = None, **given: Any) -> int:
    return edit_memory(parts, "default", memory_id, Change(text=text, **given))


def embeddings(parts: Parts) -> int:
    assert isinstance(parts.embedder, TrigramEmbedder)
    return len(parts.embedder.calls)


def sound(parts: Parts) -> None:
    make_relay(parts).drain()
    report = verify(parts.ledger, parts.index, deep=True)
    assert report.sound, report.to_json()


def test_a_new_text_takes_the_place_of_the_old_in_everything_made_from_it(parts: Parts) -> None:
    (mine, other) = tell(parts, "User met Anna in Rome", "User visited Rome")
    before = get(parts, mine)
    assert update(parts, mine, "User met Bert in Oslo today") == 2
    row = get(parts, mine)
    assert (row.text, row.version, row.state) == ("User met Bert in Oslo today", 2, "live")
    assert (row.content_hash, row.md5) == (content_hash(row.text), text_md5(row.text))
    assert (row.length, row.lane, row.occurred_at, row.created_at) == (6, before.lane, before.occurred_at, before.created_at)
    terms = {found.term for found in table(parts.ledger, postings, postings.c.memory_no == row.no)}
    assert terms == {"user", "met", "bert", "in", "oslo", "today"}
    (vector,) = table(parts.ledger, vectors, vectors.c.memory_no == row.no)
    assert bytes(vector.vector) == vector_bytes(TrigramEmbedder().embed([row.text])[0])
    (owner,) = table(parts.ledger, owners)
    assert (owner.live, owner.length) == (2, row.length + get(parts, other).length)
    assert sorted(found.norm for found in table(parts.ledger, entities)) == ["bert", "oslo", "rome"]
    assert len(table(parts.ledger, entity_links)) == 3
    sound(parts)


def test_a_text_that_stays_is_not_embedded_again_and_metadata_is_merged(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea", metadata={"category": "a", "kept": 1})
    calls = embeddings(parts)
    assert update(parts, mine, "User likes tea", metadata={"category": None, "new": [1]}) == 2
    assert update(parts, mine, expires_on=date(2027, 1, 1)) == 3
    assert embeddings(parts) == calls
    row = get(parts, mine)
    assert (row.text, row.metadata, row.expires_on) == ("User likes tea", {"kept": 1, "new": [1]}, date(2027, 1, 1))
    assert update(parts, mine, "User likes green tea") == 4
    assert get(parts, mine).metadata == {"kept": 1, "new": [1]}
    sound(parts)


def test_history_tells_every_change_in_order_with_who_and_why(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea", metadata={"category": "a"}, id="turn")
    update(parts, mine, metadata={"category": None, "tags": ["x"]}, actor="support", reason="asked by phone")
    update(parts, mine, expires_on=date(2027, 1, 1))
    update(parts, mine, "User likes coffee", expires_on=None)
    rows = past(parts, mine)
    assert [(row["version"], row["event"]) for row in rows] == [(1, "ADD"), (2, "UPDATE"), (3, "UPDATE"), (4, "UPDATE")]
    assert (rows[0]["job_id"], rows[1]["actor_id"], rows[1]["reason"]) == ("turn", "support", "asked by phone")
    assert [row["changes"] for row in rows] == [
        None,
        {"metadata": {"category": {"old": "a"}, "tags": {"new": ["x"]}}},
        {"expiration_date": {"new": "2027-01-01"}},
        {"expiration_date": {"old": "2027-01-01"}},
    ]
    assert (rows[3]["old_text"], rows[3]["new_text"]) == ("User likes tea", "User likes coffee")


def test_where_texts_are_not_kept_history_holds_hashes_and_lengths(ledger: Ledger) -> None:
    parts = replace(make_parts(ledger), history=HistoryMode.HASHES)
    (mine,) = tell(parts, "User likes tea", metadata={"secret": "X123"})
    update(parts, mine, "User likes coffee", metadata={"secret": "Y456"})
    sound(parts)
    delete_memory(ledger, "default", mine, now=START, keep=parts.history)
    rows = past(parts, mine)
    assert [(row["old_text"], row["new_text"]) for row in rows] == [(None, None)] * 3
    tea, coffee = text_md5("User likes tea"), text_md5("User likes coffee")
    assert [(row["old_hash"], row["new_hash"]) for row in rows] == [(None, tea), (tea, coffee), (coffee, None)]
    assert [(row["old_length"], row["new_length"]) for row in rows] == [(None, 14), (14, 17), (17, None)]
    assert "X123" not in str(rows) and "Y456" not in str(rows)
    sound(parts)


def test_what_changes_nothing_makes_no_version(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea", metadata={"a": 1})
    make_relay(parts).drain()
    assert update(parts, mine, "User likes tea", metadata={"a": 1, "gone": None}) == 1
    assert len(past(parts, mine)) == 1 and table(parts.ledger, outbox) == []


def test_another_version_than_the_expected_one_is_a_conflict_that_names_both(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")
    assert update(parts, mine, "User likes coffee", if_version=1) == 2
    with pytest.raises(VersionConflict, match=r"version 2.*version 1") as raised:
        update(parts, mine, "User likes milk", if_version=1)
    assert (raised.value.memory_id, raised.value.expected, raised.value.found) == (mine, 1, 2)
    assert get(parts, mine).text == "User likes coffee"


def test_a_text_that_another_live_memory_of_the_scope_has_is_refused_with_its_id(parts: Parts) -> None:
    tea, coffee = tell(parts, "User likes tea", "User likes coffee")
    with pytest.raises(DuplicateMemory, match=tea) as raised:
        update(parts, coffee, "user  likes Tea")
    assert (raised.value.memory_id, raised.value.duplicate_of) == (coffee, tea)
    assert (get(parts, coffee).text, get(parts, coffee).version) == ("User likes coffee", 1)
    (elsewhere,) = tell(parts, "User likes milk", run="r")
    assert update(parts, elsewhere, "User likes tea") == 2  # another scope
    delete_memory(parts.ledger, "default", tea, now=START)
    assert update(parts, coffee, "User likes tea") == 2
    sound(parts)


def test_its_own_text_spelled_otherwise_is_no_duplicate(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")
    assert update(parts, mine, "user likes Tea") == 2
    assert get(parts, mine).text == "user likes Tea"
    sound(parts)


def test_a_twin_that_is_past_its_day_makes_room(parts: Parts) -> None:
    tea, coffee = tell(parts, "User likes tea", "User likes coffee")
    update(parts, tea, expires_on=date(2026, 2, 1))
    assert update(parts, coffee, "User likes tea") == 2
    assert (get(parts, tea).state, get(parts, coffee).state) == ("expired", "live")
    assert [row["event"] for row in past(parts, tea)] == ["ADD", "UPDATE", "EXPIRE"]
    sound(parts)


def test_an_expired_memory_is_back_when_its_new_date_allows_it(parts: Parts) -> None:
    (mine,) = tell(parts, "User met Anna", expires_on=date(2026, 2, 1))
    with parts.ledger.write() as tx:
        expire_due(tx, now=START, limit=10)
    assert get(parts, mine).state == "expired"
    assert update(parts, mine, metadata={"a": 1}) == 3
    assert get(parts, mine).state == "expired"
    sound(parts)
    calls = embeddings(parts)
    assert update(parts, mine, expires_on=None) == 4
    row = get(parts, mine)
    assert (row.state, embeddings(parts)) == ("live", calls)
    assert {found.term for found in table(parts.ledger, postings)} == {"user", "met", "anna"}
    (owner,) = table(parts.ledger, owners)
    assert (owner.live, owner.length) == (1, 3)
    sound(parts)


def test_an_expired_memory_does_not_come_back_beside_a_twin_or_as_the_current_answer(parts: Parts) -> None:
    (old,) = tell(parts, "[home] User lives in Berlin", expires_on=date(2026, 2, 1))
    with parts.ledger.write() as tx:
        expire_due(tx, now=START, limit=10)
    (new,) = tell(parts, "[home] User lives in Porto", at=HandClock().advance(60))
    assert update(parts, old, expires_on=None) == 3
    row = get(parts, old)
    assert (row.state, row.superseded_by) == ("superseded", new)
    (tea,) = tell(parts, "User likes tea", expires_on=date(2026, 2, 1))
    with parts.ledger.write() as tx:
        expire_due(tx, now=START, limit=10)
    (twin,) = tell(parts, "User likes tea")
    with pytest.raises(DuplicateMemory, match=twin):
        update(parts, tea, expires_on=None)
    sound(parts)


def test_a_superseded_memory_may_be_changed_and_stays_superseded(parts: Parts) -> None:
    (old,) = tell(parts, "[home] User lives in Berlin")
    (new,) = tell(parts, "[home] User lives in Porto", at=HandClock().advance(60))
    assert update(parts, old, "User lived in Berlin Mitte", metadata={"a": 1}) == 3
    row = get(parts, old)
    assert (row.state, row.superseded_by, row.text) == ("superseded", new, "User lived in Berlin Mitte")
    assert {found.live for found in table(parts.ledger, postings, postings.c.memory_no == row.no)} == {False}
    assert table(parts.ledger, owners)[0].live == 1
    sound(parts)


def test_a_new_text_answers_the_question_that_it_answers_and_puts_nobody_in_the_past(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")
    update(parts, mine, "User lives in Berlin")
    assert get(parts, mine).slot == "user|live"
    (other,) = tell(parts, "User likes jazz")
    update(parts, other, "User lives in Porto")
    assert get(parts, other).slot is None
    assert {get(parts, mine).state, get(parts, other).state} == {"live"}
    update(parts, mine, "User likes tea")
    assert get(parts, mine).slot is None


def test_metadata_that_grows_too_large_together_is_refused(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea", metadata={"a": "x" * 40_000})
    with pytest.raises(InvalidInput, match="65536"):
        update(parts, mine, metadata={"b": "x" * 40_000})
    assert get(parts, mine).version == 1


@pytest.mark.parametrize("stage", [Stage.LINK, Stage.SAVE])
def test_an_update_before_the_last_stages_is_not_linked_to_the_names_of_the_old_text(parts: Parts, stage: Stage) -> None:
    accept(parts, make_turn("User met Anna", id="a"))
    (lease,) = claimed(parts)
    here = up_to(parts, lease, stage)
    (mine,) = [row.id for row in table(parts.ledger, memories)]
    update(parts, mine, "User met Bert")
    run_through(parts, here, worker="w", send=lambda _: None, stopped=lambda: False)
    assert [row.norm for row in table(parts.ledger, entities)] == ["bert"]
    sound(parts)


def test_an_unknown_a_foreign_and_a_deleted_memory_are_not_found(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")
    with pytest.raises(MemoryNotFound):
        update(parts, "nobody", "x")
    with pytest.raises(MemoryNotFound):
        edit_memory(parts, "other", mine, Change(text="x"))
    delete_memory(parts.ledger, "default", mine, now=START)
    with pytest.raises(MemoryNotFound):
        update(parts, mine, "x")


def during_the_embedding(parts: Parts, act: Callable[[], Any]) -> None:
    """*act* happens once, while the embedder is at work for an update."""
    assert isinstance(parts.embedder, TrigramEmbedder)

    def fail(_: Any) -> None:
        assert isinstance(parts.embedder, TrigramEmbedder)
        parts.embedder.fail = None
        act()

    parts.embedder.fail = fail


def test_an_update_that_was_overtaken_is_made_again_on_what_is_there_now(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea", metadata={"a": 1})
    during_the_embedding(parts, lambda: update(parts, mine, metadata={"b": 2}))
    assert update(parts, mine, "User likes coffee", metadata={"c": 3}) == 3
    row = get(parts, mine)
    assert (row.text, row.metadata) == ("User likes coffee", {"a": 1, "b": 2, "c": 3})
    sound(parts)


def test_an_update_with_a_version_that_was_overtaken_is_a_conflict(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")
    during_the_embedding(parts, lambda: update(parts, mine, metadata={"b": 2}))
    with pytest.raises(VersionConflict):
        update(parts, mine, "User likes coffee", if_version=1)
    assert get(parts, mine).text == "User likes tea"


def test_an_update_of_what_is_deleted_meanwhile_brings_nothing_back(parts: Parts) -> None:
    (mine,) = tell(parts, "User met Anna")
    during_the_embedding(parts, lambda: delete_memory(parts.ledger, "default", mine, now=START))
    with pytest.raises(MemoryNotFound):
        update(parts, mine, "User met Bert")
    assert table(parts.ledger, entities) == table(parts.ledger, postings) == table(parts.ledger, vectors) == []
    sound(parts)


def test_a_name_that_goes_meanwhile_is_made_again(parts: Parts) -> None:
    mine, other = tell(parts, "User likes tea", "User met Anna")
    during_the_embedding(parts, lambda: delete_memory(parts.ledger, "default", other, now=START))
    update(parts, mine, "User likes Anna")
    assert [row.norm for row in table(parts.ledger, entities)] == ["anna"]
    sound(parts)


def test_threads_that_update_one_memory_at_once_lose_no_change(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")

    def work(number: int) -> int:
        return update(parts, mine, f"User likes tea number {number}", metadata={f"k{number}": number})

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(work, range(8))) == list(range(2, 10))
    assert get(parts, mine).metadata == {f"k{number}": number for number in range(8)}
    assert len(past(parts, mine)) == 9
    sound(parts)


def test_of_threads_that_expect_one_version_one_wins(parts: Parts) -> None:
    (mine,) = tell(parts, "User likes tea")

    def work(number: int) -> bool:
        try:
            update(parts, mine, f"User likes tea number {number}", if_version=1)
        except VersionConflict:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 1
    assert get(parts, mine).version == 2
