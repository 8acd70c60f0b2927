"""`memline why`: how a memory came to be, for people and for programs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from memline import AsyncMemory, Memory
from memline.ledger.erase_census import holders_of
from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")

MEI = {"user_id": "mei"}


def added(said: str, *options: str) -> str:
    memline("add", said, "-u", "mei", "--wait", *options)
    return str(memline_json("list", "-u", "mei")["results"][-1]["id"])


def test_a_person_is_shown_the_turn_the_extractor_and_what_was_decided() -> None:
    added("Hello! I live in Porto. The weather was fine.")
    made = {item["memory"]: item["id"] for item in memline_json("list", "-u", "mei")["results"]}
    shown = memline("why", made["User lives in Porto"]).stdout
    assert "User lives in Porto" in shown
    assert "rules-5" in shown
    assert "added: nothing live in its scope said the same" in shown
    assert "Hello! I live in Porto. The weather was fine." in shown


def test_a_program_gets_all_of_it() -> None:
    porto = added("I live in Porto.")
    berlin = added("I live in Berlin. My password is hunter2!")
    found = memline_json("why", porto)
    assert found["memory"]["state"] == "superseded"
    assert found["source"]["span"] == [0, 16]
    assert found["source"]["messages"] == [{"number": 0, "role": "user", "text": "I live in Porto.", "source": True}]
    assert found["extraction"] == {
        "verbatim": False,
        "extractor": "rules-5",
        "model": None,
        "prompt_version": None,
        "instructions_from": None,
        "instructions_hash": None,
        "instructions": None,
    }
    assert [event["event"] for event in found["history"]] == ["ADD", "SUPERSEDE"]
    closed_by = memline_json("why", found["links"]["superseded_by"])
    assert closed_by["links"]["supersedes"] == [porto]
    assert closed_by["source"]["masked"] == {"password": 1}
    assert "hunter2" not in json.dumps(closed_by)
    assert berlin


def test_a_verbatim_memory_was_extracted_by_nobody() -> None:
    kept = added("The code is 4711.", "--no-infer")
    found = memline_json("why", kept)
    assert (found["extraction"]["verbatim"], found["extraction"]["extractor"], found["source"]["span"]) == (True, None, [0, 17])
    assert "nobody: kept verbatim" in memline("why", kept).stdout


def test_an_unknown_id_and_a_deleted_one_are_answered_alike() -> None:
    porto = added("I live in Porto.")
    memline("delete", porto)
    told = {memory_id: memline("why", memory_id, exit_code=3).stderr.replace(memory_id, "ID") for memory_id in (porto, "unknown")}
    assert told[porto] == told["unknown"]


def test_what_lies_outside_within_or_in_another_namespace_is_unknown() -> None:
    with Memory() as memory:
        (made,) = memory.add("I live in Porto.", **MEI, wait=True)["results"]
        assert memory.why(made["id"], within={"user_id": "mei"}) is not None
        assert memory.why(made["id"], within={"user_id": "ann"}) is None
        assert memory.in_namespace("other").why(made["id"]) is None
        assert (memory.get(made["id"]) or {})["source"]["span"] == [0, 16]

        async def ask() -> object:
            return await AsyncMemory(memory=memory).why(made["id"])

        assert asyncio.run(ask()) == memory.why(made["id"])


def test_an_erased_user_leaves_no_source(tmp_path: Path) -> None:
    with Memory() as memory:
        (made,) = memory.add("I live in Porto.", **MEI, wait=True)["results"]
        memory.erase(user_id="mei")
        assert memory.why(made["id"]) is None
        with memory._house.ledger.read() as connection:
            assert holders_of(connection, "Porto") == []
