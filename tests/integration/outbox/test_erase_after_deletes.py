"""An erasure after deletions whose traces are still on their way: names that the index has yet to forget, turns that are cancelled."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.scope import Scope, Subject
from memline.ledger.counters import read_counters
from memline.ledger.delete_all import delete_all
from memline.ledger.erase import begin
from memline.ledger.locks import lock_key, lock_one_of
from memline.ledger.meta import check_embedder
from memline.ledger.outbox import claim_outbox
from memline.ledger.retire import delete_memory
from memline.ledger.schema import memories, outbox
from memline.ledger.session import Ledger
from memline.outbox.verify import verify
from memline.pipeline.parts import Parts
from tests.integration.outbox.erasing import ANN, SECRET, eraser, say
from tests.parts import HandClock, MemoryIndex, accept, make_parts, make_relay, make_turn, run_all, table


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    found = make_parts(ledger)
    with ledger.write() as tx:
        check_embedder(tx, found.embedder.model, found.embedder.dimension)
    return found


def _index(parts: Parts) -> MemoryIndex:
    assert isinstance(parts.index, MemoryIndex)
    return parts.index


def _delete(parts: Parts, user: str) -> None:
    for row in table(parts.ledger, memories, memories.c.user_id == user, memories.c.state == "live"):
        delete_memory(parts.ledger, "default", row.id, now=parts.clock.now())


def test_a_name_that_went_before_the_erasure_is_in_no_index_after_it(parts: Parts, tmp_path: Path) -> None:
    say(parts, f"Anna{SECRET} keeps it")
    say(parts, "this is Anna", user="bob")
    _delete(parts, ANN.value)
    with parts.ledger.write() as tx:  # a row that was set aside tells of it all the same
        tx.execute(sa.update(outbox).values(parked=True))
    certificate = eraser(parts, tmp_path).erase(ANN)
    assert certificate["proof"]["sound"]
    assert {found.user_id for found in _index(parts).objects.values()} == {"bob"} and len(_index(parts).objects) == 2
    assert table(parts.ledger, outbox) == []
    assert verify(parts.ledger, parts.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}


def test_a_relay_that_has_such_a_name_is_waited_for(parts: Parts, tmp_path: Path) -> None:
    say(parts, f"Anna{SECRET} keeps it")
    _delete(parts, ANN.value)
    with parts.ledger.write() as tx:
        assert claim_outbox(tx, lease="a relay that died", seconds=20, limit=10, now=parts.clock.now())
    assert isinstance(parts.clock, HandClock)
    began = parts.clock.now()
    eraser(parts, tmp_path).erase(ANN)
    assert (parts.clock.now() - began).total_seconds() >= 20
    assert _index(parts).objects == {} and table(parts.ledger, outbox) == []


def test_a_name_of_others_that_comes_back_meanwhile_stays_theirs(parts: Parts, tmp_path: Path) -> None:
    say(parts, "one")
    say(parts, "this is Anna", user="bob")
    _delete(parts, "bob")

    def back(writes: object) -> None:
        if not table(parts.ledger, memories, memories.c.user_id == "bob", memories.c.state == "live"):
            accept(parts, make_turn("back is Anna", user="bob"))
            run_all(parts)

    _index(parts).during = back
    eraser(parts, tmp_path).erase(ANN)
    _index(parts).during = None
    make_relay(parts, ids="later").drain()
    assert {found.user_id for found in _index(parts).objects.values()} == {"bob"}
    assert verify(parts.ledger, parts.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}


def test_what_another_erasure_left_in_the_index_when_it_was_stopped_is_removed_for_both(parts: Parts, tmp_path: Path) -> None:
    say(parts, f"Anna{SECRET} keeps it", agent="helper")
    _index(parts).away = True
    with pytest.raises(ServiceUnavailable):
        eraser(parts, tmp_path).erase(Subject("default", "agent", "helper"))
    _index(parts).away = False
    assert len(_index(parts).objects) == 2
    assert eraser(parts, tmp_path).erase(ANN)["proof"]["sound"]
    assert _index(parts).objects == {}
    (certificate,) = eraser(parts, tmp_path).resume("default")
    assert certificate["proof"]["sound"] and table(parts.ledger, outbox) == []


def test_an_index_that_refuses_a_name_leaves_its_row_to_the_relay(parts: Parts, tmp_path: Path) -> None:
    say(parts, f"Anna{SECRET} keeps it")
    _delete(parts, ANN.value)
    _index(parts).away = True
    with pytest.raises(ServiceUnavailable):
        eraser(parts, tmp_path).erase(ANN)
    _index(parts).away = False
    assert all(row.lease is None for row in table(parts.ledger, outbox))
    (certificate,) = eraser(parts, tmp_path).resume("default")
    assert certificate["proof"]["sound"] and _index(parts).objects == {}


def test_a_turn_that_delete_all_cancelled_is_not_counted_again(parts: Parts, tmp_path: Path) -> None:
    accept(parts, make_turn("it waits", user=ANN.value))
    assert delete_all(parts.ledger, Scope("default", ANN.value), now=parts.clock.now()).cancelled == 1
    eraser(parts, tmp_path).erase(ANN)
    with parts.ledger.read() as connection:
        assert read_counters(connection)["turns_cancelled"] == 1


def test_a_reset_and_an_erasure_of_one_namespace_wait_for_each_other(parts: Parts) -> None:
    if parts.ledger.is_sqlite:
        pytest.skip("SQLite has one writer")
    whole = Subject("default", "namespace", "default")
    stone = begin(parts.ledger, ANN, id="e1", hash="h", key_id="k", place="0", now=parts.clock.now())
    with parts.ledger.write() as erasing, parts.ledger.engine.connect() as other:
        lock_key(erasing, stone.subject, namespace=stone.namespace)
        other.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(sa.exc.DBAPIError):
            lock_one_of(other, whole, ())
