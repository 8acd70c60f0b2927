"""Parts that are down, slow, or answer rubbish: an answer all the same, with the missing part named."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memline.contracts.errors import EmbedderMismatch, ProviderRefused, ProviderUnavailable
from memline.language.ports import Vectors
from memline.ledger.session import Ledger
from memline.search.weights import DEFAULT
from tests.integration.search.world import AwayIndex, World
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
        hold.wait(30)

    searcher = world.search_with(embedder=TrigramEmbedder(paid=True, fail=hang), deadline=0.2)
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
    ticks = iter(range(10_000))
    searcher = world.search_with(deadline=0.5, timer=lambda: float(next(ticks)))
    found = world.find("green tea", searcher=searcher)
    assert found.results[0].row.text == "User likes green tea"


def test_weights_can_be_given(world: World) -> None:
    from dataclasses import replace

    mute = replace(DEFAULT, signals=dict.fromkeys(DEFAULT.signals, 0.0), middle=0.0)
    found = world.find("tea", searcher=world.search_with(weights=mute), threshold=0)
    assert {hit.score for hit in found.results} == {0.5}
