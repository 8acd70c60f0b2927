"""What mem0's documentation shows, written in our words, runs here with one import changed and `wait=True` at each `add`.

The tests hold the shapes that mem0 documents: its keys with its types; memline's own keys may stand beside them. Where memline differs on
purpose, a test named `…_differs` says so, and docs/from-mem0.md says why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memline import Memory  # was: from mem0 import Memory

#: mem0's keys of a memory that is read, beside the scope ids that it has.
ITEM = {"id", "memory", "hash", "metadata", "created_at", "updated_at"}
HISTORY = {"id", "memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at", "is_deleted", "actor_id", "role"}
DINNER = [
    {"role": "user", "content": "I'm planning a dinner. I'm allergic to peanuts."},
    {"role": "assistant", "content": "Thanks, I'll leave peanuts out. Do you like Thai food?"},
    {"role": "user", "content": "I love Thai food."},
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMLINE_HOME", str(tmp_path_factory.mktemp("home")))
        patch.chdir(tmp_path_factory.mktemp("cwd"))
        m = Memory()
        m.add("I am early.", user_id="first", wait=True, timeout=240)  # loads what is loaded once, for which `wait` alone may be too short
        yield m
        m.close()


def kept(m: Memory, text: str, **options: Any) -> str:
    """The id of *text*, kept as it stands."""
    return str(m.add(text, infer=False, wait=True, timeout=240, **options)["results"][0]["id"])


def found(answer: dict[str, Any]) -> set[str]:
    return {item["memory"] for item in answer["results"]}


# Quickstart


def test_quickstart_add_and_search(memory: Memory) -> None:
    added = memory.add(DINNER, user_id="alex", metadata={"category": "food"}, wait=True)
    assert set(added) == {"results"} and added["results"]
    for result in added["results"]:
        assert set(result) == {"id", "memory", "event"} and result["event"] == "ADD"
    assert any("peanuts" in result["memory"] for result in added["results"])

    answer = memory.search("What is Alex allergic to?", filters={"user_id": "alex"})
    best = answer["results"][0]
    assert ITEM | {"score", "user_id"} <= set(best)
    assert "peanuts" in best["memory"] and best["user_id"] == "alex" and best["metadata"] == {"category": "food"}
    assert isinstance(best["score"], float) and 0 <= best["score"] <= 1
    assert best["hash"] == hashlib.md5(best["memory"].encode()).hexdigest()
    assert [item["score"] for item in answer["results"]] == sorted((item["score"] for item in answer["results"]), reverse=True)


def test_a_string_a_message_and_a_list_of_messages_are_taken(memory: Memory) -> None:
    for place, said in enumerate(
        ("I play chess.", {"role": "user", "content": "I play go."}, [{"role": "user", "content": "I play poker."}])
    ):
        results = memory.add(said, user_id=f"player-{place}", wait=True)["results"]
        assert [result["event"] for result in results] == ["ADD"]


def test_the_loop_of_a_chat_with_memory(memory: Memory) -> None:
    def answer(question: str, user_id: str) -> str:
        relevant = memory.search(query=question, filters={"user_id": user_id}, top_k=3)
        lines = "\n".join(f"- {entry['memory']}" for entry in relevant["results"])
        reply = f"I remember:\n{lines}"
        memory.add([{"role": "user", "content": question}, {"role": "assistant", "content": reply}], user_id=user_id, wait=True)
        return reply

    answer("I moved to Porto in May.", "chatty")
    assert "Porto" in answer("Which city did I move to?", "chatty")


# Several users, agents and runs


def test_users_do_not_see_each_other(memory: Memory) -> None:
    memory.add("I collect stamps.", user_id="una", wait=True)
    memory.add("I collect coins.", user_id="vic", wait=True)
    assert found(memory.get_all(filters={"user_id": "una"})) == {"User collects stamps"}
    assert found(memory.search("What do I collect?", filters={"user_id": "vic"})) == {"User collects coins"}


def test_agents_and_runs_of_a_user(memory: Memory) -> None:
    kept(memory, "Likes aisle seats.", user_id="wim", agent_id="travel", run_id="trip-1")
    kept(memory, "Runs on Sundays.", user_id="wim", agent_id="fitness")
    assert found(memory.get_all(filters={"user_id": "wim"})) == {"Likes aisle seats.", "Runs on Sundays."}
    assert found(memory.get_all(filters={"user_id": "wim", "agent_id": "travel"})) == {"Likes aisle seats."}
    (item,) = memory.get_all(filters={"run_id": "trip-1"})["results"]
    assert (item["user_id"], item["agent_id"], item["run_id"]) == ("wim", "travel", "trip-1")


def test_an_id_is_needed_as_in_mem0(memory: Memory) -> None:
    for call in (
        lambda: memory.add("x"),
        lambda: memory.search("x", filters={"topic": "a"}),
        lambda: memory.get_all(filters={"topic": "a"}),
        lambda: memory.delete_all(),
        lambda: memory.search("x", user_id="alex"),
        lambda: memory.search("x", filters={"user_id": "alex"}, threshold=2),
        lambda: memory.search("x", filters={"user_id": "alex"}, top_k=-1),
        lambda: memory.add("x", user_id="has space"),
        lambda: memory.add("x", user_id="alex", expiration_date="soon"),
    ):
        with pytest.raises(ValueError, match=r"user_id|threshold|top_k|expiration_date"):
            call()


# Filters


@pytest.fixture(scope="module")
def shelf(memory: Memory) -> dict[str, str]:
    """Four memories of one user."""
    rows: tuple[tuple[str, dict[str, Any]], ...] = (
        ("tea", {"cat": "drink", "price": 4}),
        ("coffee", {"cat": "drink", "price": 9}),
        ("bread", {"cat": "food", "price": 2}),
        ("note", {}),
    )
    return {text: kept(memory, text, user_id="shop", metadata=metadata) for text, metadata in rows}


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({"cat": "drink"}, {"tea", "coffee"}),
    ({"cat": "drink", "price": 4}, {"tea"}),
    ({"cat": {"eq": "food"}}, {"bread"}),
    ({"cat": {"in": ["food", "toys"]}}, {"bread"}),
    ({"price": {"gt": 4}}, {"coffee"}),
    ({"price": {"gte": 4, "lt": 9}}, {"tea"}),
    ({"price": {"lte": 2}}, {"bread"}),
    ({"cat": {"ne": "food"}, "price": {"gt": 0}}, {"tea", "coffee"}),
    ({"cat": {"nin": ["food"]}, "price": {"gt": 0}}, {"tea", "coffee"}),
    ({"cat": {"contains": "rin"}}, {"tea", "coffee"}),
    ({"cat": {"icontains": "DRI"}}, {"tea", "coffee"}),
    ({"OR": [{"cat": "food"}, {"price": {"gte": 9}}]}, {"bread", "coffee"}),
    ({"AND": [{"cat": "drink"}, {"price": {"lt": 5}}]}, {"tea"}),
    ({"AND": [{"OR": [{"cat": "food"}, {"cat": "drink"}]}, {"NOT": [{"price": 4}]}]}, {"coffee", "bread"}),
]


@pytest.mark.parametrize(("condition", "expected"), FILTERS)
def test_filters_simple_and_advanced(memory: Memory, shelf: dict[str, str], condition: dict[str, Any], expected: set[str]) -> None:
    filters = {"user_id": "shop", **condition}
    assert found(memory.get_all(filters=filters)) == expected
    assert found(memory.search("tea coffee bread note", filters=filters, threshold=0.0)) == expected


# Reading, changing, history


def test_get_gives_one_memory_or_none(memory: Memory) -> None:
    item = memory.get(kept(memory, "The locker is 12.", user_id="gil", metadata={"place": "gym"}))
    assert item is not None
    assert ITEM | {"score", "user_id"} <= set(item)
    assert (item["memory"], item["metadata"], item["score"]) == ("The locker is 12.", {"place": "gym"}, None)
    assert datetime.fromisoformat(item["created_at"]).tzinfo is not None
    assert memory.get("00000000-0000-4000-8000-000000000000") is None


def test_get_all_gives_the_items_without_a_score(memory: Memory) -> None:
    for number in range(3):
        kept(memory, f"Fact {number}.", user_id="all")
    answer = memory.get_all(filters={"user_id": "all"}, top_k=2)
    assert len(answer["results"]) == 2
    for item in answer["results"]:
        assert ITEM | {"user_id"} <= set(item) and "score" not in item


def test_update_delete_and_history(memory: Memory) -> None:
    memory_id = kept(memory, "Drinks tea.", user_id="hist")
    assert memory.update(memory_id, data="Drinks coffee.")["message"] == "Memory updated successfully!"
    assert memory.update(memory_id=memory_id, text="Drinks cocoa.", metadata={"mood": "calm"})["message"] == "Memory updated successfully!"
    item = memory.get(memory_id)
    assert item is not None and (item["memory"], item["metadata"]) == ("Drinks cocoa.", {"mood": "calm"})
    assert memory.delete(memory_id=memory_id) == {"message": "Memory deleted successfully!"}
    assert memory.get(memory_id) is None

    rows = memory.history(memory_id=memory_id)
    assert type(rows) is list
    assert all(set(row) >= HISTORY for row in rows)
    assert [(row["event"], row["old_memory"], row["new_memory"], row["is_deleted"]) for row in rows] == [
        ("ADD", None, "Drinks tea.", False),
        ("UPDATE", "Drinks tea.", "Drinks coffee.", False),
        ("UPDATE", "Drinks coffee.", "Drinks cocoa.", False),
        ("DELETE", "Drinks cocoa.", None, True),
    ]
    assert {row["memory_id"] for row in rows} == {memory_id}
    assert memory.history("00000000-0000-4000-8000-000000000000") == []


def test_an_unknown_id_is_a_value_error_that_says_not_found(memory: Memory) -> None:
    unknown = "00000000-0000-4000-8000-000000000000"
    for call in (lambda: memory.update(unknown, text="x"), lambda: memory.delete(unknown)):
        with pytest.raises(ValueError, match=f"Memory with id {unknown} not found"):
            call()
    with pytest.raises(ValueError, match="needs something to change"):
        memory.update(unknown)


def test_delete_all_of_a_user(memory: Memory) -> None:
    kept(memory, "One.", user_id="gone")
    kept(memory, "Two.", user_id="gone", agent_id="helper")
    kept(memory, "Three.", user_id="stays")
    assert memory.delete_all(user_id="gone")["message"] == "Memories deleted successfully!"
    assert memory.get_all(filters={"user_id": "gone"})["results"] == []
    assert found(memory.get_all(filters={"user_id": "stays"})) == {"Three."}


def test_expiration_dates(memory: Memory) -> None:
    today = datetime.now(UTC).date()
    memory_id = kept(memory, "The code is 4711.", user_id="exp", expiration_date=(today - timedelta(days=1)).isoformat())
    kept(memory, "Lives in Oslo.", user_id="exp", expiration_date=today + timedelta(days=30))
    assert found(memory.get_all(filters={"user_id": "exp"})) == {"Lives in Oslo."}
    assert found(memory.get_all(filters={"user_id": "exp"}, show_expired=True)) == {"Lives in Oslo.", "The code is 4711."}
    item = memory.get(memory_id)
    assert item is not None and item["expiration_date"] == (today - timedelta(days=1)).isoformat()
    memory.update(memory_id, expiration_date=None)
    assert "The code is 4711." in found(memory.get_all(filters={"user_id": "exp"}))


def test_infer_false_keeps_each_message_with_who_said_it(memory: Memory) -> None:
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "Bo", "content": "My seat is 12A."},
        {"role": "assistant", "content": "Seat 12A it is."},
    ]
    assert [
        {key: value for key, value in result.items() if key != "id"}
        for result in memory.add(said, user_id="raw", infer=False, wait=True)["results"]
    ] == [
        {"memory": "My seat is 12A.", "event": "ADD", "actor_id": "Bo", "role": "user"},
        {"memory": "Seat 12A it is.", "event": "ADD", "actor_id": None, "role": "assistant"},
    ]


def test_procedural_memory(memory: Memory) -> None:
    steps = [{"role": "assistant", "content": "Opened the report. Renamed it."}]
    (result,) = memory.add(steps, agent_id="robot", memory_type="procedural_memory", wait=True)["results"]
    assert set(result) >= {"id", "memory", "event"} and result["event"] == "ADD"


def test_explained_scores_and_thresholds(memory: Memory) -> None:
    kept(memory, "The invoice number is INV-2291.", user_id="why")
    (item,) = memory.search("INV-2291", filters={"user_id": "why"}, explain=True)["results"]
    assert {"semantic_score", "bm25_score", "entity_boost", "final_score", "threshold"} <= set(item["score_details"])
    assert memory.search("INV-2291", filters={"user_id": "why"}, threshold=1.0)["results"] == []


def test_a_configuration_of_mem0s(tmp_path: Path) -> None:
    config = {"history_db_path": str(tmp_path / "history.db"), "version": "v1.1"}
    with Memory.from_config(config_dict=config) as configured:
        kept(configured, "Kept there.", user_id="conf")
        assert found(configured.get_all(filters={"user_id": "conf"})) == {"Kept there."}
    assert (tmp_path / "history.db").exists()


# Where memline differs on purpose


def test_add_without_wait_differs_it_returns_a_receipt(memory: Memory) -> None:
    receipt = memory.add("I own a kayak.", user_id="async")
    assert receipt.wait(240).results == memory.receipt(receipt.id).results
    assert set(receipt.results[0]) == {"id", "memory", "event"}


def test_reset_differs_it_needs_the_name_of_its_namespace(memory: Memory) -> None:
    other = memory.in_namespace("playground")
    kept(other, "Played.", user_id="res")
    kept(memory, "Real.", user_id="res")
    with pytest.raises(ValueError, match="confirm"):
        other.reset()
    other.reset(confirm="playground")
    assert other.get_all(filters={"user_id": "res"})["results"] == []
    assert found(memory.get_all(filters={"user_id": "res"})) == {"Real."}


def test_what_is_known_already_differs_it_is_named_as_a_duplicate(memory: Memory) -> None:
    first = memory.add("I live in Lisbon.", user_id="dup", wait=True)["results"]
    again = memory.add("I live in Lisbon.", user_id="dup", wait=True)["results"]
    assert [(result["id"], result["event"]) for result in again] == [(first[0]["id"], "DUPLICATE")]


def test_metadata_of_an_update_differs_a_null_removes_a_key(memory: Memory) -> None:
    memory_id = kept(memory, "Wears a hat.", user_id="met", metadata={"a": 1, "b": 2})
    memory.update(memory_id, metadata={"a": None, "c": 3})
    item = memory.get(memory_id)
    assert item is not None and item["metadata"] == {"b": 2, "c": 3}


def test_unknown_options_and_ids_in_metadata_differ_they_are_errors(memory: Memory) -> None:
    with pytest.raises(TypeError):
        memory.search("x", filters={"user_id": "alex"}, limit=3)
    with pytest.raises(ValueError, match="metadata"):
        memory.add("x", user_id="alex", metadata={"user_id": "eve"}, wait=True)


def test_ne_and_nin_differ_a_memory_without_the_key_matches(memory: Memory, shelf: dict[str, str]) -> None:
    for condition in ({"ne": "food"}, {"nin": ["food"]}):
        assert found(memory.get_all(filters={"user_id": "shop", "cat": condition})) == {"tea", "coffee", "note"}


def test_wildcards_differ_they_open_nobody_elses_memory(memory: Memory) -> None:
    calls: list[Callable[[], object]] = [
        lambda: memory.get_all(filters={"user_id": "*"}),
        lambda: memory.get_all(filters={"user_id": "shop", "cat": "*"}),  # {"exists": True} asks for any value
        lambda: memory.delete_all(user_id="*"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="wildcard"):
            call()
