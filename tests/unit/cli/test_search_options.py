"""`memline search` with a reranker, with a limit of tokens, and with an explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


class LastFirst:
    """A reranker that turns the order round."""

    name = "last-first"

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> Mapping[int, float]:
        return {place: float(place) for place in range(len(documents))}


class Away(LastFirst):
    """One that breaks."""

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> Mapping[int, float]:
        raise RuntimeError("secret")


@pytest.fixture(autouse=True)
def boxes(light: object) -> None:
    for text in ("Box 12 is red", "Box 13 is blue " + "and very large " * 20):
        memline("add", text, "-u", "mei", "--no-infer")


def test_the_reranker_of_the_settings_puts_them_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [item["memory"] for item in memline_json("search", "red box 12", "-u", "mei")["results"]]
    monkeypatch.setenv("MEMLINE_RERANKER", "tests.unit.cli.test_search_options:LastFirst")
    found = memline_json("search", "red box 12", "-u", "mei", "--rerank")
    assert [item["memory"] for item in found["results"]] == plain[::-1]
    assert [item["rerank_score"] for item in found["results"]] == [1.0, 0.0]
    assert "/ 1.00" in memline("search", "red box 12", "-u", "mei", "--rerank").stdout


def test_one_that_breaks_is_a_note_and_none_at_all_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MEMLINE_RERANKER" in memline("search", "box", "-u", "mei", "--rerank", exit_code=1).stderr
    monkeypatch.setenv("MEMLINE_RERANKER", "tests.unit.cli.test_search_options:Away")
    shown = memline("search", "box", "-u", "mei", "--rerank")
    assert "RuntimeError" in shown.stderr and "secret" not in shown.output and "Box 12" in shown.stdout


def test_what_does_not_fit_is_told() -> None:
    assert memline_json("search", "box", "-u", "mei", "--max-tokens", "20")["left_out"]["count"] == 1
    shown = memline("search", "box", "-u", "mei", "--max-tokens", "20")
    assert "1 more did not fit" in shown.stderr and "Box 13" not in shown.stdout


def test_an_explanation_names_what_it_was_made_with() -> None:
    shown = memline("search", "box", "-u", "mei", "--explain").stderr
    assert "tiny-1" in shown and "weights" in shown and "nominate" in shown
