"""How often one search asks the ledger and the index: a bound, whatever the scope holds (see `memline.search.gather`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memline.ledger import postings as postings_module
from memline.ledger.session import Ledger
from memline.search import gather as gather_module
from memline.search.gather import MOST_STATEMENTS, STATEMENTS_A_ROUND
from memline.search.index.embedded import EmbeddedIndex
from tests.integration.search.world import World, standing, statements
from tests.parts import START

ASKED = "When did Poppy drink tea in cup 7"


class CountingIndex(EmbeddedIndex):
    """The embedded index, with the calls that searches make. *elsewhere*: its words leg is its own, as a remote index' is."""

    elsewhere = False

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.calls: list[str] = []

    @property
    def ranks_by_ledger(self) -> bool:
        return not self.elsewhere

    def nearest(self, *given: Any, **options: Any) -> Any:
        self.calls.append("nearest")
        return super().nearest(*given, **options)

    def nearest_any(self, *given: Any, **options: Any) -> Any:
        self.calls.append("nearest_any")
        return super().nearest_any(*given, **options)

    def matching(self, *given: Any, **options: Any) -> Any:
        self.calls.append("matching")
        return super().matching(*given, **options)


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    found = World(ledger, tmp_path)
    found.index = CountingIndex(found.store, ledger)
    found.searcher = found.search_with(timer=standing)  # weights that were read are read again when they are some seconds old
    return found


def asked(world: World, query: str = ASKED, filters: dict[str, Any] | None = None, **options: Any) -> tuple[int, list[str]]:
    """Statements and calls of the index of a search that finds warm caches."""
    index = world.index
    assert isinstance(index, CountingIndex)
    world.find(query, filters, **options)
    index.calls.clear()
    with statements(world.ledger, world.store) as found:
        world.find(query, filters, **options)
    return len(found), list(index.calls)


def cups(world: World, number: int, **options: Any) -> None:
    world.say_all([f"Yesterday Poppy drank tea in cup {n} of Fabrikam" for n in range(number)], **options)


def test_a_small_scope_takes_few(world: World) -> None:
    cups(world, 5)
    number, calls = asked(world)
    assert number <= 14
    assert calls == ["nearest", "nearest_any"]


def test_a_large_scope_takes_hardly_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cups(world, 5)
    few, _ = asked(world)
    monkeypatch.setattr(postings_module, "WHOLE", 0)
    for part in range(4):
        cups(world, 100, run=f"r{part}")
    many, calls = asked(world)
    assert many <= few + 2 <= MOST_STATEMENTS
    assert calls == ["nearest", "nearest_any"]


@pytest.mark.parametrize("options", [{}, {"as_of": START, "show_expired": True}])
def test_legs_that_go_all_the_way_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    """Three hundred expired rows stand before one that may be read: every round is gone."""
    monkeypatch.setattr(gather_module, "LEAST_DEPTH", 4)
    monkeypatch.setattr(postings_module, "WHOLE", 0)
    cups(world, 300, expires_on=START.date())
    world.clock.advance(3 * 86400)
    number, calls = asked(world, top_k=1, **options)
    assert number <= MOST_STATEMENTS + gather_module.ROUNDS * STATEMENTS_A_ROUND
    if not options:
        assert calls == ["nearest", "nearest_any"] + ["nearest"] * gather_module.ROUNDS


def test_an_index_elsewhere_is_asked_three_times_and_twice_a_further_round(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(world.index, CountingIndex)
    world.index.elsewhere = True
    monkeypatch.setattr(gather_module, "LEAST_DEPTH", 4)
    cups(world, 300, expires_on=START.date())
    world.clock.advance(3 * 86400)
    _, calls = asked(world, top_k=1)
    assert calls == ["nearest", "matching", "nearest_any"] + ["nearest", "matching"] * gather_module.ROUNDS


@pytest.mark.parametrize("first", [5_000, 3])
def test_a_filter_is_within_the_bound(world: World, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Also where the ledger is asked first, in vain."""
    monkeypatch.setattr(gather_module, "ASKED_FIRST", first)
    cups(world, 20, metadata={"colour": "green"})
    cups(world, 10, user="bob")
    number, calls = asked(world, filters={"user_id": "ann", "colour": "green"})
    assert number <= MOST_STATEMENTS
    assert calls == ([] if first > 20 else ["nearest", "nearest_any"])


def test_a_page_of_text_and_many_names_are_within_the_bound(world: World) -> None:
    cups(world, 20)
    page = "When did Poppy and Fabrikam and Contoso meet " + " ".join(f"Word{n} thing{n}" for n in range(400))
    number, calls = asked(world, page)
    assert number <= MOST_STATEMENTS
    assert calls == ["nearest", "nearest_any"]


def test_a_run_is_within_the_bound_and_the_words_leg_of_a_round(world: World) -> None:
    cups(world, 20, run="r1")
    cups(world, 20, run="r2")
    number, _ = asked(world, filters={"user_id": "ann", "run_id": "r1"})
    assert number <= MOST_STATEMENTS + 5


def test_each_further_scope_costs_three(world: World) -> None:
    """Its owners, its vectors, its entities."""
    for user in ("ann", "bob", "cyd"):
        cups(world, 5, user=user)
    one, _ = asked(world)
    three, calls = asked(world, filters={"OR": [{"user_id": "ann"}, {"user_id": "bob"}, {"user_id": "cyd"}]})
    assert three <= one + 2 * 3 + 2  # and of several scopes the vectors of candidates are read from the ledger
    assert calls == ["nearest", "nearest_any"]
