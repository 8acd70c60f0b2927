"""Access (`within=`): what lies outside the scope that a call acts for is answered like what is not there, and nothing is changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memline import AsyncMemory, Memory, Status
from memline.contracts.errors import InvalidCursor, InvalidInput, InvalidScopeId, ScopeRequired, UnknownOption, UnknownReceipt
from memline.settings import load_settings
from tests.integration.path.access_world import ANN, World, answer, dump, open_world
from tests.integration.path.stacks import be_patient

UNKNOWN = "0197f3a0-0000-7000-8000-00000000abcd"

#: Of a namespace and its process, not of anybody in it.
WHOLE = {"close", "flush", "in_namespace", "from_config", "chat"}

BY_MEMORY: dict[str, Callable[..., Any]] = {
    "get": lambda memory, one, **w: memory.get(one, **w),
    "history": lambda memory, one, **w: memory.history(one, **w),
    "why": lambda memory, one, **w: memory.why(one, **w),
    "update its text": lambda memory, one, **w: memory.update(one, text="Box 99.", **w),
    "update its metadata": lambda memory, one, **w: memory.update(one, metadata={"seen": True}, **w),
    "update its date": lambda memory, one, **w: memory.update(one, expiration_date="2999-01-01", **w),
    "update a version": lambda memory, one, **w: memory.update(one, data="Box 98.", if_version=7, **w),
    "delete": lambda memory, one, **w: memory.delete(one, **w),
    "delete and redact": lambda memory, one, **w: memory.delete(one, redact=True, **w),
}

BY_FILTER: dict[str, Callable[..., Any]] = {
    "search": lambda memory, **o: memory.search("Who parks near Porto in a Box", threshold=0.0, **o),
    "get_all": lambda memory, **o: memory.get_all(**o),
    "count": lambda memory, **o: memory.count(**o),
    "entities": lambda memory, **o: memory.entities(**o),
}


@pytest.fixture(scope="module")
def sqlite_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def world(tmp_path: Path, ledger_url: str) -> Iterator[World]:
    """On SQLite and on PostgreSQL."""
    with open_world(tmp_path / "home", ledger_url) as found:
        yield found


def test_an_id_outside_within_or_the_namespace_is_answered_like_an_unknown_one_by_every_call(world: World) -> None:
    before = dump(world)
    for name, call in BY_MEMORY.items():
        unknown = answer(lambda call=call: call(world.memory, UNKNOWN, within=ANN), UNKNOWN)
        for whose in ("bob's", "an agent's", "bob's deleted", "another namespace's"):
            one = world.memories[whose]
            assert answer(lambda call=call, one=one: call(world.memory, one, within=ANN), one) == unknown, (name, whose)
    unknown = answer(lambda: world.memory.receipt(UNKNOWN, within=ANN), UNKNOWN)
    assert unknown[0] == "UnknownReceipt"
    for whose in ("bob's", "an agent's", "bob's deleted", "another namespace's"):
        turn = world.turns[whose]
        assert answer(lambda turn=turn: world.memory.receipt(turn, within=ANN), turn) == unknown, whose
    assert dump(world) == before


def test_a_memory_without_one_of_the_ids_named_is_outside(world: World) -> None:
    before = dump(world)
    one = world.memories["own"]
    for within in ({**ANN, "agent_id": "helper"}, {**ANN, "run_id": "r1"}, {"agent_id": "ann"}, {"user_id": "Ann"}):
        for name, call in BY_MEMORY.items():
            unknown = answer(lambda call=call, w=within: call(world.memory, UNKNOWN, within=w), UNKNOWN)
            assert answer(lambda call=call, w=within: call(world.memory, one, within=w), one) == unknown, (name, within)
        with pytest.raises(UnknownReceipt):
            world.memory.receipt(world.turns["own"], within=within)
    assert dump(world) == before


def test_an_own_id_is_answered_and_changed(world: World) -> None:
    for whose, within in (("own", ANN), ("own agent's", ANN), ("own agent's", {"agent_id": "helper", "run_id": "r1"})):
        found = world.memory.get(world.memories[whose], within=within)
        assert found is not None and found["id"] == world.memories[whose]
        assert world.memory.receipt(world.turns[whose], within=within).status is Status.SEARCHABLE
        assert [row["event"] for row in world.memory.history(world.memories[whose], within=within)] == ["ADD"]
    one = world.memories["own"]
    assert world.memory.update(one, text="Ann parks in Box 20.", within=ANN)["version"] == 2
    world.memory.delete(one, within=ANN)
    assert world.memory.get(one, within=ANN) is None
    assert [row["event"] for row in world.memory.history(one, within=ANN)] == ["ADD", "UPDATE", "DELETE"]
    world.memory.delete(one, redact=True, within=ANN)
    assert world.memory.history(one, within=ANN)[0]["new_memory"] is None


FOREIGN_FILTERS: list[dict[str, Any]] = [
    {"user_id": "bob"},
    {"AND": [{"user_id": "bob"}, {"user_id": "ann"}]},
    {"OR": [{"user_id": "bob"}, {"user_id": "nobody"}]},
    {"user_id": "bob", "NOT": [{"colour": "red"}]},
]


@pytest.mark.parametrize("name", BY_FILTER)
def test_a_filter_for_somebody_else_finds_what_one_for_nobody_does(sqlite_world: World, name: str) -> None:
    memory, call = sqlite_world.memory, BY_FILTER[name]
    before = dump(sqlite_world)
    nobody = answer(lambda: call(memory, filters={"user_id": "nobody"}, within=ANN))
    assert nobody[0] == "returned" and "Box" not in nobody[1]
    for filters in FOREIGN_FILTERS:
        assert answer(lambda filters=filters: call(memory, filters=filters, within=ANN)) == nobody, filters
    assert dump(sqlite_world) == before


def test_a_read_stays_inside_both_its_filters_and_within(sqlite_world: World) -> None:
    memory, ids = sqlite_world.memory, sqlite_world.memories
    both = {ids["own"], ids["own agent's"]}
    asked: list[tuple[Any, dict[str, str], set[str]]] = [
        (None, ANN, both),
        ({}, ANN, both),
        ({"OR": [{"user_id": "ann"}, {"user_id": "bob"}, {"agent_id": "helper"}]}, ANN, both),
        ({"NOT": [{"colour": "red"}]}, ANN, both),
        ({"agent_id": "helper"}, ANN, {ids["own agent's"]}),
        ({"agent_id": "helper"}, {"agent_id": "helper"}, {ids["own agent's"], ids["an agent's"]}),
        ({"user_id": "ann"}, {"agent_id": "helper", "run_id": "r1"}, {ids["own agent's"]}),
    ]
    for filters, within, wanted in asked:
        assert {item["id"] for item in memory.get_all(filters=filters, within=within)["results"]} == wanted, filters
        assert memory.count(filters=filters, within=within) == len(wanted)
        found = memory.search("Who parks in a Box", filters=filters, within=within, threshold=0.0)["results"]
        assert {item["id"] for item in found} == wanted, filters
        named = memory.entities(filters=filters, within=within)["results"]
        assert {one for item in named for one in item["memory_ids"]} <= wanted, filters
    with pytest.raises(ScopeRequired):
        memory.get_all(filters={"NOT": [{"colour": "red"}]})


def test_a_cursor_of_another_scope_opens_nothing(sqlite_world: World) -> None:
    memory = sqlite_world.memory
    cursor = memory.get_all(filters={"OR": [{"user_id": "ann"}, {"user_id": "bob"}]}, top_k=1)["next_cursor"]
    with pytest.raises(InvalidCursor):
        memory.get_all(filters={"OR": [{"user_id": "ann"}, {"user_id": "bob"}]}, top_k=1, cursor=cursor, within=ANN)


REACHING_OUT: list[tuple[Callable[[Memory], Any], type[InvalidInput], str]] = [
    (lambda memory: memory.add("x", user_id="bob", within=ANN), InvalidScopeId, "user_id"),
    (lambda memory: memory.add("x", user_id="ann", within={**ANN, "run_id": "r1"}), ScopeRequired, "run_id"),
    (lambda memory: memory.add("x", agent_id="helper", within=ANN), ScopeRequired, "user_id"),
    (lambda memory: memory.delete_all(user_id="bob", within=ANN), InvalidScopeId, "user_id"),
    (lambda memory: memory.delete_all(agent_id="helper", within=ANN), ScopeRequired, "user_id"),
    (lambda memory: memory.delete_all(run_id="r1", within=ANN), ScopeRequired, "user_id"),
    (lambda memory: memory.erase(user_id="bob", within=ANN), InvalidScopeId, "user_id"),
    (lambda memory: memory.erase(agent_id="helper", within=ANN), ScopeRequired, "user_id"),
    (lambda memory: memory.erase(user_id="ann", within={**ANN, "agent_id": "helper"}), ScopeRequired, "agent_id"),
    (lambda memory: memory.reset(confirm="ours", within=ANN), InvalidInput, "reset"),
    (lambda memory: memory.changes(within=ANN), InvalidInput, "changes"),
    (lambda memory: memory.flush(within=ANN), UnknownOption, "flush"),
]


def test_a_call_that_would_reach_out_of_within_is_refused_and_changes_nothing(world: World) -> None:
    before = dump(world)
    for number, (call, error, named) in enumerate(REACHING_OUT):
        with pytest.raises(error, match=f"(?s)within.*{named}|{named}.*within") as raised:
            call(world.memory)
        assert type(raised.value) is error, number
        assert "bob" not in str(raised.value), number
    assert dump(world) == before


def test_inside_within_a_call_does_what_it_does_without(world: World) -> None:
    added = world.memory.add("Box 21.", user_id="ann", agent_id="helper", infer=False, wait=True, within=ANN)["results"]
    assert [item["event"] for item in added] == ["ADD"]
    assert world.memory.delete_all(user_id="ann", agent_id="helper", within={"agent_id": "helper"})["deleted"] == 2
    assert world.memory.get(world.memories["an agent's"]) is not None
    world.memory.erase(user_id="ann", within=ANN)
    assert world.memory.get(world.memories["own"]) is None
    assert world.memory.get(world.memories["bob's"]) is not None


BAD_WITHIN: list[Any] = [
    {},
    {"user": "ann"},
    {1: "ann"},
    {"user_id": "ann", "colour": "red"},
    {"namespace": "ours"},
    {"user_id": "*"},
    {"user_id": None},
    {"user_id": ""},
    {"user_id": "a b"},
    {"user_id": ["ann"]},
    {"user_id": {"eq": "ann"}},
    {"OR": [{"user_id": "ann"}]},
    "ann",
    ["user_id", "ann"],
    True,
]


@pytest.mark.parametrize("within", BAD_WITHIN, ids=repr)
def test_a_within_that_is_none_is_refused_by_every_call_and_changes_nothing(sqlite_world: World, within: Any) -> None:
    memory, one = sqlite_world.memory, sqlite_world.memories["own"]
    before = dump(sqlite_world)
    calls: list[Callable[..., Any]] = [
        *(lambda call=call, **w: call(memory, one, **w) for call in BY_MEMORY.values()),
        *(lambda call=call, **w: call(memory, filters=ANN, **w) for call in BY_FILTER.values()),
        lambda **w: memory.receipt(sqlite_world.turns["own"], **w),
        lambda **w: memory.add("x", user_id="ann", **w),
        lambda **w: memory.delete_all(user_id="ann", **w),
        lambda **w: memory.erase(user_id="ann", **w),
        lambda **w: memory.reset(confirm="ours", **w),
        lambda **w: memory.changes(**w),
        lambda **w: memory.flush(**w),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="within"):
            call(within=within)
    assert dump(sqlite_world) == before


def test_every_call_takes_within() -> None:
    for front in (Memory, AsyncMemory):
        calls = {name: value for name, value in inspect.getmembers(front, callable) if not name.startswith("_") and name not in WHOLE}
        assert len(calls) >= 12
        assert [name for name, call in calls.items() if "within" not in inspect.signature(call).parameters] == []


def test_a_turn_that_waits_in_redis_is_shown_to_its_own_scope_only(tmp_path: Path, redis_url: str) -> None:
    settings = load_settings(home=tmp_path, redis_url=redis_url, embedder="tests.unit.cli.parts:Tiny", order_wait=60)
    with Memory("ours", settings=settings) as memory:
        be_patient(memory)
        turn = memory.add("Box 12.", user_id="ann", agent_id="helper").id
        for within in (ANN, {"agent_id": "helper"}, {**ANN, "agent_id": "helper"}):
            assert memory.receipt(turn, within=within).status is Status.QUEUED
        unknown = answer(lambda: memory.receipt(UNKNOWN, within={"user_id": "bob"}), UNKNOWN)
        assert unknown[0] == "UnknownReceipt"
        for within in ({"user_id": "bob"}, {**ANN, "run_id": "r1"}):
            assert answer(lambda within=within: memory.receipt(turn, within=within), turn) == unknown
        theirs = memory.in_namespace("theirs")
        assert answer(lambda: theirs.receipt(turn, within=ANN), turn) == (unknown[0], unknown[1].replace("ours", "theirs"))
