"""A search that asks for what has expired finds it, before and after it was marked; one that doesn't never does."""

from __future__ import annotations

from pathlib import Path

import pytest

from memline.ledger.expire import expire_due
from memline.ledger.purge import purge_expired
from memline.ledger.session import Ledger
from tests.integration.search.world import World
from tests.parts import START


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    return World(ledger, tmp_path)


def mark(world: World) -> int:
    with world.ledger.write() as tx:
        marked = expire_due(tx, now=world.clock.now(), limit=1000)
    world.relay.drain()
    return marked


@pytest.mark.parametrize("filters", [{"user_id": "ann"}, {"user_id": "ann", "kind": "note"}])
@pytest.mark.parametrize("marked", [False, True])
def test_what_has_expired_is_found_where_it_is_asked_for(world: World, marked: bool, filters: dict[str, str]) -> None:
    world.say("User parks on deck 3", expires_on=START.date(), metadata={"kind": "note"})
    world.say("User likes tea", metadata={"kind": "note"})
    world.clock.advance(86400)
    if marked:
        assert mark(world) == 1
    assert world.texts("the deck where User parks", filters) == ["User likes tea"]
    hits = world.find("the deck where User parks", filters, show_expired=True).results
    assert hits[0].row.text == "User parks on deck 3"
    assert hits[0].score >= 0.1


def test_nobody_elses_expired_memory_is_found(world: World) -> None:
    world.say("User parks on deck 3", expires_on=START.date(), user="bob")
    world.say("User parks on deck 4", expires_on=START.date(), namespace="other")
    world.clock.advance(86400)
    assert mark(world) == 2
    assert world.texts("the deck where User parks", show_expired=True) == []


def test_a_look_back_sees_what_has_expired_since(world: World) -> None:
    world.say("User parks on deck 3", expires_on=START.date())
    then = world.clock.now()
    world.clock.advance(86400)
    for _ in range(2):
        assert world.texts("the deck where User parks", as_of=then) == ["User parks on deck 3"]
        assert world.texts("the deck where User parks", as_of=world.clock.now()) == []
        mark(world)


def test_what_was_marked_no_longer_stands_before_what_is_live(world: World) -> None:
    world.say_all([f"User drinks tea in cup {n}" for n in range(300)], expires_on=START.date())
    (kept,) = world.say("User drinks tea")
    world.clock.advance(86400)
    assert mark(world) == 300
    found = world.find("User drinks tea in cup 7", top_k=5, threshold=0)
    assert [hit.row.id for hit in found.results] == [kept]
    assert not found.incomplete
    assert len(world.find("User drinks tea in cup 7", top_k=5, show_expired=True).results) == 5


def test_what_was_purged_is_found_by_nothing(world: World) -> None:
    world.say("User parks on deck 3", expires_on=START.date())
    world.clock.advance(86400)
    with world.ledger.write() as tx:
        assert purge_expired(tx, before=world.clock.now().date(), limit=10, now=world.clock.now()) == 1
    assert world.texts("the deck where User parks", show_expired=True) == []
    world.relay.drain()
    assert world.texts("the deck where User parks", show_expired=True) == []


@pytest.mark.parametrize("marked", [False, True])
def test_an_extraction_is_not_shown_what_has_expired(world: World, marked: bool) -> None:
    from memline.search.nearest import nearest_to
    from tests.parts import make_turn

    world.say("User parks on deck 3", expires_on=START.date())
    world.clock.advance(86400)
    if marked:
        mark(world)
    scope = make_turn("x").scope
    vectors, today = world.embedder.embed(["Where do I park?"]), world.clock.now().date()
    assert nearest_to(world.ledger, world.index, scope, vectors, model=world.embedder.model, today=today) == []
