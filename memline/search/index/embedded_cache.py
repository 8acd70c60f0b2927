"""Vectors of the embedded index in memory: one float32 matrix for each narrowing that is asked for, brought up to date at each read.

A row is appended when its `seq` lies beyond the last one seen; a replaced or removed one is masked, and squeezed out when a quarter of
a matrix is masked. The least recently used matrices leave when all of them together are over the bound.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.contracts.index_object import Kind
from memline.language.lazy import ForkLock
from memline.ledger.lists import tuples
from memline.search.index.embedded_tables import Tables
from memline.search.index.port import Recall

__all__ = ["Matrix", "Narrowing", "VectorCache", "iterate_vectors"]

#: Rows that are read from the file at a time.
CHUNK = 5_000

#: seq, id, vector, version.
_Row = tuple[int, str, bytes, int]

#: What a row takes beside its vector: its id twice over, its number, its place in a dict.
_ROW_BYTES = 250


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a read is narrowed to: every id that is set is equal."""

    kind: Kind
    namespace: str
    scope: ScopeIds

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that it says something about."""
        return ("kind", "namespace", *self.scope.ids())

    @property
    def given(self) -> dict[str, Any]:
        """The values of these, as parameters of the statements below."""
        return {"kind": self.kind, "namespace": self.namespace} | self.scope.ids()


@dataclass(frozen=True, slots=True)
class Matrix:
    """Vectors as they were at one read. Never changed afterwards; `alive` is False for rows that were replaced or removed."""

    ids: list[str]
    vectors: NDArray[np.float32]
    alive: NDArray[np.bool_]
    #: Rows in use: `ids` may have grown since.
    size: int


@dataclass(slots=True)
class _Entry:
    """A matrix that grows. Rows below `size` are never written again; masks and squeezed matrices are new arrays."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    ids: list[str] = field(default_factory=list)
    row_of: dict[str, int] = field(default_factory=dict)
    seqs: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    versions: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    alive: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    last_seq: int = 0
    deletions: int = 0

    @property
    def bytes(self) -> int:
        return int(self.vectors.nbytes) + len(self.ids) * _ROW_BYTES

    def snapshot(self) -> Matrix:
        size = len(self.ids)
        return Matrix(self.ids, self.vectors[:size], self.alive[:size], size)


class VectorCache:
    """Matrices by narrowing of what *tables* hold, at most *bound* bytes of them. Thread-safe; a forked child starts with none."""

    def __init__(self, bound: int, tables: Tables) -> None:
        self._bound = bound
        self._tables = tables
        self._lock = ForkLock()
        self._entries: OrderedDict[Narrowing, _Entry] = OrderedDict()
        self._generation = _Generation()

    @property
    def bytes(self) -> int:
        """What the matrices take now."""
        with self._lock:
            return sum(entry.bytes for entry in self._entries.values())

    def recall(self, narrowing: Narrowing) -> Recall | None:
        """What the last read of *narrowing* left in memory."""
        with self._lock:
            self._drop_after_fork()
            entry = self._entries.get(narrowing)
        if entry is None:
            return None
        with entry.lock:
            size = len(entry.ids)
            return Recall(entry.row_of, entry.versions[:size], entry.vectors[:size]) if size else None

    def matrix(self, connection: Connection, narrowing: Narrowing) -> Matrix | None:
        """The vectors of *narrowing* as *connection*'s transaction sees them: one statement, one more after a write and after a removal.

        None where they alone are over the bound: read them by `iterate_vectors`.
        """
        with self._lock:
            self._drop_after_fork()
            entry = self._entries.setdefault(narrowing, _Entry())
            self._entries.move_to_end(narrowing)
        with entry.lock:
            fits = _refresh(connection, self._tables, narrowing, entry, self._bound)
            found = entry.snapshot()
        with self._lock:
            if not fits:
                self._entries.pop(narrowing, None)
                return None
            total = sum(other.bytes for other in self._entries.values())
            while total > self._bound and len(self._entries) > 1:
                _, dropped = self._entries.popitem(last=False)
                total -= dropped.bytes
        return found

    def clear(self) -> None:
        """Forgets every matrix."""
        with self._lock:
            self._entries = OrderedDict()

    def _drop_after_fork(self) -> None:
        if self._generation.changed():
            self._entries = OrderedDict()  # an entry may have been half-way in the parent when it forked


class _Generation:
    """Tells a forked child from its parent, without asking the system each time."""

    _current = 0

    def __init__(self) -> None:
        self._mine = _Generation._current

    def changed(self) -> bool:
        changed, self._mine = self._mine != _Generation._current, _Generation._current
        return changed

    @classmethod
    def advance(cls) -> None:
        cls._current += 1


def iterate_vectors(connection: Connection, tables: Tables, narrowing: Narrowing) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
    """The vectors of *narrowing* in parts of bounded size, ids beside them, in the order of their `seq`."""
    last = 0
    while True:
        rows = _rows_after(connection, tables, narrowing, last)
        if not rows:
            return
        last = rows[-1][0]
        yield [row[1] for row in rows], _as_matrix([row[2] for row in rows])


def _rows_after(connection: Connection, tables: Tables, narrowing: Narrowing, seq: int) -> list[_Row]:
    return [
        (row[0], row[1], row[2], row[3])
        for row in tuples(connection.execute(_rows(tables, narrowing.named), narrowing.given | {"last": seq}))
    ]


