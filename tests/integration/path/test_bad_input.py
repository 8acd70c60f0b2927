"""G12: for every option of every call what is none is refused by its name, with an error of the one tree, and nothing is changed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from memline import Memory
from memline.contracts.errors import InvalidInput, MemlineError
from tests.integration.path.access_world import ANN, World, dump, open_world

OWN = object()
TURN = object()
LONG = "x" * 2_000_000

#: Ids of scopes: what no one of them may be. The message names the option.
BAD_IDS: list[Any] = ["", "  ", "*", "a*", "a b", "a\x00b", "a\ud800", "x" * 257, True, 1.5, ["ann"], {"eq": "ann"}, b"ann"]
#: Ids of memories and turns.
BAD_HANDLES: list[Any] = ["", "  ", None, 7, ["x"], b"x", "x" * 257, "a\x00b", "a\ud800"]
BAD_FLAGS: list[Any] = [None, 1, 0, "no", []]
BAD_REMARKS: list[Any] = ["", "  ", 7, "x" * 257, "a\x00b"]
BAD_COUNTS: list[Any] = [None, True, -1, 1.5, "20", math.nan]
BAD_FILTERS: list[Any] = [
    "ann",
    ["user_id"],
    {"user_id": "*"},
    {"user_id": None},
    {"user_id": {"ne": "ann"}},
    {"user_id": ["ann", "bob"]},
    {"user_id": "ann", "NOT": [{"user_id": "bob"}]},
    {"user_id": "ann", "OR": []},
    {"user_id": "ann", "prio": {"above": 5}},
    {"user_id": "ann", "prio": {}},
    {"user_id": "ann", "prio": math.nan},
    {"user_id": "ann", "$or": []},
    {"user_id": "ann", 7: "x"},
    {"user_id": "ann", "created_at": "soon"},
    {"user_id": "ann", "x": {"in": "abc"}},
]
BAD_WITHIN: list[Any] = [{}, {"user_id": "*"}, {"colour": "red"}, "ann"]
BAD_METADATA: list[Any] = ["x", [1], {7: "x"}, {"x": math.nan}, {"x": object()}, {"user_id": "bob"}, {"x": "y" * 70_000}]
BAD_DAYS: list[Any] = ["31.12.2026", "2026-02-30", "soon", 7, True, ["2026-01-01"]]
BAD_CURSORS: list[Any] = ["", "x", 7, "x" * 100_000, b"x"]
IDS: dict[str, list[Any]] = dict.fromkeys(("user_id", "agent_id", "run_id"), BAD_IDS)
REMARKS: dict[str, list[Any]] = dict.fromkeys(("actor", "reason"), BAD_REMARKS)

#: call -> (the good arguments, option -> values that are none).
CALLS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "add": (
        {"messages": "Box 50.", "user_id": "ann"},
        {
            **IDS,
            "messages": [None, 7, "", "  ", [], [7], [{"role": "robot", "content": "x"}], [{"role": "user", "content": 7}], "a\x00b", LONG],
            "metadata": BAD_METADATA,
            "infer": BAD_FLAGS,
            "memory_type": ["semantic", "", 7, True],
            "prompt": [7, ["x"], "a\x00b", LONG],
            "expiration_date": BAD_DAYS,
            "timestamp": ["yesterday", True, math.nan, [1], "2026-02-30"],
            "idempotency_key": ["", "  ", 7, "x" * 2000, "a\x00b"],
            "ack": ["later", None, 7],
            "wait": BAD_FLAGS,
            "timeout": [None, "x", math.nan, True],
        },
    ),
    "update": (
        {"memory_id": OWN, "text": "Box 51."},
        {
            **REMARKS,
            "memory_id": BAD_HANDLES,
            "text": ["", "  ", 7, "a\x00b", "a\ud800", LONG],
            "data": ["", "something else", 7],
            "metadata": BAD_METADATA,
            "expiration_date": BAD_DAYS,
            "if_version": ["1", True, 0, -1, 1.5],
        },
    ),
    "delete": ({"memory_id": OWN}, {**REMARKS, "memory_id": BAD_HANDLES, "redact": BAD_FLAGS}),
    "delete_all": ({"user_id": "ann"}, {**IDS, **REMARKS, "redact": BAD_FLAGS}),
    "reset": ({"confirm": "ours"}, {"confirm": [None, "", True, "theirs", 7]}),
    "erase": ({"user_id": "ann"}, {**IDS, "agent_id": [*BAD_IDS, "helper"], "physical": BAD_FLAGS}),
    "search": (
        {"query": "Box", "filters": ANN},
        {
            "query": ["", "  ", None, 7, ["x"], "a\x00b", "a\ud800", LONG],
            "filters": [None, {}, *BAD_FILTERS],
            "top_k": BAD_COUNTS,
            "threshold": [None, True, "x", -0.1, 1.1, math.nan],
            "explain": BAD_FLAGS,
            "show_expired": BAD_FLAGS,
            "include_superseded": BAD_FLAGS,
            "as_of": ["2026-01-01", 7, datetime(2026, 1, 1)],  # without a zone
            "rerank": BAD_FLAGS,
            "rerank_k": [0, -1, True, "x", 1.5],
            "max_tokens": [-1, True, "x", 1.5],
        },
    ),
    "get": ({"memory_id": OWN}, {"memory_id": BAD_HANDLES}),
    "get_all": (
        {"filters": ANN},
        {
            "filters": [None, {}, *BAD_FILTERS],
            "top_k": BAD_COUNTS,
            "cursor": BAD_CURSORS,
            "show_expired": BAD_FLAGS,
            "include_superseded": BAD_FLAGS,
        },
    ),
    "count": ({"filters": ANN}, {"filters": [None, {}, *BAD_FILTERS]}),
    "entities": (
        {"filters": ANN},
        {"filters": [None, {}, *BAD_FILTERS], "top_k": BAD_COUNTS, "cursor": BAD_CURSORS, "memory_ids": BAD_COUNTS},
    ),
    "history": ({"memory_id": OWN}, {"memory_id": BAD_HANDLES}),
    "why": ({"memory_id": OWN}, {"memory_id": BAD_HANDLES}),
    "receipt": ({"turn_id": TURN}, {"turn_id": BAD_HANDLES}),
    "changes": ({"limit": 5}, {"since": BAD_CURSORS, "limit": BAD_COUNTS}),
    "flush": ({"timeout": 1}, {"timeout": [None, "x", math.nan, True]}),
}

#: Where the message does not name the option, it names what is meant by it.
SAID_OTHERWISE = {
    "messages": "message|turn|images",
    "filters": "filter|user_id",
    "data": "text",
    "confirm": "confirm|reset",
    "ack": "ack",
    "since": "since|cursor",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("home")) as found:
        yield found


def filled(world: World, given: dict[str, Any]) -> dict[str, Any]:
    known = {OWN: world.memories["own"], TURN: world.turns["own"]}
    return {name: known.get(value, value) if value in (OWN, TURN) else value for name, value in given.items()}


@pytest.mark.parametrize("name", CALLS)
def test_bad_input_to_any_call_is_refused_by_name_and_changes_nothing(world: World, name: str) -> None:
    good, wrong = CALLS[name]
    call = getattr(world.memory, name)
    first = next(iter(good))
    before = dump(world)
    for option, values in {**wrong, "within": BAD_WITHIN, "colour": ["red"]}.items():
        for value in values:
            given = {**filled(world, good), option: value}
            shown = f"{name}({option}={repr(value)[:60]})"
            with pytest.raises(MemlineError) as raised:
                call(given.pop(first), **given) if first not in ("user_id", "filters", "limit") else call(**given)
            message = str(raised.value)
            assert isinstance(raised.value, InvalidInput), shown
            assert any(word in message.lower() for word in SAID_OTHERWISE.get(option, option).split("|")), (shown, message)
            assert len(message) < 500 and "xxx" not in message, shown
    assert dump(world) == before


def test_a_namespace_is_a_plain_name(world: World) -> None:
    for value in (None, *BAD_IDS):
        with pytest.raises(InvalidInput, match="namespace"):
            world.memory.in_namespace(value)


def test_every_option_of_every_call_has_its_bad_input() -> None:
    whole = {"close", "in_namespace", "from_config", "chat"}
    for name in (name for name, _ in inspect.getmembers(Memory, callable) if not name.startswith("_") and name not in whole):
        options = set(inspect.signature(getattr(Memory, name)).parameters) - {"self", "unknown", "within"}
        assert options == set(CALLS[name][1]), name
