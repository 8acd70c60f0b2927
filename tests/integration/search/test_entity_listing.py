"""Entities of a filter: what is visible inside it names them, in a stable order, page by page, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memline.contracts.errors import InvalidCursor, InvalidInput
from memline.contracts.filters import parse
from memline.ledger.expire import expire_due
from memline.ledger.retire import delete_memory
from memline.ledger.session import Ledger
from memline.search.entity_listing import EntityPage, list_entities
from tests.integration.search.world import World

ANN: dict[str, Any] = {"user_id": "ann"}


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    return World(ledger, tmp_path)


def page(world: World, filters: dict[str, Any] = ANN, *, namespace: str = "default", **options: Any) -> EntityPage:
    return list_entities(world.ledger, namespace, parse(filters), now=world.clock.now(), **({"top_k": 20} | options))


def counts(world: World, filters: dict[str, Any] = ANN, **options: Any) -> dict[str, int]:
    return {item.name: item.count for item in page(world, filters, **options).items}


def test_entities_come_with_their_type_and_their_memories_in_the_order_of_names(world: World) -> None:
    rome, both = world.say_all(["User loves Rome", "User met Zoe in Rome"])
    code = world.say("User flies TP571 to Rome")[0]
    found = page(world).items
    assert [(item.name, item.type, item.count, item.memory_ids) for item in found] == [
        ("Rome", "PROPER", 3, [rome, both, code]),
        ("TP571", "IDENTIFIER", 1, [code]),
        ("Zoe", "PROPER", 1, [both]),
    ]
    assert all(item.owner == {"user_id": "ann"} for item in found)


def test_a_name_is_one_entity_whatever_the_runs_it_was_said_in(world: World) -> None:
    first = world.say("User loves Rome", run="one")[0]
    second = world.say("User saw ROME", run="two")[0]
    (item,) = page(world).items
    assert (item.name, item.count, item.memory_ids) == ("Rome", 2, [first, second])
    (inside,) = page(world, {"user_id": "ann", "run_id": "two"}).items
    assert inside.memory_ids == [second]


def test_users_have_their_own_and_nobody_sees_anothers(world: World) -> None:
    world.say("User loves Rome")
    world.say("User loves Oslo", user="bob")
    world.say("User loves Lima", namespace="other")
    world.say("User loves Rome", user="bob")
    assert counts(world) == {"Rome": 1}
    assert counts(world, namespace="other") == {"Lima": 1}
    shared = page(world, {"OR": [{"user_id": "ann"}, {"user_id": "bob"}]}).items
    assert [(item.name, item.owner["user_id"]) for item in shared] == [("Oslo", "bob"), ("Rome", "ann"), ("Rome", "bob")]


def test_the_owner_of_a_run_alone_is_the_run_and_of_an_agents_user_both(world: World) -> None:
    world.say("User loves Rome", user=None, run="r1")
    world.say("User loves Oslo", agent="guide")
    assert page(world, {"run_id": "r1"}).items[0].owner == {"run_id": "r1"}
    assert page(world).items[0].owner == {"user_id": "ann", "agent_id": "guide"}


def test_only_visible_memories_count(world: World) -> None:
    gone = world.say("User saw Rome")[0]
    world.say("[home] User lives in Berlin")
    world.say("[home] User lives in Porto", at=world.day(1))
    world.say("User parks at Orly", expires_on=world.clock.now().date())
    assert counts(world) == {"Orly": 1, "Porto": 1, "Rome": 1}
    delete_memory(world.ledger, "default", gone, now=world.clock.now())
    world.clock.advance(86400)
    assert counts(world) == {"Porto": 1}
    with world.ledger.write() as tx:
        expire_due(tx, now=world.clock.now(), limit=10)
    assert counts(world) == {"Porto": 1}


def test_a_filter_on_metadata_counts_what_it_matches(world: World) -> None:
    note = world.say("User loves Rome", metadata={"kind": "note"})[0]
    world.say("User hates Rome", metadata={"kind": "rant"})
    world.say("User hates Oslo", metadata={"kind": "rant"})
    (item,) = page(world, {"user_id": "ann", "kind": "note"}).items
    assert (item.name, item.count, item.memory_ids) == ("Rome", 1, [note])


@pytest.mark.parametrize("filters", [ANN, {"user_id": "ann", "kind": "note"}])
def test_pages_follow_each_other_whatever_changes_meanwhile(world: World, filters: dict[str, Any]) -> None:
    names = ["Ava", "Bea", "Cleo", "Dora", "Eve"]
    ids = world.say_all([f"User met {name}" for name in names], metadata={"kind": "note"})
    world.say("User met Zed", metadata={"kind": "rant"})
    wanted = names if "kind" in filters else [*names, "Zed"]
    found: list[str] = []
    cursor = None
    while True:
        part = page(world, filters, top_k=2, cursor=cursor)
        found += [item.name for item in part.items]
        cursor = part.next_cursor
        if cursor is None:
            break
        if len(found) == 2:  # one that was listed goes, one comes before the place, one behind it
            delete_memory(world.ledger, "default", ids[0], now=world.clock.now())
            world.say_all(["User met Abe", "User met Dana"], metadata={"kind": "note"})
    assert found == sorted([*wanted, "Dana"])


def test_memory_ids_are_told_up_to_a_bound_and_counted_whole(world: World) -> None:
    ids = world.say_all([f"User saw Rome from place {number}" for number in "abc"])
    (item,) = page(world, memory_ids=2).items
    assert (item.count, item.memory_ids) == (3, ids[:2])
    assert page(world, memory_ids=0).items[0].memory_ids == []


def test_bad_input_is_refused(world: World) -> None:
    world.say_all(["User met Ava", "User met Bea"])
    cursor = page(world, top_k=1).next_cursor
    for call in (
        lambda: page(world, top_k=-1),
        lambda: page(world, memory_ids=-1),
        lambda: page(world, memory_ids=10_001),
        lambda: page(world, memory_ids="7"),
    ):
        with pytest.raises(InvalidInput):
            call()
    for filters, given in (({"user_id": "bob"}, cursor), (ANN, "x")):
        with pytest.raises(InvalidCursor):
            page(world, filters, cursor=given)
    assert page(world, top_k=0).items == []
    assert page(world, {"AND": [{"user_id": "ann"}, {"user_id": "bob"}]}).items == []
