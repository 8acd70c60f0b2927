"""G11: whose memory it is comes from the arguments of the call, whatever metadata, messages, filters or a model say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memline import Memory
from memline.contracts.errors import InvalidScopeId, UnknownOption
from memline.contracts.scope import ID_KEYS
from memline.settings import load_settings
from tests.integration.path.access_world import ANN, BoastingModel, World, dump, open_world


def owner_of(item: dict[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in ID_KEYS if item.get(name) is not None}


def everything(memory: Memory, *owners: dict[str, str]) -> list[dict[str, Any]]:
    found = memory.get_all(filters={"OR": list(owners)}, top_k=100)["results"]
    assert isinstance(found, list)
    return found


OTHERS = ({"user_id": "bob"}, {"agent_id": "eve"}, {"run_id": "r9"})


def test_ids_in_metadata_are_refused_and_never_win(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        before = dump(world)
        one = world.memories["own"]
        for key in (*ID_KEYS, "actor_id"):
            with pytest.raises(InvalidScopeId, match=f"metadata.*{key}"):
                world.memory.add("x", user_id="ann", metadata={key: "bob"})
            with pytest.raises(InvalidScopeId, match=f"metadata.*{key}"):
                world.memory.update(one, metadata={key: "bob"})
            with pytest.raises(InvalidScopeId, match=f"metadata.*{key}"):
                world.memory.update(one, metadata={key: None})
        for option in (*ID_KEYS, "namespace", "filters"):
            with pytest.raises(UnknownOption, match=option):
                world.memory.update(one, text="x", **{option: "bob"})
        for option in ("namespace", "filters", "actor_id"):
            with pytest.raises(UnknownOption, match=option):
                world.memory.add("x", user_id="ann", **{option: {"user_id": "bob"}})
        assert dump(world) == before


def test_ids_deeper_in_metadata_and_in_messages_are_content_and_move_nothing(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        memory = world.memory
        messages = [{"role": "user", "name": "bob", "content": '{"user_id": "bob", "namespace": "theirs"} I am user_id=bob, Box 31.'}]
        deep = {"profile": {"user_id": "bob", "run_id": "r9"}, "User_id": "bob", "namespace": "theirs"}
        bobs = {item["id"] for item in everything(memory, *OTHERS)}
        (added,) = memory.add(messages, user_id="ann", metadata=deep, infer=False, wait=True)["results"]
        found = memory.get(added["id"])
        assert found is not None and owner_of(found) == ANN and found["metadata"] == deep
        memory.update(added["id"], text="Box 32, user_id: bob.", metadata={"profile": {"user_id": "eve"}}, actor="bob")
        found = memory.get(added["id"], within=ANN)
        assert found is not None and owner_of(found) == ANN
        assert {item["id"] for item in everything(memory, *OTHERS)} == bobs
        assert memory.get_all(filters={"user_id": "bob"}, within={"user_id": "ann"})["results"] == []
        assert memory.get_all(filters={"user_id": "ann", "profile.user_id": "eve"})["total"] == 1
        assert world.other.count(filters=ANN) == 1


def test_ids_in_a_models_reply_go_nowhere(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, embedder="tests.unit.cli.parts:Tiny")
    with Memory("ours", settings=settings, chat_model=BoastingModel()) as memory:
        (added,) = memory.add("I am bob, and I keep bees.", user_id="ann", run_id="r1", wait=True)["results"]
        memory.flush(300)
        found = memory.get(added["id"])
        assert found is not None
        assert owner_of(found) == {"user_id": "ann", "run_id": "r1"} and not found["metadata"]
        assert everything(memory, *OTHERS) == []
        for namespace in ("theirs", "default"):
            other = memory.in_namespace(namespace)
            assert everything(other, ANN, *OTHERS) == []
        assert memory.search("bees", filters={"user_id": "bob"}, threshold=0.0)["results"] == []


def test_one_key_in_two_scopes_is_two_turns(tmp_path: Path) -> None:
    """A key that another user used, or guessed, neither shows nor takes that one's turn."""
    with open_world(tmp_path) as world:
        turns = [world.memory.add("Box 40.", user_id=user, infer=False, idempotency_key="k").wait(300) for user in ("ann", "bob")]
        assert turns[0].id != turns[1].id
        owners = [world.memory.get(turn.results[0]["id"]) for turn in turns]
        assert [owner_of(found) for found in owners if found is not None] == [ANN, {"user_id": "bob"}]


def test_the_world_is_whole(tmp_path: Path) -> None:
    """What the dumps of these tests compare does hold the memories."""
    with open_world(tmp_path) as world:
        assert isinstance(world, World)
        assert len(dump(world)["memories"]) == len(world.memories)
