"""What an extraction is shown of what is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memline.contracts.scope import Scope
from memline.ledger.retire import delete_memory
from memline.ledger.session import Ledger
from memline.search.nearest import nearest_to
from tests.integration.search.world import AwayIndex, World

ANN = Scope("default", user_id="ann")


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    return World(ledger, tmp_path)


def near(world: World, text: str, scope: Scope = ANN, *, k: int = 10, away: bool = False) -> list[str]:
    index = AwayIndex(world.index) if away else world.index
    vectors, today = world.embedder.embed([text]), world.clock.now().date()
    rows = nearest_to(world.ledger, index, scope, vectors, model=world.embedder.model, k=k, today=today)  # type: ignore[arg-type]
    return [row.text for row in rows]


def test_the_nearest_come_first_and_no_more_than_were_asked_for(world: World) -> None:
    world.say_all(["User likes tea", "User works at Fabrikam", "User likes green tea"])
    assert near(world, "User likes tea", k=2) == ["User likes tea", "User likes green tea"]
    assert near(world, "User likes tea", k=0) == []


def test_they_are_the_owners_whatever_the_run_and_nobody_elses(world: World) -> None:
    world.say("User likes tea", run="r1")
    world.say("User likes tea with a1", agent="a1")
    world.say("User likes tea, says bob", user="bob")
    assert near(world, "User likes tea") == ["User likes tea"]
    assert near(world, "User likes tea", Scope("default", user_id="ann", run_id="r2")) == ["User likes tea"]
    assert near(world, "User likes tea", Scope("default", user_id="ann", agent_id="a1")) == ["User likes tea with a1"]
    assert near(world, "User likes tea", Scope("default", user_id="nobody")) == []


def test_what_is_past_or_gone_is_not_shown(world: World) -> None:
    world.say("[work] User works at Contoso", occurred_at=world.day(1))
    world.say("[work] User works at Fabrikam", occurred_at=world.day(2))
    (tea,) = world.say("User works on tea")
    world.say("User works until noon", expires_on=world.day(0).date())
    delete_memory(world.ledger, "default", tea, now=world.clock.now())
    world.clock.advance(2 * 86400)
    assert near(world, "User works at Contoso") == ["User works at Fabrikam"]


def test_what_the_lane_committed_and_the_index_does_not_show_yet_is_there(world: World) -> None:
    world.say("User moved to Oslo", relay=False)
    world.say("User moved to Bergen", relay=False, run="r1")
    assert near(world, "User moved") == ["User moved to Oslo"]
    world.relay.drain()
    assert set(near(world, "User moved")) == {"User moved to Oslo", "User moved to Bergen"}


def test_without_the_index_the_ledger_knows(world: World) -> None:
    world.say_all(["User likes tea", "User works at Fabrikam"])
    assert near(world, "User likes tea", away=True) == ["User likes tea", "User works at Fabrikam"]


def test_of_several_texts_the_nearest_counts(world: World) -> None:
    world.say_all(["User likes tea", "User works at Fabrikam", "zzz"])
    vectors = world.embedder.embed(["User works at Fabrikam", "User likes tea"])
    rows = nearest_to(world.ledger, world.index, ANN, vectors, model=world.embedder.model, k=2, today=world.clock.now().date())
    assert {row.text for row in rows} == {"User likes tea", "User works at Fabrikam"}
    assert nearest_to(world.ledger, world.index, ANN, np.empty((0, 64), np.float32), model="trigrams", today=world.clock.now().date()) == []
