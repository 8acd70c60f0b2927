"""Turns of the reconciler: one process at a time, each when it is due, in workers and in the engine."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline import Memory
from memline.compose import House
from memline.contracts.errors import ServiceUnavailable
from memline.ledger.counters import read_counters
from memline.ledger.reconciling import end_turn, is_turn_due, take_turn
from memline.ledger.schema import outbox
from memline.outbox.verify import verify
from memline.search.index.embedded_tables import tables_of
from memline.settings import load_settings
from memline.workers import engine
from memline.workers.reconcile_loop import ReconcileTurns
from tests.integration.outbox.stores import Stores, equal, fill, in_index, open_stores
from tests.parts import table


@pytest.fixture
def stores(ledger_url: str, tmp_path: Path) -> Iterator[Stores]:
    with open_stores(ledger_url, tmp_path / "index.db") as filled:
        fill(filled)
        yield filled


def turns(stores: Stores, holder: str) -> ReconcileTurns:
    """A process that has been there for a while."""
    found = ReconcileTurns(stores.reconciler, stores.ledger, stores.clock, holder, every=900, budget=60)
    assert found.run_once() == 0
    return found


def lose(stores: Stores) -> None:
    in_index(stores, "DELETE FROM index_objects")


def repaired(stores: Stores) -> int:
    stores.relay.drain()
    with stores.ledger.read() as connection:
        return read_counters(connection)["drift_repaired"]


def test_a_turn_repairs_and_says_so_without_a_name_or_text(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    lose(stores)
    with caplog.at_level(logging.WARNING, "memline.reconcile"):
        turns(stores, "one").run_once()
    assert [record.getMessage() for record in caplog.records] == ["reconcile: 11 missing"]
    assert repaired(stores) == 11
    assert equal(stores)


def test_the_first_look_of_a_process_begins_nothing(stores: Stores) -> None:
    lose(stores)
    ReconcileTurns(stores.reconciler, stores.ledger, stores.clock, "one", every=900, budget=60).run_once()
    assert repaired(stores) == 0


def test_the_next_turn_is_due_after_the_period_whoever_takes_it(stores: Stores) -> None:
    one, two = turns(stores, "one"), turns(stores, "two")
    one.run_once()
    lose(stores)
    two.run_once()
    stores.clock.advance(899)
    one.run_once()
    assert repaired(stores) == 0
    stores.clock.advance(1)
    two.run_once()
    assert repaired(stores) == 11


def test_one_process_has_the_turn_until_it_ends_or_its_time_is_over(stores: Stores) -> None:
    now = stores.clock.now()
    with stores.ledger.write() as tx:
        assert is_turn_due(tx, now=now)
        assert take_turn(tx, "dead", now=now, seconds=180)
        assert not take_turn(tx, "other", now=now, seconds=180)
        end_turn(tx, "other", next_at=now)  # it has no turn to give back
        assert not is_turn_due(tx, now=now)
    lose(stores)
    later = turns(stores, "later")
    stores.clock.advance(179)
    later.run_once()
    assert repaired(stores) == 0
    stores.clock.advance(1)
    later.run_once()
    assert repaired(stores) == 11


def test_a_turn_that_meets_an_outage_gives_the_turn_back(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_arguments: object, **_options: object) -> None:
        raise ServiceUnavailable("The index does not answer.")

    monkeypatch.setattr(stores.index, "walk", away)
    mine = turns(stores, "one")
    with pytest.raises(ServiceUnavailable):
        mine.run_once()
    monkeypatch.undo()
    lose(stores)
    stores.clock.advance(900)
    mine.run_once()
    assert repaired(stores) == 11


def test_a_process_that_is_stopped_takes_no_turn(stores: Stores) -> None:
    lose(stores)
    mine = turns(stores, "one")
    mine.stop()
    mine.run_once()
    assert repaired(stores) == 0


def test_an_engine_repairs_its_index_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LOOK_EVERY", 0.05)
    settings = load_settings(home=tmp_path, embedder="tests.unit.cli.parts:Tiny", reconcile_every=0.05)
    with Memory(settings=settings) as memory:
        memory.add("I bought a lamp.", user_id="ann", infer=False, wait=True)
        house = memory._house
        with house.ledger.write() as tx:
            tx.execute(sa.delete(tables_of(house.index.space).objects))
        deadline = time.monotonic() + 300
        while not (house.index.look(list(_keys(house))) and verify(house.ledger, house.index, deep=True).sound):
            assert time.monotonic() < deadline, "it was not repaired in 300 s"
            time.sleep(0.02)


def test_a_period_of_0_switches_it_off(tmp_path: Path) -> None:
    assert House(load_settings(home=tmp_path, reconcile_every=0)).reconcile_turns() is None


def test_an_index_that_is_new_beside_an_old_ledger_is_filled_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = load_settings(home=tmp_path, embedder="tests.unit.cli.parts:Tiny", reconcile_every=0)  # it would fill the index, too
    with Memory(settings=settings) as memory:
        memory.add("I bought a lamp.", user_id="ann", infer=False, wait=True)
        memory._house.index.drop()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "memline"), Memory(settings=settings) as memory:
        house = memory._house
        assert house.index.namespaces() == []
        (waiting,) = table(house.ledger, outbox)
        house.relay.drain()
        assert [key.id for key in house.index.look(list(_keys(house)))] == [waiting.object_id]
        assert verify(house.ledger, house.index, deep=True).sound
    assert [record.getMessage() for record in caplog.records] == [
        "The index was empty and the ledger is not: 1 objects were written to the outbox and are on their way."
    ]


def _keys(house: House) -> Iterator[object]:
    from memline.contracts.index_object import ObjectKey
    from memline.ledger.memories import should_be_indexed

    with house.ledger.read() as connection:
        for object_id in should_be_indexed(connection, "memory", "default", after="", limit=10):
            yield ObjectKey("memory", "default", object_id)