def _refresh(connection: Connection, tables: Tables, narrowing: Narrowing, entry: _Entry, bound: int) -> bool:
    """Brings *entry* up to the transaction's state; False where it does not fit into *bound* bytes."""
    state = connection.execute(_state(tables, narrowing.named), narrowing.given | {"last": entry.last_seq}).one()
    deletions, there_is_more = int(state[0] or 0), state[1] is not None
    fresh = first = entry.last_seq == 0
    while there_is_more and (rows := _rows_after(connection, tables, narrowing, entry.last_seq)):
        if first and len(rows) == CHUNK and not _fits(connection, tables, narrowing, len(rows[0][2]), bound):
            return False
        first = False
        _append(entry, rows)
        if entry.bytes > bound:
            return False
        if len(rows) < CHUNK:
            break
    if deletions > entry.deletions:
        if not fresh:
            _mask_removed(connection, tables, narrowing, entry)
        entry.deletions = deletions
    if (masked := len(entry.ids) - int(entry.alive[: len(entry.ids)].sum())) > 256 and 4 * masked > len(entry.ids):
        _squeeze(entry)
    return True


def _fits(connection: Connection, tables: Tables, narrowing: Narrowing, vector_bytes: int, bound: int) -> bool:
    number = connection.execute(_number(tables, narrowing.named), narrowing.given).scalar_one()
    return int(number) * (vector_bytes + _ROW_BYTES) <= bound


# Statements are made once: to make one takes longer than to run it.


def _where(table: sa.Table, named: tuple[str, ...]) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == sa.bindparam(name) for name in named]


@lru_cache(maxsize=64)
def _rows(tables: Tables, named: tuple[str, ...]) -> sa.Select[Any]:
    columns = tables.objects.c
    query = sa.select(columns.seq, columns.id, columns.vector, columns.version)
    return query.where(*_where(tables.objects, named), columns.seq > sa.bindparam("last")).order_by(columns.seq).limit(CHUNK)


@lru_cache(maxsize=64)
def _state(tables: Tables, named: tuple[str, ...]) -> sa.Select[Any]:
    """How often something was removed from the namespace, and whether there are rows beyond the last one seen."""
    objects, deletions = tables.objects, tables.deletions
    number = sa.select(deletions.c.number).where(*_where(deletions, named[:2])).scalar_subquery()
    beyond = sa.select(objects.c.seq).where(*_where(objects, named), objects.c.seq > sa.bindparam("last")).limit(1).scalar_subquery()
    return sa.select(number, beyond)


@lru_cache(maxsize=64)
def _number(tables: Tables, named: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(sa.func.count()).select_from(tables.objects).where(*_where(tables.objects, named))


@lru_cache(maxsize=64)
def _seqs(tables: Tables, named: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(tables.objects.c.seq).where(*_where(tables.objects, named)).order_by(tables.objects.c.seq)


def _append(entry: _Entry, rows: list[_Row]) -> None:
    new = _as_matrix([row[2] for row in rows])
    start, size = len(entry.ids), len(entry.ids) + len(rows)
    if size > len(entry.vectors):
        capacity = size if start == 0 and len(rows) < CHUNK else size + size // 2
        grown = np.empty((capacity, new.shape[1]), np.float32)
        if start:
            grown[:start] = entry.vectors[:start]
        entry.vectors = grown
        entry.seqs = np.concatenate([entry.seqs[:start], np.zeros(capacity - start, np.int64)])
        entry.versions = np.concatenate([entry.versions[:start], np.zeros(capacity - start, np.int64)])
        entry.alive = np.concatenate([entry.alive[:start], np.zeros(capacity - start, np.bool_)])
    else:
        entry.alive = entry.alive.copy()  # an earlier snapshot keeps its mask
    entry.vectors[start:size] = new
    entry.seqs[start:size] = [row[0] for row in rows]
    entry.versions[start:size] = [row[3] for row in rows]
    entry.alive[start:size] = True
    for row, (_, object_id, _, _) in enumerate(rows, start):
        before = entry.row_of.get(object_id)
        if before is not None:
            entry.alive[before] = False
        entry.row_of[object_id] = row
    entry.ids.extend(row[1] for row in rows)
    entry.last_seq = rows[-1][0]


def _mask_removed(connection: Connection, tables: Tables, narrowing: Narrowing, entry: _Entry) -> None:
    there = np.fromiter(connection.execute(_seqs(tables, narrowing.named), narrowing.given).scalars(), np.int64)
    size = len(entry.ids)
    alive = entry.alive.copy()
    alive[:size] = np.isin(entry.seqs[:size], there, assume_unique=True)
    entry.alive = alive


def _squeeze(entry: _Entry) -> None:
    kept = np.flatnonzero(entry.alive[: len(entry.ids)])
    entry.ids = [entry.ids[row] for row in kept]
    entry.row_of = {object_id: row for row, object_id in enumerate(entry.ids)}
    entry.vectors, entry.seqs, entry.versions = entry.vectors[kept], entry.seqs[kept], entry.versions[kept]
    entry.alive = np.ones(len(kept), np.bool_)


def _as_matrix(blobs: list[bytes]) -> NDArray[np.float32]:
    return np.frombuffer(b"".join(blobs), np.dtype("<f4")).reshape(len(blobs), -1).astype(np.float32, copy=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Generation.advance)
