"""Reranking: over more than are wanted, beside the score and not in its place, and never at the answer's cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from memline import Memory
from memline.contracts.errors import ConfigurationError, InvalidInput, ProviderRefused, ProviderUnavailable
from memline.ledger.session import Ledger
from memline.search.rerank.http import HttpReranker
from memline.search.results import SearchResult
from memline.search.searcher import Searcher
from tests.integration.search.world import HURRIED, PATIENT, World, standing
from tests.unit.language.server import Reply, serving

SAID = [f"User likes tea number {n}" for n in range(12)]


class ByNumber:
    """Puts the largest number first; *only*: names no more than so many. *instead*: answers that, or raises it."""

    name = "by-number"

    def __init__(self, only: int = 1000, instead: Any = None) -> None:
        self.only, self.instead = only, instead
        self.asked: list[tuple[str, list[str], float]] = []

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> Mapping[int, float]:
        self.asked.append((query, list(documents), timeout))
        if isinstance(self.instead, Exception):
            raise self.instead
        if self.instead is not None:
            return self.instead(len(documents))  # type: ignore[no-any-return]
        numbers = {place: float(text.split()[-1]) for place, text in enumerate(documents)}
        best = sorted(numbers, key=lambda place: -numbers[place])[: self.only]
        return {place: numbers[place] for place in best}


@pytest.fixture
def world(own_ledger: Ledger, tmp_path: Path) -> World:
    found = World(own_ledger, tmp_path)
    found.say_all(SAID)
    return found


def with_reranker(world: World, reranker: Any, **given: Any) -> Searcher:
    return world.search_with(reranker=reranker, **given)


def texts(found: SearchResult) -> list[str]:
    return [hit.row.text for hit in found.results]


def test_the_order_is_the_rerankers_and_the_score_stays(world: World) -> None:
    reranker = ByNumber()
    plain = world.find("tea number 3", threshold=0, top_k=12)
    found = world.find("tea number 3", threshold=0, top_k=12, rerank=True, searcher=with_reranker(world, reranker))
    assert texts(found) == [f"User likes tea number {n}" for n in reversed(range(12))]
    assert [hit.rerank_score for hit in found.results] == [float(n) for n in reversed(range(12))]
    assert {hit.row.id: hit.score for hit in found.results} == {hit.row.id: hit.score for hit in plain.results}
    assert found.missing == () and found.warnings == ()
    ((query, documents, timeout),) = reranker.asked
    assert query == "tea number 3" and documents == texts(plain) and 0 < timeout <= PATIENT


def test_more_than_are_wanted_are_looked_at(world: World) -> None:
    """D24 of mem0: what only the reranker knows to be best is found behind the cut."""
    reranker = ByNumber()
    last = texts(world.find("tea number 3", threshold=0, top_k=12))[-1]
    assert last not in texts(world.find("tea number 3", threshold=0, top_k=2))

    class Last(ByNumber):
        def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> Mapping[int, float]:
            return {place: float(text == last) for place, text in enumerate(documents)}

    assert texts(world.find("tea number 3", threshold=0, top_k=2, rerank=True, searcher=with_reranker(world, Last())))[0] == last
    found = world.find("tea number 3", threshold=0, top_k=2, rerank=True, rerank_k=5, searcher=with_reranker(world, reranker))
    assert len(found.results) == 2 and len(reranker.asked[0][1]) == 5


def test_those_it_does_not_name_keep_their_order_behind(world: World) -> None:
    plain = texts(world.find("tea number 3", threshold=0, top_k=12))
    found = world.find("tea number 3", threshold=0, top_k=12, rerank=True, searcher=with_reranker(world, ByNumber(only=2)))
    named = ["User likes tea number 11", "User likes tea number 10"]
    assert texts(found) == [*named, *(text for text in plain if text not in named)]
    assert [hit.rerank_score for hit in found.results[:3]] == [11.0, 10.0, None]


def test_equal_scores_keep_the_order_of_the_search(world: World) -> None:
    same = with_reranker(world, ByNumber(instead=lambda count: dict.fromkeys(range(count), 0.5)))
    plain = world.find("tea number 3", threshold=0)
    assert texts(world.find("tea number 3", threshold=0, rerank=True, searcher=same)) == texts(plain)


def test_the_threshold_stays_one_of_scores(world: World) -> None:
    every = world.find("tea number 3", threshold=0, top_k=12).results
    found = world.find("tea number 3", threshold=every[3].score, rerank=True, searcher=with_reranker(world, ByNumber()))
    assert {hit.row.id for hit in found.results} == {hit.row.id for hit in every[:4]}


def test_nobody_is_asked_unless_it_is_wished_or_where_there_is_nothing(world: World) -> None:
    reranker = ByNumber()
    searcher = with_reranker(world, reranker)
    world.find("tea", searcher=searcher)
    assert world.find("tea", {"user_id": "nobody"}, rerank=True, searcher=searcher).results == []
    assert world.find("tea", top_k=0, rerank=True, searcher=searcher).results == []
    assert reranker.asked == []


def test_to_ask_for_one_that_is_not_there_is_an_error_that_says_what_to_set(world: World) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_RERANKER"):
        world.find("tea", rerank=True)
    with pytest.raises(InvalidInput, match="rerank_k"):
        world.find("tea", rerank=True, rerank_k=3, top_k=5, searcher=with_reranker(world, ByNumber()))


def test_a_text_is_cut_before_it_leaves(world: World) -> None:
    world.say("User likes tea " + "x" * 10_000 + " 99")
    reranker = ByNumber(instead=lambda count: dict.fromkeys(range(count), 0.5))
    world.find("tea " + "y" * 10_000, threshold=0, rerank=True, searcher=with_reranker(world, reranker))
    query, documents, _ = reranker.asked[0]
    assert len(query) == 4_000 and max(map(len, documents)) == 4_000


BAD: list[Any] = [
    ProviderUnavailable("The reranker is away."),
    ProviderRefused("The reranker said no."),
    ValueError("User likes tea number 3"),
    lambda _count: {},
    lambda _count: [0.5, 0.4],
    lambda _count: {0: float("nan")},
    lambda count: {count: 1.0},
    lambda _count: {"0": 1.0},
    lambda _count: {0: "1.0"},
]


@pytest.mark.parametrize("instead", BAD)
def test_failure_and_rubbish_give_the_searchs_own_order_and_a_warning(world: World, instead: Any) -> None:
    found = world.find("tea number 3", threshold=0, rerank=True, searcher=with_reranker(world, ByNumber(instead=instead)))
    assert texts(found) == texts(world.find("tea number 3", threshold=0))
    assert found.missing == ("reranker",) and len(found.warnings) == 1
    assert "own" in found.warnings[0] and "number 3" not in found.warnings[0]
    assert all(hit.rerank_score is None for hit in found.results)


def test_one_that_hangs_is_given_up_and_not_asked_by_the_next_search(world: World) -> None:
    over, asked = threading.Event(), threading.Event()

    class Hangs(ByNumber):
        def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> Mapping[int, float]:
            self.asked.append((query, list(documents), timeout))
            asked.set()
            over.wait(300)
            return {}

    reranker = Hangs()
    searcher = with_reranker(world, reranker, deadline=HURRIED, timer=standing)
    for _ in range(3):
        found = world.find("tea number 3", threshold=0, rerank=True, searcher=searcher)
        assert found.missing == ("reranker",) and len(found.results) == 12
    over.set()
    assert asked.wait(120) and len(reranker.asked) == 1


# Over real HTTP


@pytest.mark.parametrize(
    "answer",
    [
        lambda over: Reply({"results": []}, wait_for=over),
        lambda _over: Reply({"results": []}, cut=True),
        lambda _over: Reply({"results": [{"index": 99, "relevance_score": 1}]}),
        lambda _over: Reply(b"<html>", 502),
        lambda _over: Reply(b"<html>"),
    ],
    ids=["hangs", "cuts", "another's index", "bad gateway", "no JSON"],
)
def test_a_server_that_hangs_cuts_or_talks_rubbish_costs_the_order_and_no_more(
    world: World, answer: Callable[[threading.Event], Reply]
) -> None:
    over = threading.Event()
    with serving(lambda _path, _body: answer(over)) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank", "rank-1")
        found = world.find("tea number 3", threshold=0, rerank=True, searcher=with_reranker(world, reranker, deadline=HURRIED))
        over.set()
        reranker.close()
    assert len(found.results) == 12 and found.missing == ("reranker",)


# Through the front door


def test_memory_reranks_by_what_the_settings_name(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_path: str, body: dict[str, Any]) -> Reply:
        results = [{"index": place, "relevance_score": float("coffee" in text)} for place, text in enumerate(body["documents"])]
        return Reply({"results": results})

    with serving(answer) as server:
        monkeypatch.setenv("MEMLINE_RERANKER", "http")
        monkeypatch.setenv("MEMLINE_RERANK_URL", f"{server.base_url}/rerank")
        monkeypatch.setenv("MEMLINE_RERANK_MODEL", "rank-1")
        with Memory() as memory:
            for text in ("I like green tea", "I like black coffee"):
                memory.add(text, user_id="ann", infer=False, wait=True, timeout=240)
            asked: dict[str, Any] = {"filters": {"user_id": "ann"}, "threshold": 0}
            plain = memory.search("green tea", **asked)
            assert [item["memory"] for item in plain["results"]] == ["I like green tea", "I like black coffee"]
            assert server.requests == [] and "rerank_score" not in plain["results"][0]
            found = memory.search("green tea", rerank=True, explain=True, **asked)
    assert [(item["memory"], item["rerank_score"]) for item in found["results"]] == [
        ("I like black coffee", 1.0),
        ("I like green tea", 0.0),
    ]
    assert found["results"][0]["score"] < found["results"][1]["score"]
    assert found["models"]["reranker"] == "http/rank-1" and "rerank" in found["phases"]
    assert found["results"][0]["score_details"]["rerank_score"] == 1.0
    assert "missing" not in found and "warnings" not in found


def test_memory_says_what_the_reranker_lacked(memline_home: Path) -> None:
    with Memory(reranker=ByNumber(instead=ProviderUnavailable("The reranker is away."))) as memory:
        memory.add("I like tea", user_id="ann", infer=False, wait=True, timeout=240)
        found = memory.search("tea", filters={"user_id": "ann"}, rerank=True)
    assert len(found["results"]) == 1 and found["missing"] == ["reranker"]
    assert found["warnings"] == ["The reranker is away. The order is the search's own."]


def test_the_chat_model_reranks_where_the_setting_says_llm(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        assert path == "/v1/chat/completions"
        scores = '{"scores": [{"index": 0, "score": 1}, {"index": 1, "score": 8}]}'
        return Reply({"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": scores}}]})

    with serving(answer) as server:
        monkeypatch.setenv("MEMLINE_OPENAI_API_KEY", "none")
        monkeypatch.setenv("MEMLINE_OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("MEMLINE_EMBEDDER", "local")
        monkeypatch.setenv("MEMLINE_EXTRACTOR", "rules")
        monkeypatch.setenv("MEMLINE_RERANKER", "llm")
        with Memory() as memory:
            for text in ("I like green tea", "I like black coffee"):
                memory.add(text, user_id="ann", infer=False, wait=True, timeout=240)
            found = memory.search("green tea", filters={"user_id": "ann"}, threshold=0, rerank=True)
    assert [(item["memory"], item["rerank_score"]) for item in found["results"]] == [
        ("I like black coffee", 0.8),
        ("I like green tea", 0.1),
    ]
    assert len(server.requests) == 1


def test_settings_that_do_not_fit_are_told_at_once(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory() as memory, pytest.raises(ConfigurationError, match="MEMLINE_RERANKER"):
        memory.search("tea", filters={"user_id": "ann"}, rerank=True)
    with pytest.raises(ConfigurationError, match="rerank"):
        Memory(reranker=object())  # type: ignore[arg-type]
    monkeypatch.setenv("MEMLINE_RERANKER", "http")
    with pytest.raises(ConfigurationError, match="MEMLINE_RERANK_URL"):
        Memory()


def test_what_was_superseded_stays_behind_what_superseded_it(world: World) -> None:
    world.say("[work] User works at Contoso 99", occurred_at=world.day(1))
    world.say("[work] User works at Fabrikam 98", occurred_at=world.day(10))
    searcher = with_reranker(world, ByNumber())
    found = world.find("where does the user work", threshold=0, rerank=True, include_superseded=True, searcher=searcher)
    assert texts(found)[:2] == ["User works at Fabrikam 98", "User works at Contoso 99"]
    assert found.results[0].rerank_score == 98.0 and found.results[1].rerank_score == 99.0
