"""Chinese is found: questions of our own over Chinese and mixed facts, through the front door, with the local embedder and no model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memline import Memory
from memline.settings import load_settings

ASKED = json.loads((Path(__file__).parents[2] / "fixtures" / "chinese_questions.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Every fact as it was said, of one user."""
    with Memory(settings=load_settings(home=tmp_path_factory.mktemp("chinese"), search_deadline=240)) as opened:
        for name, text in ASKED["facts"].items():
            opened.add(text, user_id="zh", infer=False, metadata={"fact": name})
        opened.flush(300)
        yield opened


def test_there_are_enough_questions_and_each_wants_a_fact_that_is_there() -> None:
    assert len(ASKED["facts"]) >= 40 and len(ASKED["questions"]) >= 60
    assert {name for asked in ASKED["questions"] for name in asked["wanted"]} <= set(ASKED["facts"])


def test_of_a_hundred_questions_95_find_their_fact_among_the_first_three(memory: Memory) -> None:
    missed = []
    for asked in ASKED["questions"]:
        found = memory.search(asked["query"], filters={"user_id": "zh"}, top_k=3, threshold=0)["results"]
        if not set(asked["wanted"]) & {item["metadata"]["fact"] for item in found}:
            missed.append(asked["query"])
    assert len(missed) <= 0.05 * len(ASKED["questions"]), missed


def test_words_alone_find_what_shares_a_word_with_the_question(memory: Memory) -> None:
    (best, *_) = memory.search("火锅", filters={"user_id": "zh"}, top_k=3, explain=True)["results"]
    assert best["metadata"]["fact"] == "hotpot" and best["score_details"]["bm25_score"] > 0
