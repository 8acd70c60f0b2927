"""What was superseded stays behind what superseded it, whatever a reranker thinks."""

from __future__ import annotations

import pytest

from memline.ledger.memories import MemoryRow
from memline.search.rerank.order import after_successors
from memline.search.results import Hit


def hit(memory_id: str, newer: str | None = None) -> Hit:
    values = dict.fromkeys(MemoryRow.__dataclass_fields__, None) | {"id": memory_id, "superseded_by": newer}
    return Hit(MemoryRow(**values), 0.5, {}, (), (), {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "past", "order"),
    [
        ("a b c", "", "a b c"),
        ("old>new x new y", "old", "x new old y"),
        ("new x old>new", "old", "new x old"),
        ("one>two two>three x three y", "one two", "x three two one y"),
        ("old>gone x", "old", "old x"),
        ("old>new x new", "", "old x new"),  # at the time that is asked about it was current
        ("a>b b>a x", "a b", "x a b"),
    ],
)
def test_the_order(given: str, past: str, order: str) -> None:
    hits = [hit(*word.split(">")) for word in given.split()]
    assert " ".join(each.row.id for each in after_successors(hits, set(past.split()))) == order
