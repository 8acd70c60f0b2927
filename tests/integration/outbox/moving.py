"""A ledger that moves from one embedder to another, and what processes do that hold either of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from memline.contracts.filters import parse
from memline.language.ports import Vectors
from memline.ledger.meta import check_embedder, embedders
from memline.ledger.retire import delete_memory
from memline.ledger.schema import entities, memories, next_entity_vectors, next_vectors, vectors
from memline.ledger.session import Ledger
from memline.outbox.reconcile import Reconciler
from memline.outbox.reembed import Reembedding, finish
from memline.outbox.relay import Relay
from memline.outbox.verify import verify
from memline.search.index.embedded import EmbeddedIndex
from memline.search.index.port import Space, SpacedIndex
from memline.search.results import SearchResult
from memline.search.searcher import Searcher
from tests.parts import HandClock, TrigramEmbedder, WordAnalyser, accept, make_parts, make_relay, make_turn, run_all

__all__ = ["Letters", "PaidLetters", "Side", "Town", "WideLetters", "dump"]


class Letters:
    """Signed hashing of pairs of letters, of the same dimension as `TrigramEmbedder`. *during* is called with each call's texts.

    Where MEMLINE_TEST_EMBEDDED names a file, it gets a byte for each text.
    """

    model, dimension, paid = "letters", 64, False

    def __init__(self, *, paid: bool = False, during: Callable[[Sequence[str]], None] | None = None) -> None:
        self.paid = paid
        self.during = during
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.during is not None:
            self.during(texts)
        self.texts += texts
        if (name := os.environ.get("MEMLINE_TEST_EMBEDDED")) is not None:
            with Path(name).open("a", encoding="ascii") as file:
                file.write("." * len(texts))
        return np.stack([self._one(text) for text in texts])

    def _one(self, text: str) -> NDArray[np.float32]:
        vector = np.full(self.dimension, 1e-3, np.float32)
        for start in range(len(text)):
            digest = hashlib.md5(text.lower()[start : start + 2].encode(), usedforsecurity=False).digest()
            vector[digest[1] % self.dimension] += 1.0 if digest[0] % 2 else -1.0
        found: NDArray[np.float32] = vector / np.linalg.norm(vector)
        return found


class WideLetters(Letters):
    """The same, of another dimension."""

    model, dimension = "wide-letters", 96


class PaidLetters(Letters):
    """The same, at a price."""

    def __init__(self) -> None:
        super().__init__(paid=True)


class Side:
    """A process: all that holds one embedder."""

    def __init__(self, town: Town, embedder: Any, **given: Any) -> None:
        self.town, self.embedder = town, embedder
        self.space = Space(embedder.model, embedder.dimension)
        self.spaced = "index" not in given
        self.index: Any = given.pop("index", None) or town.make(self.space)
        self.parts = make_parts(
            town.ledger, index=self.index, clock=town.clock, analyser=town.analyser, embedder=embedder, ids=town.ids, **given
        )
        self.relay: Relay = make_relay(self.parts, ids=f"relay-{embedder.model}")
        self.reconciler = Reconciler(town.ledger, self.index, town.clock)
        self.searcher = Searcher(
            town.ledger, self.index, town.analyser, embedder, town.clock, deadline=240
        )  # a slow machine is no part that is down

    def say(self, *texts: str, user: str = "ann") -> None:
        """One turn a text, to its end."""
        accept(self.parts, *(make_turn(text, user=user) for text in texts))
        run_all(self.parts)
        self.relay.drain()

    def search(self, query: str) -> SearchResult:
        return self.searcher.search("default", query, parse({"user_id": "ann"}), threshold=0.0)

    def found(self, query: str) -> list[str]:
        return [hit.row.text for hit in self.search(query).results]

    def moving(self, **given: Any) -> Reembedding:
        """A run of a move to this side's embedder."""
        return Reembedding(self.town.ledger, self.embedder, self._index_of, self.town.clock, self.town.ids.new(), **given)

    def finish(self) -> None:
        finish(self.town.ledger, self.relay, self.reconciler, self.index, self.town.clock, self._index_of)

    def _index_of(self, space: Space) -> SpacedIndex | None:
        return self.town.make(space) if self.spaced else None

    def move(self, **given: Any) -> bool:
        """A whole move to this side's embedder."""
        moved = self.moving(**given).run()
        self.finish()
        return moved


class _Ids:
    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self) -> str:
        return f"id-{next(self._numbers):06}"


class Town:
    """A ledger, the file of its index, and a clock. *make*: another index of a space than the embedded one."""

    def __init__(self, ledger: Ledger, folder: Path, make: Callable[[Space], SpacedIndex] | None = None) -> None:
        self.ledger = ledger
        self.store = ledger if ledger.is_sqlite else Ledger(f"sqlite:///{folder / 'index.db'}")
        self.make = make or (lambda space: cast("SpacedIndex", EmbeddedIndex(self.store, ledger, space=space)))
        self.clock, self.ids, self.analyser = HandClock(), _Ids(), WordAnalyser()
        with ledger.write() as tx:
            check_embedder(tx, TrigramEmbedder.model, TrigramEmbedder.dimension)
        self.old = Side(self, TrigramEmbedder())

    def side(self, embedder: Any, **given: Any) -> Side:
        return Side(self, embedder, **given)

    def delete(self, text: str) -> None:
        with self.ledger.read() as connection:
            memory_id = connection.execute(sa.select(memories.c.id).where(memories.c.text == text)).scalar_one()
        delete_memory(self.ledger, "default", memory_id, now=self.clock.now())

    @property
    def own(self) -> tuple[str, int] | None:
        with self.ledger.read() as connection:
            return embedders(connection).own

    def models(self) -> set[tuple[str, int]]:
        """Model and dimension of every vector of the ledger."""
        with self.ledger.read() as connection:
            rows = connection.execute(sa.select(vectors.c.model, vectors.c.vector)).all()
            rows += connection.execute(sa.select(entities.c.model, entities.c.vector)).all()
        return {(model, len(vector) // 4) for model, vector in rows}

    def gathered(self) -> int:
        """Rows of next vectors."""
        with self.ledger.read() as connection:
            return sum(
                connection.execute(sa.select(sa.func.count()).select_from(each)).scalar_one()
                for each in (next_vectors, next_entity_vectors)
            )

    def spaces(self) -> set[str]:
        """The tables of objects in the file of the index."""
        with self.store.read() as connection:
            return {name for name in sa.inspect(connection).get_table_names() if name.startswith("index_objects")}

    def check(self, side: Side) -> None:
        """Every store agrees, and every vector is what *side*'s embedder makes of its text."""
        report = verify(self.ledger, side.index, deep=True)
        assert report.to_json() == {"sound": True, "findings": [], "lag": 0}
        with self.ledger.read() as connection:
            rows = connection.execute(
                sa.select(memories.c.text, vectors.c.vector, vectors.c.model).join(vectors, vectors.c.memory_no == memories.c.no)
            ).all()
            rows += connection.execute(sa.select(entities.c.name, entities.c.vector, entities.c.model)).all()
        made = type(side.embedder)()
        for text, vector, model in rows:
            assert model == side.embedder.model
            assert np.array_equal(np.frombuffer(vector, "<f4"), made.embed([text])[0].astype("<f4"))


def dump(ledger: Ledger) -> dict[str, list[Any]]:
    """Every row of every table."""
    with ledger.read() as connection:
        names = sa.inspect(connection).get_table_names()
        return {name: sorted(map(repr, connection.execute(sa.text(f'SELECT * FROM "{name}"')).all())) for name in names}
