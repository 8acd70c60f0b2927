"""Memories and the entities they name, on both databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from memline.ledger.jobs import Stage
from memline.ledger.schema import (
    entities,
    entity_links,
    entity_names,
    memories,
)
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_through
from tests.integration.pipeline.steps import claimed, state, up_to
from tests.parts import (
    MemoryIndex,
    TrigramEmbedder,
    accept,
    make_parts,
    make_relay,
    make_turn,
    run_all,
    table,
)


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


def test_similar_names_become_one_entity_only_where_their_digits_are_equal(ledger: Ledger) -> None:
    class Alike(TrigramEmbedder):
        """Everything is near to everything."""

        def embed(self, texts: Sequence[str]) -> Any:
            import numpy as np

            return np.tile(np.eye(1, self.dimension, dtype=np.float32), (len(texts), 1))

    parts = make_parts(ledger, embedder=Alike())
    for text in ("User owns Gen11", "User owns Gen12", "User met Jon", "User met John"):
        accept(parts, make_turn(text))
        run_all(parts)
        make_relay(parts).drain()
    assert sorted(row.norm for row in table(ledger, entities)) == ["gen11", "gen12", "jon"]
    names = {row.norm: row.entity_no for row in table(ledger, entity_names)}
    assert names["john"] == names["jon"]
    assert len(table(ledger, entity_links)) == 4


def test_similar_names_of_one_batch_become_one_entity(ledger: Ledger) -> None:
    class Alike(TrigramEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            import numpy as np

            return np.tile(np.eye(1, self.dimension, dtype=np.float32), (len(texts), 1))

    parts = make_parts(ledger, embedder=Alike())
    accept(parts, make_turn("User met Jon and John\nUser knows John"))
    run_all(parts)
    (row,) = table(ledger, entities)
    assert {each.norm for each in table(ledger, entity_names)} == {"jon", "john"}
    assert {each.entity_no for each in table(ledger, entity_links)} == {row.no}
    assert len(table(ledger, entity_links)) == 2


def test_without_the_index_a_new_name_is_an_entity_of_its_own(ledger: Ledger) -> None:
    index = MemoryIndex()
    index.away = True
    parts = make_parts(ledger, index=index)
    accept(parts, make_turn("User met Anna"))
    run_all(parts)
    assert [row.norm for row in table(ledger, entities)] == ["anna"]


def test_a_memory_that_was_deleted_before_it_is_linked_gets_no_entity(parts: Parts) -> None:
    from memline.ledger.retire import delete_memory

    accept(parts, make_turn("User met Anna", id="a"))
    (lease,) = claimed(parts)
    here = up_to(parts, lease, Stage.LINK)
    (row,) = table(parts.ledger, memories)
    delete_memory(parts.ledger, "default", row.id, now=parts.clock.now())
    run_through(parts, here, worker="w", send=lambda _: None, stopped=lambda: False)
    assert table(parts.ledger, entities) == table(parts.ledger, entity_links) == []
    assert state(parts.ledger, "a") == ("committed", "done", 0, False)
