"""Reading the committed set: by id, by scope, by neighbourhood, and as index objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from memline.contracts.filters import ScopeIds
from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.ledger.bounds import bounded
from memline.ledger.lists import in_list, tuples
from memline.ledger.schema import entities, lanes, memories, next_entity_vectors, next_vectors, owners, postings, vectors
from memline.ledger.vectors import current_entity_vector, current_model, current_vector, current_vectors, entities_with_vectors

T = TypeVar("T")

__all__ = [
    "MemoryRow",
    "count_memories",
    "ids_ever_known",
    "index_objects",
    "list_memories",
    "load_memories",
    "load_memory",
    "load_vectors",
    "namespaces_with_lanes",
    "owners_of",
    "should_be_indexed",
    "versions_of",
    "within",
]


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A memory as the ledger has it."""

    no: int
    id: str
    namespace: str
    lane: str
    owner_no: int
    user_id: str | None
    agent_id: str | None
    run_id: str | None
    job_id: str
    place: int
    ordinal: int
    state: str
    version: int
    text: str
    content_hash: str
    md5: str
    length: int
    metadata: dict[str, Any]
    attributed_to: str | None
    role: str | None
    actor_id: str | None
    memory_type: str | None
    verbatim: bool
    slot: str | None
    message: int | None
    expires_on: date | None
    occurred_at: datetime
    created_at: datetime
    updated_at: datetime
    valid_from: datetime
    valid_to: datetime | None
    superseded_by: str | None
    span_start: int | None = None
    span_end: int | None = None

    def is_expired(self, today: date) -> bool:
        """An expiration date is inclusive, in UTC: the memory is there on that day and not after it."""
        return self.state == "expired" or (self.expires_on is not None and self.expires_on < today)


_COLUMNS = [memories.c[name] for name in MemoryRow.__dataclass_fields__]


def _row(row: Row[Any]) -> MemoryRow:
    return MemoryRow(*tuple(row))


def load_memory(connection: Connection, namespace: str, memory_id: str, bound: ScopeIds | None = None) -> MemoryRow | None:
    """A memory that is not deleted; None for an unknown id, for one of another namespace, and for one outside *bound*."""
    query = sa.select(*_COLUMNS).where(memories.c.id == memory_id, memories.c.namespace == namespace, memories.c.state != "deleted")
    row = connection.execute(query.where(*bounded(memories, bound))).one_or_none()
    return None if row is None else _row(row)


def load_memories(connection: Connection, namespace: str, nos: Iterable[int] = (), ids: Iterable[str] = ()) -> list[MemoryRow]:
    """The rows behind ledger numbers and ids, in no order; deleted ones are left out."""
    found: dict[int, MemoryRow] = {}
    for column, wanted in ((memories.c.no, list(nos)), (memories.c.id, list(ids))):
        for chunk in _chunks(wanted):
            # the namespace is asked of the rows: SQLite would walk the whole namespace rather than look up the ids
            rows = connection.execute(_whole(connection.dialect.name, column.name), {"wanted": list(chunk)})
            found |= {row.no: row for row in map(_row, rows) if row.namespace == namespace}
    return list(found.values())


@cache
def _whole(dialect: str, column: str) -> sa.Select[Any]:
    return sa.select(*_COLUMNS).where(in_list(dialect, memories.c[column], "wanted"), memories.c.state != "deleted")


def within(namespace: str, scopes: Sequence[ScopeIds]) -> sa.ColumnElement[bool]:
    """The condition that a memory lies in a namespace and in at least one of *scopes*."""
    branches = [
        sa.and_(*(memories.c[name] == value for name in ("user_id", "agent_id", "run_id") if (value := getattr(scope, name)) is not None))
        for scope in scopes
    ]
    return sa.and_(memories.c.namespace == namespace, sa.or_(*branches) if branches else sa.false())


def list_memories(
    connection: Connection,
    namespace: str,
    scopes: Sequence[ScopeIds],
    *,
    after: int = 0,
    limit: int = 500,
    states: Sequence[str] = ("live",),
) -> list[MemoryRow]:
    """Memories in order of creation, from the ledger number *after* (exclusive) on."""
    query = (
        sa.select(*_COLUMNS)
        .where(within(namespace, scopes), memories.c.no > after, memories.c.state.in_(states))
        .order_by(memories.c.no)
        .limit(limit)
    )
    return [_row(row) for row in connection.execute(query)]


def count_memories(connection: Connection, namespace: str, scopes: Sequence[ScopeIds] | None = None) -> int:
    """How many memories are live, of a whole namespace where *scopes* is None."""
    where = memories.c.namespace == namespace if scopes is None else within(namespace, scopes)
    return connection.execute(sa.select(sa.func.count()).select_from(memories).where(where, memories.c.state == "live")).scalar_one()


def owners_of(connection: Connection, namespace: str, scopes: Sequence[ScopeIds]) -> list[int]:
    """Numbers of the owners that have a memory in one of *scopes*: the postings to read."""
    found: set[int] = set()
    for scope in scopes:
        ids = scope.ids()
        found |= {no for (no,) in tuples(connection.execute(_owners(tuple(ids)), {"namespace": namespace} | ids))}
    return sorted(found)


@cache
def _owners(named: tuple[str, ...]) -> sa.Select[Any]:
    """Owners by namespace and the ids that are *named*; a run is none of an owner's, and its memories tell whose they are."""
    if "run_id" in named:
        columns, query = memories.c, sa.select(memories.c.owner_no).distinct()
    else:
        columns, query = owners.c, sa.select(owners.c.no)
    return query.where(*(columns[name] == sa.bindparam(name) for name in ("namespace", *named)))


