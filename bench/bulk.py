"""Very many memories put into a ledger and an index, by direct SQL: for measuring how search grows.

A few thousand real (or generated) texts are analysed and embedded; each further memory is one of them with words of its own behind it,
its terms with them, and its vector moved a little. The same seed makes the same memories.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.content_hash import text_md5
from memline.contracts.fact import Analysis
from memline.contracts.ids import derived_id
from memline.contracts.index_object import IndexObject, ObjectKey
from memline.contracts.scope import Scope
from memline.language.ports import Analyser, Embedder
from memline.ledger.schema import entities, entity_links, entity_names, lanes, memories, owners, postings, vectors
from memline.ledger.seats import ensure_lanes
from memline.ledger.session import Ledger
from memline.search.index.port import Index, Write

__all__ = ["Bulk", "Material", "made_texts", "material_of"]

#: Memories of one transaction.
BATCH = 5_000
#: Objects of one write to an index that is a server.
_WRITE = 500
#: Words that each memory gets beside those of its base text.
_OWN_WORDS = 2
#: How far a vector is moved from that of its base text, before it is made a unit again.
_MOVED = 0.4
#: Names of a scope at most.
MOST_NAMES = 2_000
#: Who speaks in a scope, in turn.
_ACTORS = ("Ana", "Ben")
_NOW = datetime(2030, 1, 1, tzinfo=UTC)
_FIRST = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Material:
    """Texts to make memories from; arrays and tuples in the same order."""

    texts: tuple[str, ...]
    analyses: tuple[Analysis, ...]
    #: (n, d) unit vectors.
    vectors: NDArray[np.float32]
    #: By normalised name, its vector.
    names: dict[str, bytes]
    #: Words that stand in the texts.
    words: tuple[str, ...]


def material_of(texts: Sequence[str], analyser: Analyser, embedder: Embedder) -> Material:
    """*texts*, each once, looked at once."""
    once = tuple(dict.fromkeys(texts))
    analyses = tuple(analyser.analyse(once))
    spelt = {mention.normalised: mention.name for analysis in analyses for mention in analysis.entities}
    names = {norm: vector.tobytes() for norm, vector in zip(spelt, embedder.embed(list(spelt.values())), strict=True)}
    words = tuple(sorted({term for analysis in analyses for term in analysis.terms if term.isascii() and term.isalpha()}))
    return Material(once, analyses, embedder.embed(once), names, words)


def made_texts(number: int, seed: int) -> list[str]:
    """That many plausible sentences, for whoever names no data."""
    chance = random.Random(seed)
    who = ("Ana", "Ben", "Chloe", "Dmitri", "Emeka", "Farah", "Goran", "Hiro", "Ines", "Jonas")
    did = ("bought", "painted", "lost", "found", "repaired", "sold", "photographed", "borrowed", "wrapped", "forgot")
    what = ("a paper lamp", "an old bicycle", "the blue tent", "a recipe for bread", "two concert tickets", "a winter coat", "the boat")
    where = ("in Kyoto", "near the river", "at the market", "on the way to work", "in Lisbon", "after the meeting", "at her sister's")
    why = ("because it was cheap", "for the birthday party", "and told everybody", "before the rain came", "as a present", "by mistake")
    kinds = (who, did, what, where, why)
    return [" ".join(chance.choice(kind) for kind in kinds) + f", {chance.randrange(10_000)} days ago." for _ in range(number)]


class Bulk:
    """Fills scopes of one ledger and its index, one after the other."""

    def __init__(self, ledger: Ledger, index: Index, material: Material, model: str, *, seed: int = 7) -> None:
        self._ledger, self._index, self._material, self._model = ledger, index, material, model
        self._chance = np.random.default_rng(seed)
        self._places = np.argsort(self._chance.random(len(material.texts)))
        with ledger.read() as connection:
            self._last_no = connection.execute(sa.select(sa.func.coalesce(sa.func.max(memories.c.no), 0))).scalar_one()

    def fill(self, scope: Scope, number: int) -> None:
        """*number* memories in an empty *scope*, with postings, vectors, entities and links, and their index objects."""
        with self._ledger.write() as tx:
            ensure_lanes(tx, [scope], now=_NOW)
            owner_no = tx.execute(sa.select(lanes.c.owner_no).where(lanes.c.key == scope.lane)).scalar_one()
            names = self._add_entities(tx, scope, owner_no, number)
        self._index_entities(scope, names)
        for start in range(0, number, BATCH):
            self._fill_batch(scope, owner_no, range(start, min(start + BATCH, number)), names)

    def _add_entities(self, tx: Connection, scope: Scope, owner_no: int, number: int) -> dict[str, int]:
        """The names that the scope's memories will share, with the numbers of their entities."""
        used = dict.fromkeys(
            mention.normalised
            for at in range(min(number, len(self._places)))
            for mention in self._material.analyses[self._places[at]].entities
        )
        kept = list(used)[:MOST_NAMES]
        first = tx.execute(sa.select(sa.func.coalesce(sa.func.max(entities.c.no), 0))).scalar_one() + 1
        numbers = dict(zip(kept, range(first, first + len(kept)), strict=True))
        common = {"namespace": scope.namespace, "lane": scope.lane, "owner_no": owner_no, "type": "PROPER", "version": 1}
        _insert(
            tx,
            entities,
            (
                common
                | {"no": no, "id": _entity_id(scope, norm), "name": norm, "norm": norm, "model": self._model}
                | {"vector": self._material.names[norm], "created_at": _NOW}
                for norm, no in numbers.items()
            ),
        )
        _insert(tx, entity_names, ({"lane": scope.lane, "norm": norm, "entity_no": no} for norm, no in numbers.items()))
        return numbers

    def _index_entities(self, scope: Scope, names: dict[str, int]) -> None:
        keys = {norm: ObjectKey("entity", scope.namespace, _entity_id(scope, norm)) for norm in names}
        self._show(
            Write(key, IndexObject(key, 1, scope.user_id, scope.agent_id, scope.run_id, (norm,), self._material.names[norm]))
            for norm, key in keys.items()
        )

    def _fill_batch(self, scope: Scope, owner_no: int, places: range, names: dict[str, int]) -> None:
        made = [self._one(place) for place in places]
        moved = self._vectors(places)
        first = self._last_no + 1
        self._last_no += len(made)
        ids = [derived_id("bulk", scope.lane, str(place)) for place in places]
        with self._ledger.write() as tx:
            _insert(
                tx,
                memories,
                (
                    _memory(scope, owner_no, no, memory_id, place, text, terms)
                    for no, (memory_id, place, (text, terms, _)) in enumerate(zip(ids, places, made, strict=True), first)
                ),
            )
            found = sorted(
                (term, no, tf, len(terms)) for no, (_, terms, _) in enumerate(made, first) for term, tf in Counter(terms).items()
            )
            _insert(
                tx,
                postings,
                (
                    {"owner_no": owner_no, "term": term, "memory_no": no, "tf": tf, "length": length, "live": True}
                    for term, no, tf, length in found
                ),
            )
            shape = {"model": self._model, "dimension": moved.shape[1]}
            _insert(tx, vectors, ({"memory_no": no, "vector": vector.tobytes()} | shape for no, vector in enumerate(moved, first)))
            pairs = {(names[norm], no) for no, (_, _, mentioned) in enumerate(made, first) for norm in mentioned if norm in names}
            _insert(tx, entity_links, ({"entity_no": entity_no, "memory_no": no} for entity_no, no in sorted(pairs)))
            length = sum(len(terms) for _, terms, _ in made)
            tx.execute(
                sa.update(owners).where(owners.c.no == owner_no).values(live=owners.c.live + len(made), length=owners.c.length + length)
            )
        self._show(
            Write(key, IndexObject(key, 1, scope.user_id, scope.agent_id, scope.run_id, tuple(sorted(terms)), vector.tobytes()))
            for memory_id, (_, terms, _), vector in zip(ids, made, moved, strict=True)
            for key in (ObjectKey("memory", scope.namespace, memory_id),)
        )

    def _one(self, place: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Text, terms and names of the memory at a place: the first ones are the base texts themselves."""
        material = self._material
        at = int(self._places[place % len(self._places)])
        text, analysis = material.texts[at], material.analyses[at]
        named = tuple(mention.normalised for mention in analysis.entities)
        if place < len(self._places):
            return text, analysis.terms, named
        own = tuple(material.words[int(number)] for number in self._chance.integers(len(material.words), size=_OWN_WORDS))
        return f"{text} {' '.join(own)} {place}", (*analysis.terms, *own, str(place)), named

    def _vectors(self, places: range) -> NDArray[np.float32]:
        rows = self._places[np.array(places) % len(self._places)]
        base = self._material.vectors[rows]
        noise = self._chance.standard_normal(base.shape, dtype=np.float32) * np.float32(_MOVED / base.shape[1] ** 0.5)
        moved = base + np.where((np.array(places) < len(self._places))[:, None], np.float32(0), noise)
        return np.ascontiguousarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), np.float32)

    def _show(self, writes: Iterable[Write]) -> None:
        for part in _parts(writes, _WRITE if self._index.remote else BATCH):
            failed = [answer.error for answer in self._index.write(part) if answer.error is not None]
            if failed:
                raise RuntimeError(f"The index refused {len(failed)} of {len(part)} objects: {failed[0]}")


def _entity_id(scope: Scope, norm: str) -> str:
    return derived_id("bulk-entity", scope.lane, norm)


def _memory(scope: Scope, owner_no: int, no: int, memory_id: str, place: int, text: str, terms: Sequence[str]) -> dict[str, Any]:
    said_at, md5 = _FIRST + timedelta(minutes=place), text_md5(text)
    return {
        "no": no,
        "id": memory_id,
        "namespace": scope.namespace,
        "lane": scope.lane,
        "owner_no": owner_no,
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "run_id": scope.run_id,
        "job_id": memory_id,
        "ordinal": 0,
        "place": place + 1,
        "state": "live",
        "version": 1,
        "text": text,
        "content_hash": md5,  # unlike content, unlike hash: nothing here is said twice in other words
        "md5": md5,
        "digest": "",
        "length": len(terms),
        "metadata": {},
        "attributed_to": "user",
        "role": "user",
        "actor_id": _ACTORS[place % len(_ACTORS)],
        "verbatim": True,
        "occurred_at": said_at,
        "created_at": _NOW,
        "updated_at": _NOW,
        "valid_from": said_at,
    }


def _insert(tx: Connection, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
    """*rows* (equal keys) by the driver itself: what SQLAlchemy does for each row would be most of the time."""
    taken = list(rows)
    if not taken:
        return
    names = list(taken[0])
    binds = [(name, table.c[name].type.dialect_impl(tx.dialect).bind_processor(tx.dialect)) for name in names]
    for name, bind in binds:
        if bind is not None:
            for row in taken:
                row[name] = bind(row[name])
    values = list(map(itemgetter(*names), taken))
    quote = tx.dialect.identifier_preparer.quote
    listed = ", ".join(quote(name) for name in names)
    if tx.dialect.name == "sqlite":
        tx.exec_driver_sql(f"INSERT INTO {quote(table.name)} ({listed}) VALUES ({', '.join('?' * len(names))})", values)
        return
    with tx.connection.cursor() as cursor, cursor.copy(f"COPY {quote(table.name)} ({listed}) FROM STDIN") as copy:  # type: ignore[attr-defined]
        for row in values:
            copy.write_row(row)


def _parts(items: Iterable[Write], size: int) -> Iterator[list[Write]]:
    part: list[Write] = []
    for item in items:
        part.append(item)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part
