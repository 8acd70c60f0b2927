"""The whole path on Weaviate: add, search, delete, reconcile; and the server away in the middle of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from memline.compose import House
from memline.errors import ConfigurationError, ServiceUnavailable
from memline.ledger.memories import index_objects
from memline.outbox.verify import verify
from memline.search.index.port import Write
from memline.search.index.weaviate import WeaviateIndex
from memline.settings import load_settings
from tests.integration.path.stacks import PATIENT, Stack, engine_stack
from tests.weaviate_server import Reached, WeaviateServer, weaviate_binary

MEI = {"user_id": "mei"}


@pytest.fixture
def stack(weaviate_server: Reached, tmp_path: Path) -> Iterator[Stack]:
    """The engine with Weaviate as its index, under a prefix of its own."""
    variables = {
        **PATIENT,
        "MEMLINE_SEARCH_DEADLINE": "30",
        "MEMLINE_WEAVIATE_PREFIX": f"T{os.urandom(6).hex()}",
        **weaviate_server.settings(),
    }
    with engine_stack(tmp_path, **variables) as found:
        yield found
        house = house_of(found)
        house.index.drop()  # type: ignore[attr-defined]
        house.close(0)


def texts(answer: dict[str, Any]) -> list[str]:
    return [item["memory"] for item in answer["results"]]


def house_of(stack: Stack) -> House:
    house = House(stack.settings())
    assert isinstance(house.index, WeaviateIndex)
    return house


def test_a_turn_is_found_through_weaviate_and_a_deleted_memory_leaves_it(stack: Stack) -> None:
    with stack.memory() as memory:
        memory.add("I live in Munich. My dog Poppy is a beagle.", **MEI, wait=True)
        memory.add("Ticket INC-48213 is about the printer.", user_id="ann.lee", wait=True)
        found = memory.search("what kind of dog is it?", filters=MEI, explain=True)
        assert "Poppy" in texts(found)[0]
        assert memory.search("INC-48213", filters={"user_id": "ann.lee"})["results"]
        assert memory.search("INC-48213", filters={"user_id": "ann"})["results"] == []
        dog = found["results"][0]["id"]
        memory.delete(dog)
        memory.flush(300)
        assert all("Poppy" not in text for text in texts(memory.search("what kind of dog is it?", filters=MEI)))
    house = house_of(stack)
    stored = {state.key.id for state in house.index.walk("memory", "default")}
    assert len(stored) == 2
    assert dog not in stored
    assert house.index.namespaces() == ["default"]
    house.close(0)


def test_a_reconcile_makes_a_weaviate_that_lost_and_kept_too_much_equal_again(stack: Stack) -> None:
    with stack.memory() as memory:
        for city in ("Munich", "Lisbon", "Oslo", "Rome"):
            memory.add(f"The office in {city} has a garden.", user_id=city, wait=True)
    house = house_of(stack)
    index = house.index
    states = list(index.walk("memory", "default", vectors=True))
    assert len(states) == 4
    with house.ledger.read() as connection:
        objects = index_objects(connection, [state.key for state in states])
    lost, changed, same, _ = (objects[state.key] for state in states)
    orphan_key = replace(same.key, id="00000000-0000-5000-8000-000000000001")
    writes = [
        Write(lost.key, None),
        Write(changed.key, replace(changed, user_id="somebody else")),
        Write(orphan_key, replace(same, key=orphan_key)),
    ]
    assert [answer.error for answer in index.write(writes)] == [None] * 3
    done = house.reconciler.run(deep=True)
    house.relay.drain()
    assert {kind: number for kind, number in done.drift.items() if number} == {"missing": 1, "changed": 1, "orphaned": 1}
    again = house.reconciler.run(deep=True)
    assert (again.complete, again.repaired) == (True, 0)
    assert list(index.walk("memory", "default", vectors=True)) == states
    house.close(0)


def test_an_erased_user_leaves_no_object_in_weaviate_and_the_others_stay(stack: Stack) -> None:
    with stack.memory() as memory:
        memory.add("I live in Munich. My dog Poppy is a beagle.", **MEI, wait=True)
        memory.add("My dog Poppy is a poodle.", user_id="ann", wait=True)
        certificate = memory.erase(**MEI)
        assert certificate["proof"]["sound"]
        assert memory.search("Poppy", filters=MEI)["results"] == []
        assert texts(memory.search("Poppy", filters={"user_id": "ann"}))
    house = house_of(stack)
    left = [state for kind in ("memory", "entity") for state in house.index.walk(kind, "default")]
    assert left
    with house.ledger.read() as connection:
        objects = index_objects(connection, [state.key for state in left if state.key.kind == "memory"])
    assert {found.user_id for found in objects.values()} == {"ann"}
    assert verify(house.ledger, house.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}
    house.close(0)


def test_doctor_says_where_weaviate_is(stack: Stack) -> None:
    from memline.cli.checks_parts import index

    house = house_of(stack)
    finding = index(house)
    assert finding.state.name == "OK"
    assert "weaviate (server 1." in finding.detail
    assert "prefix T" in finding.detail
    house.close(0)


def test_while_weaviate_is_away_turns_become_memory_and_are_found_and_it_catches_up(tmp_path: Path) -> None:
    if weaviate_binary() is None:
        pytest.skip("a Weaviate that may be killed needs a `weaviate` server binary on the PATH")
    with (
        WeaviateServer() as server,
        engine_stack(tmp_path, MEMLINE_SEARCH_DEADLINE="10", **server.reached.settings()) as stack,
        stack.memory() as memory,
    ):
        memory.add("I live in Munich.", **MEI, wait=True)
        server.kill()
        receipt = memory.add("My dog Poppy is a beagle.", **MEI)
        assert receipt.wait(300, until="committed").results
        found = memory.search("what kind of dog is it?", filters=MEI)
        assert "Poppy" in texts(found)[0]
        server.start()
        assert receipt.wait(300).status == "searchable"
        with stack.memory("other") as other:  # another handle finds the server, too
            other.add("I like tea.", **MEI, wait=True)
        house = house_of(stack)
        assert len(list(house.index.walk("memory", "default"))) == 2
        house.close(0)


def test_weaviate_without_a_url_and_a_download_that_fails_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(load_settings(home=tmp_path, index="weaviate"))
    with pytest.raises(ConfigurationError, match="needs MEMLINE_WEAVIATE_URL"):
        _ = house.index
    house.close(0)

    def no_network(*_: object, **__: object) -> None:
        raise URLError("Name or service not known")

    monkeypatch.setattr("urllib.request.urlretrieve", no_network)
    house = House(load_settings(home=tmp_path, weaviate_url="embedded"))
    for _ in range(2):
        with pytest.raises(ServiceUnavailable, match=r"MEMLINE_WEAVIATE_URL=embedded.*URLError"):
            house.index.namespaces()
    house.close(0)


def test_the_server_that_the_client_starts_keeps_what_it_was_given(tmp_path: Path) -> None:
    """The program lies where the client would have put it after a download."""
    binary = weaviate_binary()
    if binary is None:
        pytest.skip("the client's own server needs a `weaviate` server binary on the PATH here, where it may not download one")
    from weaviate.embedded import WEAVIATE_VERSION

    version = f"v{WEAVIATE_VERSION}"
    place = tmp_path / "weaviate" / "bin" / f"weaviate-{version}-{sha256(version.encode()).hexdigest()}"
    place.parent.mkdir(parents=True)
    place.symlink_to(binary)
    for port in (8079, 50050):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"something else listens on port {port}, where the client starts its server")
    with engine_stack(tmp_path, MEMLINE_SEARCH_DEADLINE="30", MEMLINE_WEAVIATE_URL="embedded") as stack:
        with stack.memory() as memory:
            memory.add("My dog Poppy is a beagle.", **MEI, wait=True)
            assert texts(memory.search("what kind of dog is it?", filters=MEI)) == ["User's dog Poppy is a beagle"]
        house = house_of(stack)
        assert len(list(house.index.walk("memory", "default"))) == 1
        house.close(0)
