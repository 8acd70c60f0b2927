"""Listing and counting: order, pages, totals, and a walk that loses and repeats nothing while the ledger changes."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memline.contracts.errors import InvalidCursor, InvalidInput
from memline.contracts.filters import parse
from memline.ledger.expire import expire_due
from memline.ledger.retire import delete_memory
from memline.ledger.session import Ledger
from memline.search import listing
from memline.search.listing import Page, count_matching, list_matching
from tests.integration.search.world import World, statements

ANN: dict[str, Any] = {"user_id": "ann"}
NOTES: dict[str, Any] = {"user_id": "ann", "kind": "note"}


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    return World(ledger, tmp_path)


def page(world: World, filters: dict[str, Any], *, namespace: str = "default", **options: Any) -> Page:
    given = {"top_k": 3, "show_expired": False} | options
    return list_matching(world.ledger, namespace, parse(filters), now=world.clock.now(), **given)


def count(world: World, filters: dict[str, Any], namespace: str = "default") -> int:
    return count_matching(world.ledger, namespace, parse(filters), now=world.clock.now())


def walk(world: World, filters: dict[str, Any], *, between: Callable[[], None] = lambda: None, **options: Any) -> list[str]:
    """Ids of all pages."""
    found, cursor = [], None
    while True:
        part = page(world, filters, cursor=cursor, **options)
        found += [row.id for row in part.rows]
        cursor = part.next_cursor
        if cursor is None:
            return found
        between()


def delete(world: World, memory_id: str) -> None:
    delete_memory(world.ledger, "default", memory_id, now=world.clock.now())


@pytest.mark.parametrize("filters", [ANN, NOTES])
def test_pages_follow_each_other_in_the_order_of_creation(world: World, filters: dict[str, Any]) -> None:
    ids = world.say_all([f"User owns lamp {number}" for number in range(7)], metadata={"kind": "note"})
    world.say("User likes tea", user="bob", metadata={"kind": "note"})
    parts = [page(world, filters)]
    while parts[-1].next_cursor is not None:
        parts.append(page(world, filters, cursor=parts[-1].next_cursor))
    assert [[row.id for row in part.rows] for part in parts] == [ids[:3], ids[3:6], ids[6:]]
    assert [(part.total, part.at_least) for part in parts] == [(7, False)] * 3
    assert count(world, filters) == 7


def test_a_full_last_page_has_no_next_one(world: World) -> None:
    world.say_all([f"User owns lamp {number}" for number in range(6)])
    assert len(walk(world, ANN, top_k=3)) == 6
    assert page(world, ANN, top_k=6).next_cursor is None


def test_nothing_asked_for_is_a_total_without_rows(world: World) -> None:
    world.say("User likes tea")
    found = page(world, ANN, top_k=0)
    assert (found.rows, found.next_cursor, found.total) == ([], None, 1)
    assert len(page(world, ANN, top_k=10**30).rows) == 1


def test_a_filter_that_can_match_nothing_reads_nothing(world: World) -> None:
    never = {"AND": [{"user_id": "ann"}, {"user_id": "bob"}]}
    with statements(world.ledger) as run:
        assert page(world, never).total == count(world, never) == 0
    assert run == []


def test_a_total_that_asks_for_scope_ids_only_is_one_statement(world: World) -> None:
    world.say_all([f"User owns lamp {number}" for number in range(4)])
    with statements(world.ledger) as run:
        assert count(world, {"OR": [{"user_id": "ann"}, {"user_id": "ann", "run_id": "r"}]}) == 4
    assert len(run) == 1


def test_counting_ends_at_a_bound_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_LOOKED_AT", 2)
    monkeypatch.setattr(listing.filter_pages, "__kwdefaults__", {"after": 0, "size": 2})
    world.say_all([f"User owns lamp {number}" for number in range(9)], metadata={"kind": "note"})
    first = page(world, NOTES)
    assert (first.total, first.at_least) == (4, True)
    second = page(world, NOTES, cursor=first.next_cursor)
    assert (second.total, second.at_least) == (4, True)
    assert len(walk(world, NOTES)) == count(world, NOTES) == 9


def test_expired_and_superseded_memories_are_listed_where_they_are_asked_for(world: World) -> None:
    (old,) = world.say("[home] User lives in Berlin")
    (new,) = world.say("[home] User lives in Porto", at=world.day(1))
    (gone,) = world.say("User parks on deck 3", expires_on=world.clock.now().date())
    assert walk(world, ANN) == [new, gone]
    world.clock.advance(86400)
    for marked in (False, True):
        if marked:
            with world.ledger.write() as tx:
                assert expire_due(tx, now=world.clock.now(), limit=10) == 1
        assert walk(world, ANN) == [new] and count(world, ANN) == 1
        assert walk(world, ANN, show_expired=True) == [new, gone]
        assert walk(world, ANN, show_superseded=True) == [old, new]
        assert walk(world, ANN, show_expired=True, show_superseded=True) == [old, new, gone]
        assert page(world, ANN, show_expired=True).total == 2
        assert walk(world, ANN | {"expiration_date": {"exists": True}}, show_expired=True) == [gone]


def test_another_namespaces_memories_are_never_listed(world: World) -> None:
    world.say("User likes tea", namespace="other")
    assert page(world, ANN).total == count(world, ANN) == 0
    assert count(world, ANN, namespace="other") == 1


def test_a_cursor_belongs_to_its_namespace_filter_and_options(world: World) -> None:
    world.say_all([f"User owns lamp {number}" for number in range(4)])
    cursor = page(world, ANN).next_cursor
    for filters, options in (
        ({"user_id": "bob"}, {}),
        (NOTES, {}),
        (ANN, {"namespace": "other"}),
        (ANN, {"show_expired": True}),
        (ANN, {"show_superseded": True}),
        (ANN, {"cursor": "none"}),
        (ANN, {"cursor": 3}),
    ):
        with pytest.raises(InvalidCursor):
            page(world, filters, **({"cursor": cursor} | options))
    assert len(page(world, ANN, cursor=cursor, top_k=1).rows) == 1  # pages may differ in size


@pytest.mark.parametrize("top_k", [-1, 1.5, "3", None, True])
def test_a_number_of_results_that_is_none_is_refused(world: World, top_k: object) -> None:
    with pytest.raises(InvalidInput, match="top_k"):
        page(world, ANN, top_k=top_k)


@pytest.mark.parametrize("filters", [ANN, NOTES])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_there_during_a_whole_walk_comes_exactly_once(world: World, filters: dict[str, Any], seed: int) -> None:
    """Between the pages memories come, go, expire, and are superseded."""
    choose = random.Random(seed)
    said = {
        number: world.say(f"[slot {number}] User owns lamp {number}", metadata={"kind": "note"}, at=world.day(0), relay=False)[0]
        for number in range(12)
    }
    (soon,) = world.say("User parks on deck 3", metadata={"kind": "note"}, expires_on=world.clock.now().date(), relay=False)
    first = [*said.values(), soon]
    added: list[str] = []

    def change() -> None:
        if len(said) < 6:
            return
        world.clock.advance(86400 / 3)
        number = choose.choice(list(said))
        if choose.random() < 0.5:
            delete(world, said.pop(number))
        else:
            del said[number]  # superseded
            added.extend(world.say(f"[slot {number}] User sold lamp {number}", metadata={"kind": "note"}, at=world.day(1), relay=False))
        added.extend(world.say(f"User met person {number}", metadata={"kind": "note"}, relay=False))

    found = walk(world, filters, top_k=2, between=change)
    assert len(found) == len(set(found))
    assert set(found) <= {*first, *added}
    assert [memory_id for memory_id in found if memory_id in said.values()] == list(said.values())
    assert found == [memory_id for memory_id in (*first, *added) if memory_id in found]


def test_a_walk_beside_threads_that_add_and_delete_loses_nothing(world: World) -> None:
    kept = world.say_all([f"User owns lamp {number}" for number in range(30)])
    doomed = world.say_all([f"User sold lamp {number}" for number in range(30)])
    ended = threading.Event()
    failed: list[BaseException] = []

    def disturb() -> None:
        try:
            for number, memory_id in enumerate(doomed):
                if ended.is_set():
                    return
                delete(world, memory_id)
                world.say(f"User met person {number}", relay=False)
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for size in (1, 3, 7):
            found = walk(world, ANN, top_k=size)
            assert len(found) == len(set(found))
            assert [memory_id for memory_id in found if memory_id in kept] == kept
    finally:
        ended.set()
        thread.join()
    assert not failed


def test_an_update_does_not_move_a_memory(world: World) -> None:
    first, second = world.say_all(["User likes tea", "User likes oil"])
    assert walk(world, ANN, top_k=1, between=lambda: touch(world, first)) == [first, second]


def touch(world: World, memory_id: str) -> None:
    import sqlalchemy as sa

    from memline.ledger.schema import memories

    later = world.clock.now() + timedelta(days=1)
    with world.ledger.write() as tx:
        tx.execute(sa.update(memories).where(memories.c.id == memory_id).values(updated_at=later))
