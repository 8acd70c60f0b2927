"""The entity leg: which memories the names of a question lead to, and how much each name counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memline.ledger.session import Ledger
from memline.search import entity_leg as entity_leg_module
from memline.search import gather as gather_module
from tests.integration.search.world import World
from tests.parts import START


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    return World(ledger, tmp_path)


def strengths(world: World, query: str, filters: dict[str, Any] | None = None, **options: Any) -> dict[str, float]:
    """By text, how much the best match of a name counts."""
    found = world.find(query, filters, **({"threshold": 0, "top_k": 100} | options))
    return {hit.row.text: hit.signals["entity"].raw for hit in found.results}


def weighed(number: int) -> float:
    """What an exact name counts that *number* memories hold."""
    return 1 / (1 + 0.001 * (number - 1) ** 2)


def test_a_name_counts_less_the_more_memories_hold_it_by_the_square(world: World) -> None:
    world.say("I met Zorba")
    world.say_all([f"I met Quillfeather in room {letter}" for letter in "abcdefghijk"])
    assert strengths(world, "when was Zorba here")["I met Zorba"] == pytest.approx(weighed(1))
    assert strengths(world, "when was Quillfeather here")["I met Quillfeather in room c"] == pytest.approx(weighed(11))


def test_of_several_names_the_best_one_counts_and_not_the_sum(world: World) -> None:
    world.say("I met Zorba with Quillfeather")
    world.say("I met Quillfeather")
    found = strengths(world, "were Zorba and Quillfeather here")
    assert found["I met Zorba with Quillfeather"] == pytest.approx(weighed(1))
    assert found["I met Quillfeather"] == pytest.approx(weighed(2))


def test_eight_names_of_a_question_are_looked_for(world: World) -> None:
    names = ["Aachen", "Bruges", "Cordoba", "Dijon", "Esbjerg", "Fulda", "Gdansk", "Huelva", "Xylokastro"]
    world.say_all([f"I saw {name}" for name in names])
    found = strengths(world, "were we ever in " + " or ".join(names))
    assert found["I saw Huelva"] == pytest.approx(1.0)
    assert found["I saw Xylokastro"] < 0.9


def test_only_what_the_read_may_see_makes_a_name_common(world: World) -> None:
    """Neither other people's memories, nor other runs', nor what has expired or was deleted."""
    world.say("I met Zorba", run="r1")
    world.say_all([f"I met Zorba in room {letter}" for letter in "abcde"], user="bob")
    world.say_all([f"I met Zorba in house {letter}" for letter in "abcde"], run="r2")
    world.say_all([f"I met Zorba in car {letter}" for letter in "abcde"], run="r1", expires_on=START.date())
    world.clock.advance(3 * 86400)
    assert strengths(world, "was Zorba here", {"user_id": "ann", "run_id": "r1"}) == {"I met Zorba": pytest.approx(weighed(1))}
    assert strengths(world, "was Zorba here")["I met Zorba"] == pytest.approx(weighed(6))
    shown = strengths(world, "was Zorba here", {"user_id": "ann", "run_id": "r1"}, show_expired=True)
    assert shown["I met Zorba"] == pytest.approx(weighed(6))


@pytest.mark.parametrize("first", [5_000, 3])
def test_only_what_the_filter_lets_through_makes_a_name_common(world: World, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Whether the ledger is asked first, or the legs nominate."""
    monkeypatch.setattr(gather_module, "ASKED_FIRST", first)
    world.say_all([f"I met Zorba in room {letter}" for letter in "ab"], metadata={"colour": "green"})
    world.say_all([f"I met Zorba in house {letter}" for letter in "abcdefgh"], metadata={"colour": "red"})
    found = strengths(world, "was Zorba here", {"user_id": "ann", "colour": "green"})
    assert found == {f"I met Zorba in room {letter}": pytest.approx(weighed(2)) for letter in "ab"}
    assert strengths(world, "was Zorba here")["I met Zorba in room a"] == pytest.approx(weighed(10))


def test_a_name_that_everything_holds_leads_nowhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entity_leg_module, "MAX_LINKS", 5)
    world.say_all([f"I met Zorba in room {letter}" for letter in "abcdef"])
    assert set(strengths(world, "was Zorba here").values()) == {0.0}


def test_one_live_memory_is_found_behind_more_expired_ones_than_are_followed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entity_leg_module, "MAX_LINKS", 5)
    world.say_all([f"I met Zorba in room {letter}" for letter in "abcdefghij"], expires_on=START.date())
    world.say("I met Zorba in a garden")
    world.clock.advance(3 * 86400)
    assert strengths(world, "was Zorba here") == {"I met Zorba in a garden": pytest.approx(weighed(1))}


def test_the_most_similar_names_are_followed_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entity_leg_module, "MAX_LINKS", 3)
    world.say_all([f"I met Zorbas in room {letter}" for letter in "abc"])
    world.say_all([f"I met Zorba in house {letter}" for letter in "abc"])
    found = strengths(world, "was Zorba here")
    assert {text for text, value in found.items() if value} == {f"I met Zorba in house {letter}" for letter in "abc"}
