"""Parts that are down, slow, or answer rubbish: an answer all the same, with the missing part named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memline.contracts.errors import EmbedderMismatch, ProviderRefused, ProviderUnavailable, ServiceUnavailable
from memline.language.ports import Vectors
from memline.ledger.session import Ledger
from memline.search.guard import REST
from memline.search.index.embedded import EmbeddedIndex
from memline.search.index.port import Nominee
from memline.search.results import SearchResult
from memline.search.weights import DEFAULT
from tests.integration.search.world import AwayIndex, World, standing
from tests.parts import TrigramEmbedder

SAID = ["User likes green tea", "User works at Fabrikam", "Ticket INC-48213 was escalated", "User has a dog named Poppy"]


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    found = World(ledger, tmp_path)
    found.say_all(SAID)
    return found


def failing(error: Exception) -> TrigramEmbedder:
    def fail(_texts: Sequence[str]) -> None:
        raise error

    return TrigramEmbedder(fail=fail)


@pytest.mark.parametrize("error", [ProviderUnavailable(), ProviderRefused()])
def test_without_the_embedder_words_and_entities_remain(world: World, error: Exception) -> None:
    found = world.find("Where is Fabrikam", searcher=world.search_with(embedder=failing(error)))
    assert found.results[0].row.text == "User works at Fabrikam"
    assert found.results[0].entities == ("fabrikam",)
    assert found.missing == ("embedder",)
    assert all(hit.signals["meaning"].weighted == 0 and "vector" not in hit.ranks for hit in found.results)


def test_an_error_of_the_programmer_is_not_taken_for_an_embedder_that_is_down(world: World) -> None:
    with pytest.raises(KeyError):
        world.find("tea", searcher=world.search_with(embedder=failing(KeyError("bug"))))


class Rubbish(TrigramEmbedder):
    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.full(self._answer[0], self._answer[1], np.float32)


@pytest.mark.parametrize("answer", [((0, 64), 1.0), ((1, 3), 1.0), ((64,), 1.0), ((1, 64), float("nan")), ((1, 64), float("inf"))])
def test_rubbish_from_the_embedder_is_no_vector(world: World, answer: Any) -> None:
    found = world.find("green tea", searcher=world.search_with(embedder=Rubbish(answer)))
    assert found.results[0].row.text == "User likes green tea" and found.missing == ("embedder",)


def test_an_embedder_that_hangs_is_waited_for_until_the_deadline(world: World) -> None:
    hold = threading.Event()

    def hang(_texts: Sequence[str]) -> None:
        hold.wait(300)

    searcher = world.hurried(embedder=TrigramEmbedder(paid=True, fail=hang))
    found = world.find("green tea", searcher=searcher)
    hold.set()
    assert found.results[0].row.text == "User likes green tea" and found.missing == ("embedder",)


def test_a_paid_embedder_that_answers_is_used(world: World) -> None:
    found = world.find("green tea", searcher=world.search_with(embedder=TrigramEmbedder(paid=True)))
    assert found.missing == () and found.results[0].signals["meaning"].raw > 0.3


def test_without_the_index_the_ledger_finds_the_same(world: World) -> None:
    for question in ("Where does the user work, at Fabrikam?", "INC-48213", "green tea"):
        whole = world.find(question, threshold=0)
        found = world.find(question, threshold=0, searcher=world.search_with(index=AwayIndex(world.index)))
        assert found.missing == ("index",)
        assert [hit.row.id for hit in found.results] == [hit.row.id for hit in whole.results]


@pytest.mark.parametrize("only", ["nearest", "matching"])
def test_an_index_that_answers_one_question_of_two_is_replaced_for_the_other(world: World, only: str) -> None:
    found = world.find("green tea", searcher=world.search_with(index=AwayIndex(world.index, only)))
    assert found.results[0].row.text == "User likes green tea" and found.missing == ("index",)


def test_with_embedder_and_index_down_words_remain(world: World) -> None:
    searcher = world.search_with(embedder=failing(ProviderUnavailable()), index=AwayIndex(world.index))
    found = world.find("INC-48213", searcher=searcher)
    assert found.results[0].row.text == "Ticket INC-48213 was escalated" and found.missing == ("embedder", "index")


def test_a_vector_of_another_dimension_is_told_and_not_compared(world: World) -> None:
    class Wider(TrigramEmbedder):
        dimension = 65

    with pytest.raises(EmbedderMismatch, match=r"64 dimensions.*65"):
        world.find("tea", searcher=world.search_with(embedder=Wider()))


def test_after_the_deadline_no_leg_goes_deeper(world: World) -> None:
    ticks = iter(range(0, 10_000_000, 1_000))
    searcher = world.search_with(deadline=500.0, timer=lambda: float(next(ticks)))
    found = world.find("green tea", searcher=searcher)
    assert found.results[0].row.text == "User likes green tea"


def test_weights_can_be_given(world: World) -> None:
    from dataclasses import replace

    mute = replace(DEFAULT, signals=dict.fromkeys(DEFAULT.signals, 0.0), middle=0.0)
    found = world.find("tea", searcher=world.search_with(weights=mute), threshold=0)
    assert {hit.score for hit in found.results} == {0.5}


class RemoteIndex(EmbeddedIndex):
    """The embedded index as if it were on another machine, whose every answer passes *change*, which may hang, raise, or falsify it."""

    remote = True  # type: ignore[assignment]

    def __init__(self, world: World, change: Callable[[Any], Any]) -> None:
        super().__init__(world.store, world.ledger, space=world.index.space)
        self.change = change
        self.asked = 0

    def _changed(self, answer: Any) -> Any:
        self.asked += 1
        return self.change(answer)

    def nearest(self, *given: Any, **options: Any) -> Any:
        return self._changed(super().nearest(*given, **options))

    def nearest_any(self, *given: Any, **options: Any) -> Any:
        return self._changed(super().nearest_any(*given, **options))

    def matching(self, *given: Any, **options: Any) -> Any:
        return self._changed(super().matching(*given, **options))


def away(_answer: Any) -> Any:
    raise ServiceUnavailable("The index said that it is closing.")


def same(found: SearchResult, whole: SearchResult) -> bool:
    """The same results with the same scores."""
    return [(hit.row.id, round(hit.score, 6)) for hit in found.results] == [(hit.row.id, round(hit.score, 6)) for hit in whole.results]


QUESTIONS = ("Where does the user work, at Fabrikam?", "INC-48213", "green tea")


def test_a_remote_index_that_answers_is_used(world: World) -> None:
    index = RemoteIndex(world, lambda answer: answer)
    searcher = world.search_with(index=index)
    for question in QUESTIONS:
        found = world.find(question, threshold=0, searcher=searcher)
        assert found.missing == () and same(found, world.find(question, threshold=0))
    assert index.asked > 3


def test_a_remote_index_that_hangs_costs_its_share_once(world: World) -> None:
    over, asked = threading.Event(), threading.Event()

    def hang(answer: Any) -> Any:
        asked.set()
        over.wait(300)
        return answer

    index = RemoteIndex(world, hang)
    searcher = world.hurried(index=index, timer=standing)
    try:
        for question in (*QUESTIONS, *QUESTIONS):
            found = world.find(question, threshold=0, searcher=searcher)
            assert found.missing == ("index",) and same(found, world.find(question, threshold=0))
    finally:
        over.set()
    assert asked.wait(120) and index.asked == 1
    assert "did not answer" in found.warnings[0] and "ledger" in found.warnings[0]


def test_a_remote_index_that_is_back_is_asked_again_after_its_rest(world: World) -> None:
    now = [100.0]
    index = RemoteIndex(world, away)
    searcher = world.search_with(index=index, timer=lambda: now[0])
    assert world.find("green tea", searcher=searcher).missing == ("index",)
    index.change = lambda answer: answer
    assert world.find("green tea", searcher=searcher).missing == ("index",) and index.asked == 1
    now[0] += REST
    assert world.find("green tea", searcher=searcher).missing == ()


def test_searches_at_the_same_time_lose_so_many_threads_to_an_index_that_hangs_and_no_more(world: World) -> None:
    over = threading.Event()
    index = RemoteIndex(world, lambda answer: over.wait(300) and answer)
    searcher = world.hurried(index=index, timer=standing)
    found: list[SearchResult] = []
    threads = [threading.Thread(target=lambda: found.append(world.find("green tea", searcher=searcher))) for _ in range(12)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        for _ in range(20):
            found.append(world.find("green tea", searcher=searcher))
    finally:
        over.set()
    assert len(found) == 32 and all(each.missing == ("index",) and each.results for each in found)
    assert index.asked <= 12


@pytest.mark.parametrize(
    "change",
    [
        lambda _answer: None,
        lambda _answer: 3,
        lambda answer: [*answer, None],
        lambda answer: [(each.id, each.value) for each in answer] or [("x", 1.0)],
        lambda answer: [Nominee(each.id, float("nan")) for each in answer] or [Nominee("x", float("nan"))],
        lambda answer: [Nominee(each.id, None) for each in answer] or [Nominee("x", None)],  # type: ignore[arg-type]
        lambda answer: [Nominee(None, each.value) for each in answer] or [Nominee(None, 1.0)],  # type: ignore[arg-type]
        away,
    ],
    ids=["None", "number", "a hole", "pairs", "NaN", "no value", "no id", "away"],
)
def test_rubbish_from_the_index_is_an_index_that_is_down(world: World, change: Callable[[Any], Any]) -> None:
    searcher = world.search_with(index=RemoteIndex(world, change))
    found = world.find("green tea", threshold=0, searcher=searcher)
    assert found.missing == ("index",) and same(found, world.find("green tea", threshold=0))


def test_ids_that_are_unknown_anothers_or_twice_change_nothing(world: World) -> None:
    foreign = world.say("User bob likes green tea", user="bob") + world.say("User ann likes green tea too", namespace="other")
    lies = [*foreign, "no-such-memory", "", "' OR 1=1 --"]

    def falsified(answer: list[Nominee]) -> list[Nominee]:
        return [Nominee(memory_id, 1.0) for memory_id in lies] + [each for each in answer for _ in range(3)]

    searcher = world.search_with(index=RemoteIndex(world, falsified))
    for question in QUESTIONS:
        found = world.find(question, threshold=0, searcher=searcher)
        assert found.missing == () and same(found, world.find(question, threshold=0))


def test_without_meaning_the_weights_that_are_left_reach_as_far(world: World) -> None:
    found = world.find("INC-48213", explain=True, searcher=world.search_with(embedder=failing(ProviderUnavailable()))).results[0]
    whole = world.find("INC-48213", explain=True).results[0]
    assert found.signals["code"].weighted > whole.signals["code"].weighted > 0
    assert 0 < found.score <= 1


def test_what_was_wrong_is_told_with_each_missing_part(world: World) -> None:
    searcher = world.search_with(embedder=failing(ProviderUnavailable("The embedder is away.")), index=RemoteIndex(world, away))
    found = world.find("INC-48213", searcher=searcher)
    assert dict(zip(found.missing, found.warnings, strict=True)) == {
        "embedder": "The embedder is away. Nothing was found by meaning.",
        "index": "The index said that it is closing. The ledger was searched in its place.",
    }
