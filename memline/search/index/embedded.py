"""The embedded index: exact cosine over vectors in memory, BM25 over the ledger's postings. For one machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.errors import EmbedderMismatch
from memline.contracts.filters import ScopeIds
from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.language.blas import one_blas_thread
from memline.ledger.meta import embedders
from memline.ledger.schema import memories
from memline.ledger.session import Ledger, insert
from memline.search.index import embedded_tables
from memline.search.index.embedded_cache import Matrix, Narrowing, VectorCache, iterate_vectors
from memline.search.index.embedded_tables import Tables
from memline.search.index.port import Answer, IndexState, Nominee, Recall, Space, Write
from memline.search.index.words_leg import match_in_ledger

__all__ = ["CACHE_BYTES", "EmbeddedIndex"]

#: Default bound of the vectors held in memory: 512 MiB, a quarter of a million memories of 512 dimensions.
CACHE_BYTES = 512 * 1024 * 1024

_BATCH = 500


class EmbeddedIndex:
    """The index port (`memline.search.index.port.Index`) without a server.

    *store* holds the index' tables: the ledger itself where it is SQLite, else a `Ledger("sqlite:///…/index.db")` of its own. *ledger*
    must be open already (`open_ledger`): the tables are made here when they are missing.
    *space*: whose vectors these are. Each has tables of its own; those of a space that the ledger does not know any more are removed.
    Without one the index is of an embedder that never changes.
    """

    def __init__(self, store: Ledger, ledger: Ledger, *, space: Space | None = None, cache_bytes: int = CACHE_BYTES) -> None:
        if not store.is_sqlite:
            raise ValueError("The embedded index lies in a SQLite file: give it a Ledger('sqlite:///…/index.db') of its own.")
        self._store = store
        self._ledger = ledger
        self.space = space
        self._tables = embedded_tables.tables_of(space)
        self._cache = VectorCache(cache_bytes, self._tables)
        with ledger.read() as connection:
            any_memory = connection.execute(sa.select(memories.c.no).limit(1)).one_or_none() is not None
            known = [Space(*found) for found in embedders(connection).known]
        embedded_tables.prepare(store, self._tables, filled_elsewhere=any_memory)
        if space is not None:
            embedded_tables.drop_others(store, {space, *known})

    @property
    def name(self) -> str:
        return f"embedded (numpy {np.__version__}, form {embedded_tables.FORM})"

    @property
    def store(self) -> Ledger:
        """The file that the tables lie in."""
        return self._store

    @property
    def shares_ledger(self) -> bool:
        return self._store is self._ledger

    @property
    def remote(self) -> bool:
        return False

    @property
    def ranks_by_ledger(self) -> bool:
        return True

    @property
    def needs_rebuild(self) -> bool:
        """The tables are new, the ledger is not: every object has to be written again, then `mark_rebuilt` called."""
        with self._store.read() as connection:
            return embedded_tables.needs_rebuild(connection, self._tables)

    def mark_rebuilt(self, *, tx: Connection | None = None) -> None:
        """Every object of the ledger is written here, or waits in the outbox."""
        if tx is not None:
            embedded_tables.mark_rebuilt(tx, self._tables)
            return
        with self._store.write() as own:
            embedded_tables.mark_rebuilt(own, self._tables)

    def drop(self) -> None:
        """Removes everything of this space; the object is of no use afterwards."""
        embedded_tables.drop(self._store, self._tables)
        self._cache.clear()

    def write(self, writes: Sequence[Write], *, tx: Connection | None = None) -> list[Answer]:
        if not writes:
            return []
        if tx is not None and self.shares_ledger:
            return self._write(tx, writes)
        with self._store.write() as own:
            return self._write(own, writes)

    def nearest(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vector: NDArray[np.float32], *, limit: int, offset: int = 0
    ) -> list[Nominee]:
        """See the port. Raises EmbedderMismatch where *vector* has another dimension than the vectors here."""
        deep = limit + offset
        best: dict[str, float] = {}
        if limit <= 0:
            return []
        query = np.ascontiguousarray(vector, dtype=np.float32).reshape(-1)
        with self._store.read() as connection:
            for scope in scopes:
                narrowing = Narrowing(kind, namespace, scope)
                matrix = self._cache.matrix(connection, narrowing)
                found = (
                    _best_of(matrix, query, deep) if matrix is not None else _best_of_file(connection, self._tables, narrowing, query, deep)
                )
                best |= dict(found)
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))
        return [Nominee(object_id, value) for object_id, value in ranked[offset:deep]]

    def nearest_any(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vectors: Sequence[NDArray[np.float32]], *, limit: int
    ) -> list[Nominee]:
        """See the port: one product of matrices a scope. Raises EmbedderMismatch as `nearest` does."""
        if limit <= 0 or not len(vectors):
            return []
        queries = np.stack([np.asarray(vector, dtype=np.float32).reshape(-1) for vector in vectors])
        nearest: list[dict[str, float]] = [{} for _ in queries]
        with self._store.read() as connection:
            for scope in scopes:
                narrowing = Narrowing(kind, namespace, scope)
                matrix = self._cache.matrix(connection, narrowing)
                found = _best_of_each(matrix, queries, limit) if matrix is not None else None
                for number, query in enumerate(queries):
                    best = found[number] if found is not None else _best_of_file(connection, self._tables, narrowing, query, limit)
                    nearest[number] |= dict(best)
        best_of_all: dict[str, float] = {}
        for one in nearest:
            for object_id, value in sorted(one.items(), key=lambda item: (-item[1], item[0]))[:limit]:
                best_of_all[object_id] = max(value, best_of_all.get(object_id, -np.inf))
        return [Nominee(object_id, value) for object_id, value in sorted(best_of_all.items(), key=lambda item: (-item[1], item[0]))]

    def recall(self, kind: Kind, namespace: str, scope: ScopeIds) -> Recall | None:
        """See `port.KeepsVectors`."""
        return self._cache.recall(Narrowing(kind, namespace, scope))

    def matching(self, namespace: str, scopes: Sequence[ScopeIds], terms: Sequence[str], *, limit: int, offset: int = 0) -> list[Nominee]:
        with self._ledger.read() as connection:
            return match_in_ledger(connection, namespace, scopes, terms, limit=limit, offset=offset)

    def walk(self, kind: Kind, namespace: str, *, after: str = "", limit: int = 1000, vectors: bool = False) -> Iterator[IndexState]:
        """See the port; *limit* objects are in memory at a time."""
        columns = self._tables.objects.c
        while True:
            query = (
                _state_query(self._tables, vectors=vectors)
                .where(columns.kind == kind, columns.namespace == namespace, columns.id > after)
                .order_by(columns.id)
                .limit(limit)
            )
            with self._store.read() as connection:
                rows = connection.execute(query).all()
            for row in rows:
                yield _state(kind, row, vectors=vectors)
            if len(rows) < limit:
                return
            after = rows[-1].id

    def look(self, keys: Sequence[ObjectKey], *, vectors: bool = False) -> dict[ObjectKey, IndexState]:
        columns = self._tables.objects.c
        found: dict[ObjectKey, IndexState] = {}
        wanted = set(keys)
        for kind in {key.kind for key in keys}:
            ids = [key.id for key in keys if key.kind == kind]
            for start in range(0, len(ids), _BATCH):
                query = _state_query(self._tables, vectors=vectors).where(columns.kind == kind, columns.id.in_(ids[start : start + _BATCH]))
                with self._store.read() as connection:
                    states = [_state(kind, row, vectors=vectors) for row in connection.execute(query)]
                found |= {state.key: state for state in states if state.key in wanted}
        return found

    def namespaces(self) -> list[str]:
        with self._store.read() as connection:
            return sorted(connection.execute(sa.select(self._tables.objects.c.namespace).distinct()).scalars())

    def close(self) -> None:
        """Closes the index' own file; a shared ledger is its owner's to close."""
        if not self.shares_ledger:
            self._store.close()

    def _write(self, tx: Connection, writes: Sequence[Write]) -> list[Answer]:
        last = {write.key: write for write in writes}  # one object twice in a batch: the later one is how it is
        dimension = next((len(write.object.vector) // 4 for write in writes if write.object is not None), None)
        if dimension is not None:
            dimension = embedded_tables.stored_dimension(tx, self._tables, dimension)
        errors = {key: error for key, write in last.items() if (error := _refusal(write, dimension))}
        taken = [write for key, write in last.items() if key not in errors]
        _count_removals(tx, self._tables.deletions, _remove(tx, self._tables.objects, taken))
        rows = [_row(write) for write in taken if write.object is not None]
        if rows:
            tx.execute(sa.insert(self._tables.objects), rows)
        return [Answer(write.key, errors.get(write.key)) for write in writes]


def _state_query(tables: Tables, *, vectors: bool) -> sa.Select[Any]:
    columns = tables.objects.c
    vector = columns.vector if vectors else sa.literal(b"", sa.LargeBinary).label("vector")
    return sa.select(
        columns.id, columns.namespace, columns.user_id, columns.agent_id, columns.run_id, columns.version, columns.terms, vector
    )


def _state(kind: Kind, row: Any, *, vectors: bool) -> IndexState:
    found = embedded_tables.object_of(kind, row)
    return IndexState(found.key, found.version, found.digest, found.vector_digest if vectors else None)


def _refusal(write: Write, dimension: int | None) -> str | None:
    if write.object is None or dimension is None:
        return None
    if len(write.object.vector) == 4 * dimension:
        # one that is no number would be the best of every ranking, and hide all others
        return None if np.isfinite(np.frombuffer(write.object.vector, "<f4")).all() else "the vector holds what is no finite number"
    return f"the vector has {len(write.object.vector)} bytes, the vectors of this index have {dimension} dimensions of 4 bytes"


def _remove(tx: Connection, objects: sa.Table, writes: Sequence[Write]) -> set[tuple[Kind, str]]:
    """Makes room for what is written, wherever it was, and removes what is no more from its own namespace.

    Kinds and namespaces that an object has left, or has changed its scope in: what is in memory of them is looked through.
    """
    columns = objects.c
    left: set[tuple[Kind, str]] = set()
    places = {(write.key.kind, write.key.id): _place(write.object) for write in writes if write.object is not None}
    groups: dict[tuple[Kind, str | None], list[str]] = {}
    for write in writes:
        groups.setdefault((write.key.kind, write.key.namespace if write.object is None else None), []).append(write.key.id)
    for (kind, namespace), ids in groups.items():
        which = [columns.kind == kind, *([] if namespace is None else [columns.namespace == namespace])]
        for start in range(0, len(ids), _BATCH):
            gone = sa.delete(objects).where(*which, columns.id.in_(ids[start : start + _BATCH]))
            for row in tx.execute(gone.returning(columns.id, columns.namespace, columns.user_id, columns.agent_id, columns.run_id)):
                if places.get((kind, row[0])) != tuple(row[1:]):
                    left.add((kind, row[1]))
    return left


def _place(found: IndexObject) -> tuple[str, str | None, str | None, str | None]:
    return found.key.namespace, found.user_id, found.agent_id, found.run_id


def _count_removals(tx: Connection, deletions: sa.Table, places: set[tuple[Kind, str]]) -> None:
    statement = insert(tx, deletions)
    number = deletions.c.number
    for kind, namespace in sorted(places):
        tx.execute(
            statement.values(kind=kind, namespace=namespace, number=1).on_conflict_do_update(
                index_elements=["kind", "namespace"], set_={"number": number + 1}
            )
        )


def _row(write: Write) -> dict[str, object]:
    found = write.object
    assert found is not None
    return {
        "kind": found.key.kind,
        "id": found.key.id,
        "namespace": found.key.namespace,
        "user_id": found.user_id,
        "agent_id": found.agent_id,
        "run_id": found.run_id,
        "version": found.version,
        "terms": " ".join(found.terms),
        "vector": found.vector,
    }


def _best_of(matrix: Matrix, query: NDArray[np.float32], deep: int) -> list[tuple[str, float]]:
    if matrix.size == 0:
        return []
    _check_dimension(matrix.vectors, query)
    with one_blas_thread():
        values = np.where(matrix.alive, matrix.vectors @ query, -np.inf)
    return [(matrix.ids[row], float(values[row])) for row in _top(values, deep)]


def _best_of_each(matrix: Matrix, queries: NDArray[np.float32], deep: int) -> list[list[tuple[str, float]]]:
    """What `_best_of` finds for each row of *queries*."""
    if matrix.size == 0:
        return [[] for _ in queries]
    _check_dimension(matrix.vectors, queries[0])
    with one_blas_thread():
        values = np.where(matrix.alive, queries @ matrix.vectors.T, -np.inf)
    return [[(matrix.ids[row], float(one[row])) for row in _top(one, deep)] for one in values]


def _best_of_file(
    connection: Connection, tables: Tables, narrowing: Narrowing, query: NDArray[np.float32], deep: int
) -> list[tuple[str, float]]:
    best: list[tuple[str, float]] = []
    for ids, vectors in iterate_vectors(connection, tables, narrowing):
        _check_dimension(vectors, query)
        values = vectors @ query
        best += [(ids[row], float(values[row])) for row in _top(values, deep)]
        best = sorted(best, key=lambda item: (-item[1], item[0]))[:deep]
    return best


def _top(values: NDArray[np.float32], deep: int) -> NDArray[np.intp]:
    """The *deep* best rows and all that are equal to the last of them: which of equals come first is decided by id, on every page alike."""
    lowest = np.partition(values, len(values) - deep)[len(values) - deep] if deep < len(values) else -np.inf
    return np.flatnonzero((values >= lowest) & (values > -np.inf))


def _check_dimension(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> None:
    if vectors.shape[1] != query.shape[0]:
        raise EmbedderMismatch(
            f"The index holds vectors of {vectors.shape[1]} dimensions, the embedder gave one of {query.shape[0]}: set the embedder "
            "that this ledger was filled with."
        )
