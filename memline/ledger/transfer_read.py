"""What an export reads: memories whole, with history, links and vectors, page by page in the order in which they were made.

All pages come from one transaction, which sees the ledger as it was when it began (SQLite's WAL does so by itself, PostgreSQL is asked
to): writers go on meanwhile, and none of what they do is in it. While it is open SQLite's WAL is not shortened, and PostgreSQL keeps the
rows it can still see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.fact import Relation
from memline.contracts.filters import ScopeIds
from memline.contracts.portable import PortableEvent, PortableLink, PortableMemory, PortableSighting
from memline.contracts.scope import Scope
from memline.ledger.memories import MemoryRow, load_memories, load_vectors, within
from memline.ledger.schema import history, memories, memory_links, sightings
from memline.ledger.session import Ledger

__all__ = ["PAGE", "Wanted", "count_wanted", "read_memories", "snapshot"]

#: Memories of a page: what is in this process at a time.
PAGE = 200

_STATES = ("live", "superseded", "expired")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which memories, and what of them. *ids*: scope ids that all must be equal, under mem0's names; none: the whole namespace."""

    namespace: str
    ids: Mapping[str, str]
    history: bool = True
    #: Model of the vectors that are wanted, too; None: none are.
    vectors_of: str | None = None


@contextmanager
def snapshot(ledger: Ledger) -> Iterator[Connection]:
    """A read transaction that sees one moment of the ledger, however long it lasts."""
    with ledger.read() as connection:
        if not ledger.is_sqlite:
            connection.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        yield connection


def count_wanted(connection: Connection, wanted: Wanted) -> int:
    """How many memories `read_memories` yields in this transaction."""
    query = sa.select(sa.func.count()).select_from(memories)
    return connection.execute(query.where(*_which(wanted))).scalar_one()


def read_memories(connection: Connection, wanted: Wanted, *, page: int = PAGE) -> Iterator[PortableMemory]:
    """Every memory that is not deleted, in the order in which they were made."""
    after = 0
    while True:
        nos = connection.execute(sa.select(memories.c.no).where(*_which(wanted), memories.c.no > after).order_by(memories.c.no).limit(page))
        rows = sorted(load_memories(connection, wanted.namespace, nos=nos.scalars()), key=lambda row: row.no)
        if not rows:
            return
        events = _events(connection, [row.id for row in rows]) if wanted.history else {}
        links = _links(connection, [row.no for row in rows])
        seen = _sightings(connection, [row.no for row in rows])
        found = load_vectors(connection, [row.no for row in rows], model=wanted.vectors_of) if wanted.vectors_of is not None else {}
        for row in rows:
            told = tuple(events.get(row.id, ())) if wanted.history else None
            memory = _portable(row, told, found.get(row.no))
            yield replace(memory, links=tuple(links.get(row.no, ())), sightings=tuple(seen.get(row.no, ())))
        after = rows[-1].no


def _which(wanted: Wanted) -> tuple[sa.ColumnElement[bool], ...]:
    inside = within(wanted.namespace, [ScopeIds(**wanted.ids)]) if wanted.ids else memories.c.namespace == wanted.namespace
    return inside, memories.c.state.in_(_STATES)


def _portable(row: MemoryRow, events: tuple[PortableEvent, ...] | None, vector: bytes | None) -> PortableMemory:
    return PortableMemory(
        id=row.id,
        scope=Scope(row.namespace, row.user_id, row.agent_id, row.run_id),
        text=row.text,
        state=row.state,
        created_at=row.created_at,
        updated_at=row.updated_at,
        occurred_at=row.occurred_at,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        superseded_by=row.superseded_by,
        expires_on=row.expires_on,
        version=row.version,
        verbatim=row.verbatim,
        metadata=row.metadata,
        attributed_to=row.attributed_to,
        role=row.role,
        actor_id=row.actor_id,
        memory_type=row.memory_type,
        slot=row.slot,
        turn=row.job_id,
        history=events,
        vector=vector,
    )


_EVENT_COLUMNS = tuple(history.c[name] for name in PortableEvent.__dataclass_fields__)


def _events(connection: Connection, ids: Sequence[str]) -> dict[str, list[PortableEvent]]:
    query = sa.select(history.c.memory_id, *_EVENT_COLUMNS).where(history.c.memory_id.in_(list(ids)))
    found: dict[str, list[PortableEvent]] = {}
    for memory_id, *values in connection.execute(query.order_by(history.c.memory_id, history.c.version)):
        found.setdefault(memory_id, []).append(PortableEvent(**dict(zip(PortableEvent.__dataclass_fields__, values, strict=True))))
    return found


def _links(connection: Connection, nos: Sequence[int]) -> dict[int, list[PortableLink]]:
    query = (
        sa.select(memory_links.c.memory_no, memories.c.id, memory_links.c.relation)
        .join(memories, memories.c.no == memory_links.c.to_no)
        .where(memory_links.c.memory_no.in_(list(nos)), memories.c.state != "deleted")
        .order_by(memory_links.c.memory_no, memory_links.c.to_no)
    )
    found: dict[int, list[PortableLink]] = {}
    for no, to, relation in connection.execute(query):
        found.setdefault(no, []).append(PortableLink(to, Relation(relation)))
    return found


def _sightings(connection: Connection, nos: Sequence[int]) -> dict[int, list[PortableSighting]]:
    query = sa.select(sightings.c.memory_no, sightings.c.job_id, sightings.c.said_at).where(sightings.c.memory_no.in_(list(nos)))
    found: dict[int, list[PortableSighting]] = {}
    for no, turn, at in connection.execute(query.order_by(sightings.c.memory_no, sightings.c.said_at, sightings.c.job_id)):
        found.setdefault(no, []).append(PortableSighting(turn, at))
    return found
