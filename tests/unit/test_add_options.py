"""`add` at the front door: its options, what it refuses, and what a read tells of what was said again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from memline import AsyncMemory, Memory
from memline.cli.simulator import Simulator
from memline.contracts.errors import InvalidInput, InvalidMessage, MemlineError, ScopeRequired
from memline.language.analysis import TextAnalyser

MEI = {"user_id": "mei"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://pictures.example/dog.png"}}


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home, and an embedder that costs nothing to load."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMLINE_EMBEDDER", "tests.unit.cli.parts:Tiny")
    monkeypatch.setattr(TextAnalyser, "_load", lambda _self: None)
    return tmp_path


def test_a_message_kept_verbatim_twice_is_one_memory_with_a_sighting() -> None:
    with Memory() as memory:
        said = [{"role": "user", "name": "Mei", "content": "The code is 4711."}]
        first = memory.add(said, **MEI, infer=False, timestamp="2026-05-01T09:00:00Z", wait=True)["results"]
        again = memory.add(said, **MEI, infer=False, timestamp="2026-05-03T09:00:00Z", wait=True)["results"]
        assert [(first[0]["event"], again[0]["event"])] == [("ADD", "DUPLICATE")]
        assert again[0]["id"] == first[0]["id"]
        found = memory.get(first[0]["id"])
        assert found is not None
        assert found["sightings"] == {"count": 1, "said_at": ["2026-05-03T09:00:00+00:00"]}
        assert (found["actor_id"], found["occurred_at"]) == ("Mei", "2026-05-01T09:00:00+00:00")
        assert "sightings" not in memory.get_all(filters=MEI)["results"][0]
        memory.delete(first[0]["id"])
        third = memory.add(said, **MEI, infer=False, wait=True)["results"]
        assert "sightings" not in (memory.get(third[0]["id"]) or {})


REFUSED: list[tuple[dict[str, Any], type[MemlineError], str]] = [
    ({"memory_type": "procedural_memory", **MEI}, ScopeRequired, "needs agent_id"),
    ({"memory_type": "procedural_memory", "run_id": "r"}, ScopeRequired, "needs agent_id"),
    ({"memory_type": "semantic_memory", "agent_id": "robot"}, InvalidInput, "must be 'procedural_memory'"),
    ({"memory_type": 5, "agent_id": "robot"}, InvalidInput, "must be a string"),
    ({"prompt": 5, **MEI}, InvalidInput, "prompt must be a string"),
]


@pytest.mark.parametrize(("options", "error", "says"), REFUSED)
def test_options_that_do_not_fit_are_refused_before_anything_changes(options: dict[str, Any], error: type[MemlineError], says: str) -> None:
    with Memory() as memory:
        with pytest.raises(error, match=says) as refused:
            memory.add("Rename the report", **options)
        assert "Rename" not in str(refused.value) and "semantic" not in str(refused.value)
        memory.flush(300)
        assert memory.count(filters={"OR": [MEI, {"agent_id": "robot"}, {"run_id": "r"}]}) == 0


def test_an_image_without_a_vision_model_is_refused_and_nothing_changes() -> None:
    with Memory() as memory:
        with pytest.raises(InvalidMessage, match=r"messages\[0\]\.content\[1\] is an image: set MEMLINE_VISION_MODEL"):
            memory.add([{"role": "user", "content": [{"type": "text", "text": "My dog"}, PICTURE]}], **MEI)
        assert memory.count(filters=MEI) == 0


def test_an_image_is_described_over_http_by_the_model_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def described(body: Mapping[str, Any]) -> str:
        return "A brown dog on a beach."

    chat: Callable[[Mapping[str, Any]], str] = described
    with Simulator(chat=chat) as simulator:
        monkeypatch.setenv("MEMLINE_OPENAI_API_KEY", "test")
        monkeypatch.setenv("MEMLINE_OPENAI_BASE_URL", simulator.url)
        monkeypatch.setenv("MEMLINE_EXTRACTOR", "rules")
        monkeypatch.setenv("MEMLINE_VISION_MODEL", "gpt-sees")
        with Memory() as memory:
            said = [{"role": "user", "content": [{"type": "text", "text": "I adopted Rex."}, PICTURE]}]
            results = memory.add(said, **MEI, wait=True)["results"]
        (call,) = simulator.calls
    assert [result["memory"] for result in results] == ["User adopted Rex", "User shares an image: A brown dog on a beach."]
    assert call.body["model"] == "gpt-sees"
    assert call.body["messages"][0]["content"][1] == PICTURE
    assert "response_format" not in call.body


def test_an_agent_without_a_user_remembers_what_it_says_of_itself() -> None:
    said = [{"role": "assistant", "content": "I answer in German now. I moved the backups to Friday."}]
    with Memory() as memory:
        results = memory.add(said, agent_id="robot", wait=True)["results"]
    assert [result["memory"] for result in results] == ["Assistant answers in German now", "Assistant moved the backups to Friday"]


def test_every_option_is_there_for_asyncio() -> None:
    async def run() -> dict[str, Any]:
        async with AsyncMemory() as memory:
            receipt = await memory.add("Renamed it", agent_id="robot", memory_type="procedural_memory", prompt="short")
            await receipt.wait(300)
            (result,) = await receipt.results()
            found = await memory.get(result["id"])
            assert found is not None
            return found

    found = asyncio.run(run())
    assert (found["memory"], found["memory_type"], found["agent_id"]) == ("Renamed it", "procedural_memory", "robot")
    assert json.loads(json.dumps(found)) == found
