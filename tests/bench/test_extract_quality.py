"""The extractor without a model, on the committed lists and on a conversation made in LoCoMo's shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import extract_quality
from bench.extract_quality import PLEASANTRIES_DROPPED, Said, facts_of, load_turns, look_alikes, measure, pleasantries
from memline.contracts.errors import ReplyUnreadable
from memline.contracts.fact import Fact
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.rules import RuleExtractor

#: One session of two people; the observation names the first and the third turn.
CONVERSATION = {
    "sample_id": "made-1",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ana", "dia_id": "D1:1", "text": "I moved to Porto last week."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Wow, that's great!"},
            {"speaker": "Ana", "dia_id": "D1:3", "text": "Look!", "blip_caption": "a photo of a red bicycle"},
        ],
    },
    "observation": {"session_1_observation": {"Ana": [["Ana moved to Porto.", "D1:1"], ["Ana has a red bicycle.", ["D1:3"]]]}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locomo").mkdir()
    (tmp_path / "locomo" / "one.json").write_text(json.dumps([CONVERSATION]))
    return tmp_path


def test_the_lists_are_as_long_as_they_say_and_share_nothing() -> None:
    lists = pleasantries()
    sizes = {name: len(some) for name, some in lists.items()}
    assert sizes["pleasantries english"] + sizes["pleasantries chinese"] == 200
    assert sizes["held out english"] + sizes["held out chinese"] == 60
    assert sizes["held out later english"] + sizes["held out later chinese"] == 60
    alike = {name: len(some) for name, some in look_alikes().items()}
    assert alike["held out english"] + alike["held out chinese"] == 100
    every = [said.text for some in (*lists.values(), *look_alikes().values()) for said in some]
    assert len(set(every)) == len(every)


def test_pleasantries_yield_no_memory() -> None:
    report = measure(RuleExtractor(), [])
    assert report["pleasantries_dropped"] >= PLEASANTRIES_DROPPED
    assert report["pleasantries_dropped_other"] >= PLEASANTRIES_DROPPED
    # of wording that nobody thought of less is known; docs/extraction.md tells the figure
    assert report["pleasantries_dropped_held_out"] >= 0.6
    assert report["pleasantries_dropped_held_out_later"] >= 0.7
    assert report["marks_reached"]


def test_what_only_looks_like_a_pleasantry_yields_a_memory() -> None:
    report = measure(RuleExtractor(), [])
    assert report["look_alikes_kept"] >= 0.98
    assert report["look_alikes_kept_held_out"] >= 0.98


@pytest.mark.parametrize(
    "text",
    [
        "I live in Porto.", "My dog is sick.", "I like tea.", "We have two kids.", "I go swimming tomorrow.", "She is my sister.",
        "I quit.", "I hope to visit you in May.", "I'm busy tomorrow evening.", "I met Ben.", "Thanks, I moved last week.",
        "我住在上海。", "我喜欢喝茶。",
        "我女儿今天生日。", "我换工作了。", "谢谢，我对花生过敏。",
    ],
)  # fmt: skip
def test_short_facts_are_no_small_talk(text: str) -> None:
    assert facts_of(RuleExtractor(), Said(text))


def test_evidence_is_what_an_observation_names(folder: Path) -> None:
    turns = load_turns(folder)
    assert [(said.name, said.evidence) for said in turns] == [("Ana", True), ("Ben", False), ("Ana", True)]
    report = measure(RuleExtractor(), turns)
    assert (report["turns"], report["evidence_turns"], report["evidence_turns_kept"]) == (3, 2, 1.0)


class Broken:
    """An extractor whose replies can't be read."""

    name, paid, wants_context = "broken", True, False

    def ask(self, request: Request) -> str:
        return "?"

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        raise ReplyUnreadable()


def test_a_model_that_can_not_be_read_has_dropped_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    report = measure(Broken(), [Said("I live in Porto.", evidence=True)])
    assert (report["evidence_turns_kept"], report["pleasantries_dropped"], report["marks_reached"]) == (0.0, 0.0, False)
    assert report["unreadable"] > 200
    assert "Porto" not in capsys.readouterr().err


def test_without_a_model_it_says_so_and_with_one_it_says_the_cost_first(
    folder: Path, memline_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["extract_quality", str(folder), "--model"])
    assert extract_quality.main() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] is None
    assert "no model is configured" in told["model_not_run"]
    monkeypatch.setenv("MEMLINE_OPENAI_API_KEY", "test")
    monkeypatch.setenv("MEMLINE_OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert extract_quality.main() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] is None
    assert "Nothing was asked yet" in told["model_not_run"]
    assert "1185 calls" in told["model_not_run"]
