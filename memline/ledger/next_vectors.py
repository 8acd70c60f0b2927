"""Vectors of the next embedder: gathered page by page, swapped in at once, and moved to their place page by page. Until the swap nothing
reads them but the index that is being filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import ConfigurationError
from memline.contracts.index_object import Kind
from memline.contracts.scope import Scope
from memline.ledger.locks import lock_all_subjects, lock_owners, lock_subjects
from memline.ledger.meta import Move, claim_ledger, embedders, save_move
from memline.ledger.schema import entities, history, lanes, memories, next_entity_vectors, next_vectors, vectors
from memline.ledger.session import insert
from memline.ledger.vectors import arrived, entity_arrived

__all__ = [
    "Amount",
    "Mark",
    "Unembedded",
    "begin_move",
    "close_for_swap",
    "discard_move",
    "look",
    "missing",
    "move_in",
    "store_next",
    "swap",
    "without_next",
]

#: Ids and numbers a statement.
_CHUNK = 400


@dataclass(frozen=True, slots=True)
class Amount:
    """How many texts still have no vector of the next embedder, and how long they are together."""

    memories: int
    entities: int
    characters: int
    #: In UTF-8.
    bytes: int

    @property
    def texts(self) -> int:
        return self.memories + self.entities

    @property
    def tokens(self) -> int:
        """A model's tokens, about: 4 ASCII characters each (OpenAI's rule of thumb for English), 1 for each other character."""
        # a character that is not ASCII has 2 bytes (é) to 4 (emoji); nearly all of them are Chinese and have 3
        other = min(self.characters, (self.bytes - self.characters + 1) // 2)
        return (self.characters - other + 3) // 4 + other


@dataclass(frozen=True, slots=True)
class Unembedded:
    """A text that has no vector of the next embedder yet."""

    kind: Kind
    no: int
    id: str
    #: What of it is embedded, to see at the end whether that is still so.
    source: str
    text: str
    scope: Scope


def begin_move(tx: Connection, model: str, dimension: int, *, run: str, discard: bool = False) -> Move | None:
    """Begins a move, or takes over one to the same embedder; None where the ledger has that embedder already.

    Raises ConfigurationError where a move to another one is half done, unless *discard*: then what it gathered is removed; and where the
    vectors of the last move are not in their place yet (`move_in`).
    """
    found = embedders(tx, lock=True)
    if found.move is not None and (found.move.model, found.move.dimension) != (model, dimension):
        if not discard:
            raise ConfigurationError(
                f"A move to {found.move.model} ({found.move.dimension} dimensions) is half done. Finish it with its settings, or add "
                "--discard to throw away what it embedded."
            )
        discard_move(tx)
    if found.own == (model, dimension):
        return None
    if found.move is None and any(tx.execute(sa.select(number).limit(1)).first() for _, number in _TABLES.values()):
        # those are the ledger's own by now: gathering over them would leave their memories without a vector
        raise ConfigurationError("Another `memline index reembed` has just arrived, and moves its vectors in: run this again.")
    move = Move(model, dimension, run)
    save_move(tx, move)
    return move


def discard_move(tx: Connection) -> None:
    """Ends a move that did not arrive: its vectors go; its index is the caller's to drop."""
    for table, _ in _TABLES.values():
        tx.execute(sa.delete(table))
    save_move(tx, None)


def without_next(connection: Connection, model: str) -> Amount:
    """What is left to embed by *model*: all memories but the deleted (what expired can be asked for, too), and entities."""
    size = sa.func.octet_length if connection.dialect.name == "postgresql" else _bytes
    found = []
    for query, text in ((_memories(model), memories.c.text), (_entities(model), entities.c.name)):
        columns = (sa.func.count(), sa.func.coalesce(sa.func.sum(sa.func.length(text)), 0), sa.func.coalesce(sa.func.sum(size(text)), 0))
        found.append(connection.execute(query.with_only_columns(*columns)).one())
    (some, characters, octets), (names, of_names, octets_of_names) = found
    return Amount(some, names, int(characters) + int(of_names), int(octets) + int(octets_of_names))


