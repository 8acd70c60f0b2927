"""Weights of a namespace: kept in the ledger, found by searches that run, named in what they return."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from memline.ledger.namespace_options import WEIGHTS, clear_option, option_of, set_option
from memline.ledger.session import Ledger
from memline.search.namespace_weights import FRESH_FOR, NamespaceWeights, weights_from_json, weights_to_json
from memline.search.signals import SIGNALS
from memline.search.weights import DEFAULT
from tests.integration.search.world import World, statements
from tests.parts import START

ONLY_WORDS = {"signals": dict.fromkeys(SIGNALS, 0.0) | {"words": 2.0}, "middle": 1.0, "slope": 1.0}


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    return World(ledger, tmp_path)


class Timer:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def put(ledger: Ledger, value: object, namespace: str = "default") -> None:
    with ledger.write() as tx:
        set_option(tx, namespace, WEIGHTS, value, now=START)


def test_an_option_is_set_replaced_and_cleared(ledger: Ledger) -> None:
    with ledger.write() as tx:
        set_option(tx, "a", "colour", {"x": [1, None]}, now=START)
        set_option(tx, "a", "colour", {"x": 2.5}, now=START)
        set_option(tx, "b", "colour", "red", now=START)
    with ledger.read() as connection:
        found = option_of(connection, "a", "colour")
        assert found is not None and (found.value, found.set_at) == ({"x": 2.5}, START)
        assert option_of(connection, "a", "size") is None
    with ledger.write() as tx:
        assert clear_option(tx, "a", "colour")
        assert not clear_option(tx, "a", "colour")
    with ledger.read() as connection:
        assert option_of(connection, "a", "colour") is None
        other = option_of(connection, "b", "colour")
        assert other is not None and other.value == "red"


def test_a_search_that_runs_uses_new_weights_without_a_restart_and_names_them(world: World) -> None:
    world.say_all(["User likes green tea", "User lives in Oslo"])
    timer = Timer()
    searcher = world.search_with(timer=timer)
    assert world.find("tea", searcher=searcher).weights == "default"
    put(world.ledger, ONLY_WORDS)
    assert world.find("tea", searcher=searcher).weights == "default"  # what was read is still fresh
    timer.now += FRESH_FOR
    found = world.find("tea", searcher=searcher, threshold=0)
    assert found.weights == "namespace"
    signals = found.results[0].signals
    assert signals["words"].weighted == pytest.approx(2.0 * signals["words"].raw)
    assert all(value.weighted == 0 for name, value in signals.items() if name != "words")
    with world.ledger.write() as tx:
        clear_option(tx, "default", WEIGHTS)
    timer.now += FRESH_FOR
    assert world.find("tea", searcher=searcher).weights == "default"


def test_weights_of_one_namespace_mean_nothing_to_another(world: World) -> None:
    world.say("User likes green tea", namespace="other")
    world.say("User likes green tea")
    put(world.ledger, ONLY_WORDS, namespace="other")
    assert world.find("tea", namespace="other").weights == "namespace"
    assert world.find("tea").weights == "default"


def test_fresh_weights_cost_no_statement(ledger: Ledger) -> None:
    timer = Timer()
    weights = NamespaceWeights(timer=timer)
    with ledger.read() as connection, statements(ledger) as found:
        for _ in range(5):
            assert weights.of(connection, "default").weights is DEFAULT
        assert len(found) == 1
        timer.now += FRESH_FOR
        weights.of(connection, "default")
        assert len(found) == 2


def test_stored_weights_that_do_not_fit_are_not_used_and_it_is_said_once(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    put(ledger, {"signals": {"luck": 1.0}})
    timer = Timer()
    weights = NamespaceWeights(timer=timer)
    with caplog.at_level(logging.WARNING), ledger.read() as connection:
        for _ in range(3):
            assert weights.of(connection, "default").source == "default"
            timer.now += FRESH_FOR
    said = [record.message for record in caplog.records if "weights of namespace" in record.message]
    assert [message.count("luck") for message in said] == [1]


def test_weights_go_to_json_and_back() -> None:
    assert weights_from_json(weights_to_json(DEFAULT)) == DEFAULT
    assert weights_from_json({}) == DEFAULT
    assert weights_from_json(ONLY_WORDS).signals["words"] == 2.0