def load_vectors(connection: Connection, nos: Iterable[int], *, model: str) -> dict[int, bytes]:
    """float32 vectors of *model* by ledger number: those of another are compared with nothing."""
    found: dict[int, bytes] = {}
    query = sa.select(vectors.c.memory_no, current_vector).select_from(current_vectors).where(current_model == model)
    for chunk in _chunks(list(nos)):
        found |= {no: bytes(vector) for no, vector in connection.execute(query.where(vectors.c.memory_no.in_(chunk)))}
    return found


def index_objects(
    connection: Connection, keys: Sequence[ObjectKey], *, whole: bool = True, upcoming: bool = False
) -> dict[ObjectKey, IndexObject]:
    """What an index should hold under *keys*, from the rows as they are now. A key that is missing in the answer should not be there.

    *whole* False leaves the vectors empty: enough to compare digests. *upcoming*: of the index of the next embedder, with its vectors; an
    object that has none of the text it has now should not be there yet.
    """
    found: dict[ObjectKey, IndexObject] = {}
    wanted = set(keys)
    now = memories.join(current_vectors, vectors.c.memory_no == memories.c.no)
    made = sa.and_(next_vectors.c.memory_no == memories.c.no, next_vectors.c.source == memories.c.digest)
    source, vector = (memories.join(next_vectors, made), next_vectors.c.vector) if upcoming else (now, current_vector)
    for chunk in _chunks([key.id for key in keys if key.kind == "memory"]):
        query = (
            sa.select(
                memories.c.no,
                memories.c.id,
                memories.c.namespace,
                memories.c.version,
                memories.c.user_id,
                memories.c.agent_id,
                memories.c.run_id,
                vector if whole else _NO_VECTOR,
            )
            .select_from(source)
            .where(memories.c.id.in_(chunk), memories.c.state.in_(("live", "superseded")))
        )
        rows = connection.execute(query).all()
        terms = _terms(connection, [row.no for row in rows])
        for row in rows:
            key = ObjectKey("memory", row.namespace, row.id)
            found[key] = IndexObject(key, row.version, row.user_id, row.agent_id, row.run_id, terms.get(row.no, ()), bytes(row.vector))
    for chunk in _chunks([key.id for key in keys if key.kind == "entity"]):
        found |= {entity.key: entity for entity in _entities(connection, chunk, whole=whole, upcoming=upcoming)}
    # an id that is asked for in another namespace than its own should not be there
    return {key: each for key, each in found.items() if key in wanted}


_NO_VECTOR = sa.literal(b"", sa.LargeBinary).label("vector")


def _terms(connection: Connection, nos: Sequence[int]) -> Mapping[int, tuple[str, ...]]:
    query = sa.select(postings.c.memory_no, postings.c.term, postings.c.tf).where(postings.c.memory_no.in_(list(nos)))
    found: dict[int, list[str]] = {}
    for no, term, tf in connection.execute(query):
        found.setdefault(no, []).extend([term] * tf)
    return {no: tuple(sorted(terms)) for no, terms in found.items()}


def _entities(connection: Connection, ids: Sequence[str], *, whole: bool, upcoming: bool) -> list[IndexObject]:
    upcoming_of = next_entity_vectors.c
    made = sa.and_(upcoming_of.entity_no == entities.c.no, upcoming_of.source == sa.cast(entities.c.version, sa.Text))
    source = entities.join(next_entity_vectors, made) if upcoming else entities_with_vectors
    vector = upcoming_of.vector if upcoming else current_entity_vector
    query = (
        sa.select(
            entities.c.id,
            entities.c.namespace,
            entities.c.version,
            entities.c.norm,
            vector if whole else _NO_VECTOR,
            lanes.c.user_id,
            lanes.c.agent_id,
            lanes.c.run_id,
        )
        .select_from(source.join(lanes, lanes.c.key == entities.c.lane))
        .where(entities.c.id.in_(list(ids)))
    )
    return [
        IndexObject(
            ObjectKey("entity", row.namespace, row.id), row.version, row.user_id, row.agent_id, row.run_id, (row.norm,), bytes(row.vector)
        )
        for row in connection.execute(query)
    ]


def _chunks(items: Sequence[T], size: int = 500) -> Iterable[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def should_be_indexed(connection: Connection, kind: Kind, namespace: str, *, after: str, limit: int) -> list[str]:
    """Ids, in order, of the objects of a namespace that an index should hold."""
    table = memories if kind == "memory" else entities
    query = sa.select(table.c.id).where(table.c.namespace == namespace, table.c.id > after).order_by(table.c.id).limit(limit)
    if kind == "memory":
        query = query.where(memories.c.state.in_(("live", "superseded")))
    return list(connection.execute(query).scalars())


def ids_ever_known(connection: Connection, ids: Sequence[str], *, namespace: str) -> set[str]:
    """Those of *ids* that are or were memories of a namespace."""
    return {
        row.id
        for chunk in _chunks(ids)
        for row in connection.execute(sa.select(memories.c.id, memories.c.namespace).where(memories.c.id.in_(chunk)))
        if row.namespace == namespace
    }


def namespaces_with_lanes(connection: Connection) -> list[str]:
    """Namespaces in which a turn was ever accepted."""
    return sorted(connection.execute(sa.select(lanes.c.namespace).distinct()).scalars())


def versions_of(connection: Connection, kind: Kind, ids: Sequence[str]) -> dict[str, int]:
    """The version of each object, by id."""
    table = memories if kind == "memory" else entities
    return {
        row.id: row.version
        for chunk in _chunks(ids)
        for row in connection.execute(sa.select(table.c.id, table.c.version).where(table.c.id.in_(chunk)))
    }
