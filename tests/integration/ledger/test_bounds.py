"""A bound is compared in the transaction that writes, and a turn that another namespace has is not noted as lost."""

from __future__ import annotations

import pytest

from memline.contracts.errors import MemoryNotFound
from memline.contracts.filters import ScopeIds
from memline.ledger.memories import load_memory
from memline.ledger.receipts import note_lost
from memline.ledger.schema import counters, lost_turns, memories
from memline.ledger.session import Ledger
from memline.ledger.update import lock_memory
from tests.parts import START, accept, make_parts, make_turn, run_all, table


def test_an_update_compares_its_bound_again_under_the_locks(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("Ann likes tea"))
    run_all(parts)
    (row,) = table(ledger, memories)
    with ledger.write() as tx:
        found = load_memory(tx, "default", row.id, ScopeIds("ann"))
        assert found is not None and lock_memory(tx, found, ScopeIds("ann")).id == row.id
        assert load_memory(tx, "default", row.id, ScopeIds("bob")) is None
        with pytest.raises(MemoryNotFound):
            lock_memory(tx, found, ScopeIds("bob"))


def test_a_turn_that_the_ledger_has_is_not_noted_as_lost(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    (accepted,) = accept(parts, make_turn("Ann likes tea"))
    with ledger.write() as tx:
        note_lost(tx, accepted.job_id, now=START)
    assert table(ledger, lost_turns) == []
    assert [row for row in table(ledger, counters) if row.name == "lost_turns"] == []
