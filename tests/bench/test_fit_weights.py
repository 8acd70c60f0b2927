"""The fitting script: weights near those in use, for questions of a ledger, in the form that a namespace takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.fit_weights import PENALTIES, Asked, calibrated, fit, fit_near, main, measure, row_of
from memline import Memory
from memline.search.namespace_weights import weights_from_json
from memline.search.score import contributions, scores
from memline.search.signals import SIGNALS
from memline.search.weights import DEFAULT
from memline.settings import load_settings

COLUMN = {name: column for column, name in enumerate(SIGNALS)}


def asked(number: int, speaks: str, *, seed: int = 1) -> list[Asked]:
    """Questions with 20 candidates each, of which the one that is wanted has most of signal *speaks* and nothing else of its own."""
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        signals = chance.random((20, len(SIGNALS)))
        wanted = np.arange(20) == chance.integers(20)
        signals[:, COLUMN[speaks]] = np.where(wanted, 0.9, 0.4)
        found.append(Asked("talk", signals, wanted, 1))
    return found


def test_a_fit_finds_the_signal_that_speaks_for_the_evidence() -> None:
    questions = asked(60, "meaning")
    weights = fit(questions)
    assert weights[COLUMN["meaning"]] == weights.max()
    assert measure(questions, weights)[0] == 100
    for name, weight in zip(SIGNALS, weights, strict=True):
        assert weight <= 0 if name in PENALTIES else weight >= 0


def test_a_signal_that_is_left_out_weighs_nothing() -> None:
    assert fit(asked(20, "words"), without=frozenset({"words"}))[COLUMN["words"]] == 0


def test_few_questions_move_the_weights_less_than_many() -> None:
    start = row_of(DEFAULT)
    few, many = fit_near(asked(2, "coverage"), start), fit_near(asked(200, "coverage"), start)
    assert start[COLUMN["coverage"]] < few[COLUMN["coverage"]] < many[COLUMN["coverage"]]


def test_what_nothing_speaks_for_scores_under_the_default_threshold_and_most_evidence_high() -> None:
    questions = asked(40, "meaning")
    weights = calibrated(questions, row_of(DEFAULT))
    evidence = np.concatenate([question.signals[question.wanted] for question in questions])
    assert scores(contributions(np.zeros((1, len(SIGNALS))), weights), weights)[0] == pytest.approx(0.09)
    assert np.median(scores(contributions(evidence, weights), weights)) == pytest.approx(0.8, abs=0.01)


def test_questions_of_a_ledger_give_weights_that_a_namespace_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "Our dog is called Poppy": "the name of the dog",
        "The car stands in row B2-117": "B2-117",
        "Ann plays the cello": "an instrument",
    }
    with Memory(settings=load_settings(home=tmp_path / "home")) as memory:
        for text in texts:
            memory.add(text, user_id="ann", infer=False)
        memory.flush(120)
        ids = {item["memory"]: item["id"] for item in memory.get_all(filters={"user_id": "ann"})["results"]}
    file = tmp_path / "questions.jsonl"
    lines = [{"query": query, "wanted": ids[text], "filters": {"user_id": "ann"}} for text, query in texts.items()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ["fit_weights", "--questions", str(file), "--home", str(tmp_path / "home")]
    monkeypatch.setattr(sys, "argv", command)
    main()
    told = capsys.readouterr()
    assert weights_from_json(json.loads(told.out)).signals.keys() == set(SIGNALS)
    assert "3 questions" in told.err
    file.write_text('{"query": "dog"}\n')
    with pytest.raises(SystemExit, match="Line 1"):
        main()
