"""The names that memories share: which there are inside a filter, how many memories name each, and which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from memline.contracts.errors import InvalidInput
from memline.contracts.filters import Filter
from memline.ledger.listing import EntityGroup, Shown, entity_groups, filter_rows_of, linked_memories
from memline.ledger.session import Ledger
from memline.search.check import check_limit
from memline.search.cursor import open_cursor, question_key, seal_cursor
from memline.search.rows import filter_view

__all__ = ["MEMORY_IDS", "EntityItem", "EntityPage", "list_entities"]

#: Memory ids that are told of each entity, unless more are asked for; and the most.
MEMORY_IDS, MOST_MEMORY_IDS = 100, 10_000


@dataclass(slots=True)
class EntityItem:
    """A name within an owner (a user, an agent, both, or a run alone)."""

    #: As it was first written, and what it was taken for then.
    name: str
    type: str
    #: The ids of the owner that are set, under mem0's names.
    owner: Mapping[str, str]
    #: Memories inside the filter that name it.
    count: int = 0
    #: The first of them, in the order of creation.
    memory_ids: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EntityPage:
    """Some entities of a listing."""

    items: list[EntityItem]
    next_cursor: str | None


def list_entities(
    ledger: Ledger, namespace: str, wanted: Filter, *, top_k: int, now: datetime, cursor: object = None, memory_ids: int = MEMORY_IDS
) -> EntityPage:
    """The next *top_k* entities that a live memory inside *wanted* names, in the order of their normalised names.

    A name is one entity within an owner, whatever the runs it was said in. Raises InvalidInput for a bad *top_k* or *memory_ids*,
    InvalidCursor for a *cursor* that is none, or is another question's.
    """
    limit = check_limit(top_k)
    most = _check_most(memory_ids)
    key = question_key("entities", namespace, wanted)
    place = {} if cursor is None else open_cursor(key, cursor, {"norm": str, "owner": int})
    if limit == 0 or not wanted.scopes:
        return EntityPage([], None)
    after = EntityGroup(place["norm"], place["owner"]) if place else None
    found: list[tuple[EntityGroup, EntityItem]] = []
    with ledger.read() as connection:
        for group, item in _walk(connection, namespace, wanted, Shown(now.date()), after=after, size=limit + 1, most=most):
            found.append((group, item))
            if len(found) > limit:
                break
    if len(found) <= limit:
        return EntityPage([item for _, item in found], None)
    last = found[limit - 1][0]
    return EntityPage([item for _, item in found[:limit]], seal_cursor(key, {"norm": last.norm, "owner": last.owner_no}))


def _walk(
    connection: Connection, namespace: str, wanted: Filter, shown: Shown, *, after: EntityGroup | None, size: int, most: int
) -> Iterator[tuple[EntityGroup, EntityItem]]:
    # a filter may pass over most names: it looks at more of them at a time
    most_groups = min(size if wanted.narrows_only_by_scope else max(size, 100), 200)
    while True:
        groups = entity_groups(connection, namespace, wanted.scopes, shown, after=after, limit=most_groups)
        if not groups:
            return
        items = _items(connection, namespace, wanted, shown, groups, most)
        yield from ((group, items[group]) for group in groups if group in items)
        after = groups[-1]


def _items(
    connection: Connection, namespace: str, wanted: Filter, shown: Shown, groups: Sequence[EntityGroup], most: int
) -> dict[EntityGroup, EntityItem]:
    links = linked_memories(connection, namespace, wanted.scopes, shown, groups)
    inside = None
    if not wanted.narrows_only_by_scope:
        nos = sorted({link.memory_no for link in links})
        inside = {row.no for row in filter_rows_of(connection, nos) if wanted.matches(filter_view(row))}
    ids: dict[EntityGroup, dict[int, str]] = {}
    items: dict[EntityGroup, EntityItem] = {}
    for link in links:
        if inside is None or link.memory_no in inside:
            group = EntityGroup(link.norm, link.owner_no)
            items.setdefault(group, EntityItem(link.name, link.type, _owner_of(link)))
            ids.setdefault(group, {})[link.memory_no] = link.memory_id
    for group, item in items.items():
        item.count = len(ids[group])
        item.memory_ids = [memory_id for _, memory_id in sorted(ids[group].items())[:most]]
    return items


def _owner_of(link: Any) -> dict[str, str]:
    owner = {"user_id": link.user_id, "agent_id": link.agent_id}
    named = {name: value for name, value in owner.items() if value is not None}
    return named or {"run_id": link.run_id}


def _check_most(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"memory_ids must be a whole number, not {type(value).__name__}.")
    if not 0 <= value <= MOST_MEMORY_IDS:
        raise InvalidInput(f"memory_ids must lie between 0 and {MOST_MEMORY_IDS}.")
    return value