def missing(connection: Connection, kind: Kind, model: str, *, after: int = 0, limit: int) -> list[Unembedded]:
    """The first *limit* texts, by number, that have no vector of *model* yet, or one of an older text."""
    number = memories.c.no if kind == "memory" else entities.c.no
    query = _memories(model) if kind == "memory" else _entities(model)
    rows = connection.execute(query.where(number > after).order_by(number).limit(limit))
    return [
        Unembedded(kind, row.no, row.id, row.source, row.text, Scope(row.namespace, row.user_id, row.agent_id, row.run_id)) for row in rows
    ]


def store_next(tx: Connection, move: Move, found: Sequence[tuple[Unembedded, bytes]]) -> int:
    """Keeps vectors (float32, little-endian) of one kind; returns how many. What was deleted or changed since it was read is passed over.

    Raises ConfigurationError where another run took the move over, or ended it.
    """
    if not found:
        return 0
    # as everybody who writes for a subject, so that a delete or an erase is before this or after it, and sees it
    lock_subjects(tx, {subject for each, _ in found for subject in each.scope.subjects})
    lock_owners(tx, {each.scope.owner.key for each, _ in found})
    _check_run(tx, move)
    (kind,) = {each.kind for each, _ in found}
    table, number = _TABLES[kind]
    there: dict[int, str] = {}
    for start in range(0, len(found), _CHUNK):
        there |= _sources(tx, kind, [each.no for each, _ in found[start : start + _CHUNK]])
    rows = [
        {number.name: each.no, "source": each.source, "model": move.model, "vector": vector}
        for each, vector in found
        if there.get(each.no) == each.source
    ]
    if rows:
        statement = insert(tx, table)
        new = {name: statement.excluded[name] for name in ("source", "model", "vector")}
        tx.execute(statement.on_conflict_do_update(index_elements=[number.name], set_=new), rows)
    return len(rows)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of the ledger: numbers of the last row of history, and of the last entity."""

    changes: int
    names: int


def close_for_swap(tx: Connection, move: Move, *, until: datetime) -> None:
    """Has everything that would store a vector wait until then (`check_own_embedder`): writers may be faster than the embedder."""
    _check_run(tx, move)
    save_move(tx, replace(move, closed_until=until))


def look(tx: Connection) -> Mark:
    """Where the ledger is: everything that is numbered up to here is committed. Every writer waits until the transaction ends: end it."""
    lock_all_subjects(tx)
    numbers = (sa.select(sa.func.coalesce(sa.func.max(column), 0)).scalar_subquery() for column in (history.c.no, entities.c.no))
    changes, names = tx.execute(sa.select(*numbers)).one()
    return Mark(changes, names)


def swap(tx: Connection, move: Move, *, since: Mark) -> bool:
    """Makes the move's embedder the ledger's own, and its vectors those of the memories; False, and nothing changes, where one is missing.

    *since*: what came or changed after that is looked at; every text before it has been embedded. Every writer waits until the transaction
    ends, for as long as that takes; readers go on with what was. The vectors are where they are: `move_in` puts them in their place.
    """
    lock_all_subjects(tx)
    _check_run(tx, move)
    changed = sa.select(history.c.memory_id).where(history.c.no > since.changes)
    for query in (
        _memories(move.model).where(memories.c.id.in_(changed)),
        _entities(move.model).where(entities.c.no > since.names),
    ):
        if tx.execute(query.limit(1)).one_or_none() is not None:
            return False
    claim_ledger(tx, move)
    return True


def move_in(tx: Connection, *, limit: int) -> int:
    """After the swap: puts at most *limit* vectors of a kind in the place of those of the embedder before. Returns how many.

    Whatever stands in that place by now, because it was written after the swap, stays.
    """
    found = embedders(tx)
    if found.own is None or found.move is not None:
        return 0  # what is there is being gathered
    moved = 0
    pages = {kind: tx.execute(_scopes(kind).order_by(_TABLES[kind][1]).limit(limit)).all() for kind in _KINDS}
    # of both kinds at once: subjects are before owners
    scopes = {Scope(row.namespace, row.user_id, row.agent_id, row.run_id) for page in pages.values() for row in page}
    lock_subjects(tx, {subject for scope in scopes for subject in scope.subjects})
    lock_owners(tx, {scope.owner.key for scope in scopes})
    for kind, page in pages.items():
        if not page:
            continue
        table, number = _TABLES[kind]
        nos = [row.no for row in page]
        new = {"model": table.c.model, "vector": table.c.vector}
        if kind == "memory":
            tx.execute(sa.update(vectors).where(arrived, number.in_(nos)).values(**new, dimension=found.own[1]))
        else:
            tx.execute(sa.update(entities).where(entity_arrived, number.in_(nos)).values(new))
        tx.execute(sa.delete(table).where(number.in_(nos)))
        moved += len(page)
    return moved


_KINDS: tuple[Kind, ...] = ("memory", "entity")
_TABLES: dict[Kind, tuple[sa.Table, sa.Column[int]]] = {
    "memory": (next_vectors, next_vectors.c.memory_no),
    "entity": (next_entity_vectors, next_entity_vectors.c.entity_no),
}
_entity_source = sa.cast(entities.c.version, sa.Text)


def _memories(model: str) -> sa.Select[Any]:
    columns = memories.c
    done = sa.and_(next_vectors.c.memory_no == columns.no, next_vectors.c.source == columns.digest, next_vectors.c.model == model)
    return (
        sa.select(
            columns.no,
            columns.id,
            columns.digest.label("source"),
            columns.text.label("text"),
            columns.namespace,
            columns.user_id,
            columns.agent_id,
            columns.run_id,
        )
        .select_from(memories.outerjoin(next_vectors, done))
        .where(next_vectors.c.memory_no.is_(None), columns.state != "deleted")
    )


def _entities(model: str) -> sa.Select[Any]:
    columns, table = entities.c, next_entity_vectors
    done = sa.and_(table.c.entity_no == columns.no, table.c.source == _entity_source, table.c.model == model)
    return (
        # the name as it was first written: what the link stage stores the vector of
        sa.select(
            columns.no,
            columns.id,
            _entity_source.label("source"),
            columns.name.label("text"),
            columns.namespace,
            lanes.c.user_id,
            lanes.c.agent_id,
            lanes.c.run_id,
        )
        .select_from(entities.join(lanes, lanes.c.key == columns.lane).outerjoin(table, done))
        .where(table.c.entity_no.is_(None))
    )


def _scopes(kind: Kind) -> sa.Select[Any]:
    """Numbers of those that have a next vector, and whose they are."""
    if kind == "memory":
        of, source = memories.c, next_vectors.join(memories, memories.c.no == next_vectors.c.memory_no)
        return sa.select(of.no, of.namespace, of.user_id, of.agent_id, of.run_id).select_from(source)
    source = next_entity_vectors.join(entities, entities.c.no == next_entity_vectors.c.entity_no).join(
        lanes, lanes.c.key == entities.c.lane
    )
    return sa.select(entities.c.no, entities.c.namespace, lanes.c.user_id, lanes.c.agent_id, lanes.c.run_id).select_from(source)


def _sources(tx: Connection, kind: Kind, nos: Sequence[int]) -> dict[int, str]:
    if kind == "memory":
        query = sa.select(memories.c.no, memories.c.digest).where(memories.c.no.in_(list(nos)), memories.c.state != "deleted")
    else:
        query = sa.select(entities.c.no, _entity_source).where(entities.c.no.in_(list(nos)))
    return {no: source for no, source in tx.execute(query)}


def _check_run(tx: Connection, move: Move) -> None:
    now = embedders(tx, lock=True).move
    if now is None or now.run != move.run:
        raise ConfigurationError(
            "Another `memline index reembed` took this one over, or ended it: this one stored nothing more. Let the other one finish."
        )


def _bytes(text: sa.ColumnElement[str]) -> sa.ColumnElement[int]:
    """Bytes of a text, for a SQLite that has no octet_length yet."""
    return sa.func.length(sa.cast(text, sa.LargeBinary))
