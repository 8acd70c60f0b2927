"""Defects of mem0 that no other test here is about; docs/from-mem0.md lists all of them, each with the test that would fail."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memline import Memory
from memline.contracts.errors import InvalidInput, MemoryNotFound, ScopeRequired
from memline.contracts.scope import Scope
from memline.ledger.delete_all import delete_all
from memline.ledger.messages import window_before
from memline.ledger.schema import entities
from memline.ledger.session import Ledger
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.prompt import build_messages
from memline.settings import load_settings
from tests.parts import START, TrigramEmbedder, accept, make_parts, make_turn, run_all, table


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    settings = load_settings(home=tmp_path_factory.mktemp("home"), embedder="tests.unit.cli.parts:Tiny")
    with Memory(settings=settings) as memory:
        yield memory


@pytest.fixture
def memory(opened: Memory, request: pytest.FixtureRequest) -> Memory:
    """A namespace of the test's own."""
    return opened.in_namespace(request.node.name[:80].replace("[", "-").replace("]", ""))


def add(memory: Memory, text: str = "Box 12.", **options: Any) -> str:
    found = memory.add(text, user_id="ann", infer=False, wait=True, **options)
    return str(found["results"][0]["id"])


def test_d04_a_system_message_in_parts_does_no_harm_and_a_second_time_neither(memory: Memory) -> None:
    turn = [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, {"role": "user", "content": "Box 12."}]
    events = [[result["event"] for result in memory.add(turn, user_id="ann", infer=False, wait=True)["results"]] for _ in range(2)]
    assert events == [["ADD"], ["DUPLICATE"]]


def test_d13_of_a_turn_with_many_messages_the_newest_are_the_window(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn([f"m{number}" for number in range(15)]))
    run_all(parts)
    with ledger.read() as connection:
        shown = window_before(connection, Scope("default", "ann").lane, 2, size=10)
    assert [message.text for message in shown] == [f"m{number}" for number in range(5, 15)]


def test_d16_a_model_is_told_to_keep_the_language_of_the_message() -> None:
    request = Request(messages=make_turn("我住在上海").messages, said_at=START)
    assert "In the language of the message" in build_messages(request)[0]["content"]


@pytest.mark.parametrize("metadata", [{"created_at": 7}, {"expiration_date": "never"}, {"updated_at": None}])
def test_d17_metadata_sets_no_time_and_no_expiry_and_poisons_no_read(memory: Memory, metadata: dict[str, Any]) -> None:
    memory_id = add(memory, metadata=metadata)
    (found,) = memory.get_all(filters={"user_id": "ann"})["results"]
    assert found["id"] == memory_id and found["metadata"] == metadata
    assert isinstance(found["created_at"], str) and "expiration_date" not in found
    assert [hit["id"] for hit in memory.search("Box 12", filters={"user_id": "ann"})["results"]] == [memory_id]


def test_d18_metadata_is_a_room_of_its_own_and_comes_back_whole(memory: Memory) -> None:
    metadata = dict.fromkeys(("id", "data", "memory", "text", "hash", "role", "attributed_to", "memory_type", "score", "version"), "x")
    memory_id = add(memory, metadata=metadata)
    found = memory.get(memory_id)
    assert found is not None and found["metadata"] == metadata
    assert (found["id"], found["memory"], found["role"], found["version"]) == (memory_id, "Box 12.", "user", 1)
    assert "attributed_to" not in found and "memory_type" not in found


def test_d19_a_procedural_memory_without_an_agent_is_an_error_everywhere(memory: Memory) -> None:
    with pytest.raises(ScopeRequired, match="agent_id"):
        memory.add("Opened the page.", user_id="ann", memory_type="procedural_memory")
    for wrong in ("semantic", 7):
        with pytest.raises(InvalidInput, match="memory_type"):
            memory.add("Opened the page.", agent_id="a1", memory_type=wrong)  # type: ignore[arg-type]


def test_d28_an_id_that_is_none_is_bad_input_and_no_accident(memory: Memory) -> None:
    for call in (memory.get_all, memory.count, lambda filters: memory.search("Box", filters=filters)):
        with pytest.raises(InvalidInput, match="user_id"):
            call(filters={"user_id": None})


def test_d29_an_id_of_another_namespace_is_answered_like_an_unknown_one(opened: Memory, memory: Memory) -> None:
    memory_id = add(memory)
    other = opened.in_namespace("d29-other")
    assert other.get(memory_id) is None and other.history(memory_id) == []
    for call in (lambda: other.update(memory_id, text="x"), lambda: other.delete(memory_id)):
        with pytest.raises(MemoryNotFound):
            call()
    assert memory.get(memory_id) is not None


@pytest.mark.parametrize("options", [{"threshold": math.nan}, {"threshold": 2}, {"top_k": None}, {"top_k": True}, {"top_k": -1}])
def test_d30_numbers_that_are_none_are_refused(memory: Memory, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        memory.search("Box", filters={"user_id": "ann"}, **options)


def test_d37_a_deletion_embeds_nothing_whatever_number_of_names_it_ends(ledger: Ledger) -> None:
    embedder = TrigramEmbedder()
    parts = make_parts(ledger, embedder=embedder)
    accept(parts, make_turn([f"tea with Anna{number} and Bert" for number in range(10)]))
    run_all(parts)
    assert len(table(ledger, entities)) > 10
    calls = len(embedder.calls)
    delete_all(ledger, Scope("default", "ann"), now=parts.clock.now())
    assert table(ledger, entities) == [] and len(embedder.calls) == calls


def test_d42_nothing_is_sent_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*address: object, **_options: object) -> None:
        raise AssertionError(f"a connection to {address} was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with Memory(settings=load_settings(home=tmp_path)) as memory:
        memory.add("I live in Berlin.", user_id="ann", wait=True)
        assert memory.search("Where do I live?", filters={"user_id": "ann"})["results"]
