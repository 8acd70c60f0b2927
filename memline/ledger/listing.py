"""The committed set page by page, in the order of creation, and what can be counted of it without looking at a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.ledger.memories import MemoryRow, load_memories, owners_of, within
from memline.ledger.schema import entities, entity_links, lanes, memories

__all__ = [
    "EntityGroup",
    "FilterRow",
    "Shown",
    "count_shown",
    "entity_groups",
    "filter_pages",
    "filter_rows_of",
    "linked_memories",
    "load_shown",
    "shown_page",
]

#: A memory in the columns that a filter can ask for, with `no` and `id`; without its text.
FilterRow = sa.Row[*tuple[Any, ...]]

_ASKED = (
    "no", "id", "metadata", "role", "actor_id", "attributed_to", "memory_type", "expires_on", "user_id", "agent_id", "run_id",
    "created_at", "updated_at", "occurred_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """Which memories a listing shows: live ones whose last day is not over, and what is asked for beside them."""

    today: date
    expired: bool = False
    superseded: bool = False

    @property
    def condition(self) -> sa.ColumnElement[bool]:
        states = ["live", *["expired"] * self.expired, *["superseded"] * self.superseded]
        known = memories.c.state.in_(states)
        if self.expired:
            return known
        return sa.and_(known, sa.or_(memories.c.expires_on.is_(None), memories.c.expires_on >= self.today))

    def shows(self, row: MemoryRow) -> bool:
        """The same of a row (not deleted) that was read."""
        return (self.expired or not row.is_expired(self.today)) and (self.superseded or row.state != "superseded")


def shown_page(
    connection: Connection, namespace: str, scopes: Sequence[ScopeIds], shown: Shown, *, after: int, limit: int
) -> list[MemoryRow]:
    """The next *limit* memories after the ledger number *after*."""
    query = (
        sa.select(*(memories.c[name] for name in MemoryRow.__dataclass_fields__))
        .where(within(namespace, scopes), memories.c.no > after, shown.condition)
        .order_by(memories.c.no)
        .limit(limit)
    )
    return [MemoryRow(**row._mapping) for row in connection.execute(query)]


def count_shown(connection: Connection, namespace: str, scopes: Sequence[ScopeIds], shown: Shown) -> int:
    """How many there are in *scopes*; one statement."""
    query = sa.select(sa.func.count()).select_from(memories).where(within(namespace, scopes), shown.condition)
    return connection.execute(query).scalar_one()


def filter_pages(
    connection: Connection, namespace: str, scopes: Sequence[ScopeIds], shown: Shown, *, after: int = 0, size: int = 1000
) -> Iterator[Sequence[FilterRow]]:
    """What a filter is asked about, page by page: in bounded memory, whatever the scope holds."""
    while True:
        query = (
            sa.select(*(memories.c[name] for name in _ASKED))
            .where(within(namespace, scopes), memories.c.no > after, shown.condition)
            .order_by(memories.c.no)
            .limit(size)
        )
        page = connection.execute(query).all()
        if page:
            yield page
        if len(page) < size:
            return
        after = page[-1].no


def load_shown(connection: Connection, namespace: str, nos: Sequence[int], shown: Shown) -> list[MemoryRow]:
    """The memories behind *nos* that may still be shown, in their order."""
    return sorted((row for row in load_memories(connection, namespace, nos=nos) if shown.shows(row)), key=lambda row: row.no)


@dataclass(frozen=True, slots=True)
class EntityGroup:
    """A name within an owner: the entities of this name in each of the owner's scopes."""

    norm: str
    owner_no: int


def entity_groups(
    connection: Connection,
    namespace: str,
    scopes: Sequence[ScopeIds],
    shown: Shown,
    *,
    after: EntityGroup | None,
    limit: int,
) -> list[EntityGroup]:
    """The next *limit* names that a shown memory in *scopes* has, in the order of name (by code point) and owner."""
    owner_nos = owners_of(connection, namespace, scopes)
    if not owner_nos:
        return []
    # SQLite orders text by code point anyway, and told so again it would not use the index
    norm: sa.ColumnElement[str] = entities.c.norm if connection.dialect.name == "sqlite" else sa.collate(entities.c.norm, "C")
    named = (
        sa.exists()
        .where(entity_links.c.entity_no == entities.c.no, memories.c.no == entity_links.c.memory_no, shown.condition)
        .correlate(entities)
    )
    query = (
        sa.select(norm.label("norm"), entities.c.owner_no)
        .join(lanes, lanes.c.key == entities.c.lane)
        .where(entities.c.owner_no.in_(owner_nos), _of_lanes(namespace, scopes), named)
        .distinct()
        .order_by(norm, entities.c.owner_no)
        .limit(limit)
    )
    if after is not None:
        query = query.where(norm >= after.norm, sa.or_(norm > after.norm, entities.c.owner_no > after.owner_no))
    return [EntityGroup(row.norm, row.owner_no) for row in connection.execute(query)]


def linked_memories(
    connection: Connection, namespace: str, scopes: Sequence[ScopeIds], shown: Shown, groups: Sequence[EntityGroup]
) -> list[sa.Row[*tuple[Any, ...]]]:
    """What names of *groups* are linked to: (owner_no, norm, name, type, entity_no, memory_no), oldest entity and memory first."""
    query = (
        sa.select(
            entities.c.owner_no,
            entities.c.norm,
            entities.c.name,
            entities.c.type,
            entities.c.no.label("entity_no"),
            memories.c.no.label("memory_no"),
            memories.c.id.label("memory_id"),
            lanes.c.user_id,
            lanes.c.agent_id,
            lanes.c.run_id,
        )
        .join(entity_links, entity_links.c.entity_no == entities.c.no)
        .join(memories, memories.c.no == entity_links.c.memory_no)
        .join(lanes, lanes.c.key == entities.c.lane)
        .where(
            entities.c.owner_no.in_({group.owner_no for group in groups}),
            entities.c.norm.in_({group.norm for group in groups}),
            _of_lanes(namespace, scopes),
            shown.condition,
        )
        .order_by(entities.c.no, memories.c.no)
    )
    wanted = {(group.owner_no, group.norm) for group in groups}
    return [row for row in connection.execute(query) if (row.owner_no, row.norm) in wanted]


def _of_lanes(namespace: str, scopes: Sequence[ScopeIds]) -> sa.ColumnElement[bool]:
    """The same as `within`, asked of lanes: an entity and the memories that name it are of one.

    Asked of the memories, SQLite would walk all that the scope has for each entity, rather than look up the few that name it.
    """
    branches = [
        sa.and_(lanes.c.namespace == namespace, *(lanes.c[name] == value for name, value in scope.ids().items())) for scope in scopes
    ]
    return sa.or_(*branches) if branches else sa.false()


def filter_rows_of(connection: Connection, nos: Sequence[int], *, size: int = 1000) -> Iterator[FilterRow]:
    """What a filter is asked about of the memories behind *nos*."""
    for start in range(0, len(nos), size):
        query = sa.select(*(memories.c[name] for name in _ASKED)).where(memories.c.no.in_(nos[start : start + size]))
        yield from connection.execute(query).all()
