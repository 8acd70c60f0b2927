"""The entity leg: memories that name what the question names, by exact name or by one that is near.

A match of similarity *s* whose name is in *n* memories that this read lets through counts s / (1 + 0.001 (n - 1)²), as mem0 weighs it: a
name that everything mentions says nothing. Of several matches of a memory the best one counts. The weight (0.5, mem0's) is one of
`weights`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.fact import EntityMention
from memline.contracts.filters import ScopeIds
from memline.ledger.lists import in_list, tuples
from memline.ledger.schema import entities, entity_links, entity_names, lanes, memories
from memline.search.index.port import Index
from memline.search.rows import CandidateRow, Reading, candidate_columns, fetched

__all__ = ["MAX_ENTITIES", "MAX_LINKS", "Mentions", "named_memories", "near_entities"]

#: Entities of a question that are looked for.
MAX_ENTITIES = 8
#: Links that are followed, the most similar names first; a name with more memories than this names nothing in particular.
MAX_LINKS = 500
#: Links that are read for that: some lead to what this read does not let through.
MOST_READ = 4 * MAX_LINKS
#: Least cosine between two names that are taken for the same thing.
SIMILAR = 0.5
#: Similar entities that a name of the question may lead to.
_NEAR = 50


@dataclass(frozen=True, slots=True)
class Mentions:
    """What the entity leg found: by ledger number, how much the best match counts (0 to 1), the names that led there, and the row."""

    strength: Mapping[int, float] = field(default_factory=dict)
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    rows: Mapping[int, CandidateRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Match:
    """An entity that a name of the question leads to."""

    no: int
    name: str
    similarity: float
    #: Its links, `MAX_LINKS` + 1 of them at most.
    links: int


def near_entities(
    index: Index, namespace: str, scopes: Sequence[ScopeIds], vectors: Sequence[NDArray[np.float32]]
) -> tuple[dict[str, float], bool]:
    """Entities whose name is similar to one of *vectors*: id and cosine; False where the index does not answer."""
    found: dict[str, float] = {}
    try:
        for nominee in index.nearest_any("entity", namespace, scopes, vectors, limit=_NEAR):
            if nominee.value >= SIMILAR:
                found[nominee.id] = min(1.0, nominee.value)
    except ServiceUnavailable:
        return found, False
    return found, True


def named_memories(
    connection: Connection,
    namespace: str,
    owner_nos: Sequence[int],
    mentions: Sequence[EntityMention],
    near: Mapping[str, float],
    reading: Reading,
    takes: Callable[[CandidateRow], bool],
) -> Mentions:
    """Memories that *takes* lets through and that are linked to the entities that *mentions* name exactly, or to those in *near*.

    Two statements, a third where a name has more than `MAX_LINKS` links.
    """
    names = list(dict.fromkeys(mention.normalised for mention in mentions))[:MAX_ENTITIES]
    matches = _matches(connection, namespace, owner_nos, names, near)
    followed, left = _followed(connection, matches, reading)
    if not followed:
        return Mentions()
    rows: dict[int, CandidateRow] = {}
    linked: dict[int, list[int]] = {}
    for entity_no, row in _linked(connection, [match.no for match in followed], reading):
        if row.no in rows or takes(row):
            rows[row.no] = row
            linked.setdefault(entity_no, []).append(row.no)
    holders: dict[str, set[int]] = {}
    for match in followed:
        holders.setdefault(match.name, set()).update(linked.get(match.no, ()))
    others = {match.name: match.links for match in left}  # not looked at; they only make a name less particular
    strength: dict[int, float] = {}
    led: dict[int, dict[str, None]] = {}
    number = 0
    for match in followed:
        counts = match.similarity / (1 + 0.001 * (len(holders[match.name]) + others.get(match.name, 0) - 1) ** 2)
        for no in sorted(linked.get(match.no, ()), reverse=True)[: MAX_LINKS - number]:
            number += 1
            strength[no] = max(strength.get(no, 0.0), counts)
            led.setdefault(no, {})[match.name] = None
    return Mentions(strength, {no: tuple(names) for no, names in led.items()}, {no: rows[no] for no in strength})


def _matches(
    connection: Connection, namespace: str, owner_nos: Sequence[int], names: Sequence[str], near: Mapping[str, float]
) -> list[_Match]:
    """The entities behind *names* and *near* that have links, the most similar first."""
    if not near and not (names and owner_nos):
        return []
    given = {"owners": list(owner_nos), "names": list(names), "namespace": namespace, "ids": list(near), "most": MAX_LINKS + 1}
    found: dict[int, _Match] = {}
    for no, name, entity_id, links in tuples(connection.execute(_matching(connection.dialect.name), given)):
        match = _Match(no, name, 1.0 if entity_id is None else near[entity_id], links)
        if links and (no not in found or match.similarity > found[no].similarity):
            found[no] = match
    return sorted(found.values(), key=lambda match: (-match.similarity, match.no))


def _followed(connection: Connection, matches: Sequence[_Match], reading: Reading) -> tuple[list[_Match], list[_Match]]:
    """Those of *matches* whose links are read, and the others: what has too many links, and what comes after `MOST_READ` of them."""
    many = [match.no for match in matches if match.links > MAX_LINKS][:MAX_ENTITIES]
    alive = {}
    if many:  # few of them may be left that may be read
        given = _limits(reading) | {"entities": many, "most": MAX_LINKS + 1}
        alive = dict(tuples(connection.execute(_alive(connection.dialect.name), given)))
    followed, left, read = [], [], 0
    for match in matches:
        links = alive.get(match.no, match.links)
        if links > MAX_LINKS or read + links > MOST_READ:
            left.append(match)
        else:
            read += links
            followed.append(match)
    return followed, left


def _linked(connection: Connection, entity_nos: Sequence[int], reading: Reading) -> list[tuple[int, CandidateRow]]:
    """(entity, memory) for each link to a memory that may be visible."""
    statement = _links(connection.dialect.name, reading.plain, reading.filtered)
    read = fetched(connection.execute(statement, _limits(reading) | {"entities": list(entity_nos)}), reading)
    return [(row[0], CandidateRow(*row[1:])) for row in read]


def _limits(reading: Reading) -> dict[str, Any]:
    """What `_may_be_seen` is to let through; the rows themselves decide."""
    every = reading.looks_at_expired
    return {"states": ["live", "superseded", *(["expired"] if every else [])], "since": date.min if every else reading.today}


def _may_be_seen(dialect: str) -> sa.ColumnElement[bool]:
    since = sa.bindparam("since", type_=sa.Date)
    return sa.and_(in_list(dialect, memories.c.state, "states"), sa.or_(memories.c.expires_on.is_(None), memories.c.expires_on >= since))


@cache
def _matching(dialect: str) -> sa.CompoundSelect[Any]:
    exact = (
        sa.select(entity_names.c.entity_no, entity_names.c.norm, sa.null().cast(sa.Text), _number_of_links(entity_names.c.entity_no))
        .join(lanes, lanes.c.key == entity_names.c.lane)
        .where(in_list(dialect, lanes.c.owner_no, "owners"), in_list(dialect, entity_names.c.norm, "names"))
    )
    near = sa.select(entities.c.no, entities.c.norm, entities.c.id, _number_of_links(entities.c.no)).where(
        entities.c.namespace == sa.bindparam("namespace"), in_list(dialect, entities.c.id, "ids")
    )
    return sa.union_all(exact, near)


def _number_of_links(entity_no: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    some = sa.select(sa.literal(1)).select_from(entity_links).where(entity_links.c.entity_no == entity_no)
    return _counted(some, entity_no)


def _counted(some: sa.Select[Any], entity_no: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """How many rows there are, "most" of them at most."""
    part = some.limit(sa.bindparam("most", type_=sa.Integer)).correlate(entity_no.table).subquery()
    return sa.select(sa.func.count()).select_from(part).scalar_subquery()


@cache
def _alive(dialect: str) -> sa.Select[Any]:
    some = (
        sa.select(sa.literal(1))
        .select_from(entity_links.join(memories, memories.c.no == entity_links.c.memory_no))
        .where(entity_links.c.entity_no == entities.c.no, _may_be_seen(dialect))
    )
    return sa.select(entities.c.no, _counted(some, entities.c.no)).where(in_list(dialect, entities.c.no, "entities"))


@cache
def _links(dialect: str, plain: bool, filtered: bool) -> sa.Select[Any]:
    return (
        sa.select(entity_links.c.entity_no, *candidate_columns(plain, filtered=filtered))
        .join(memories, memories.c.no == entity_links.c.memory_no)
        .where(in_list(dialect, entity_links.c.entity_no, "entities"), _may_be_seen(dialect))
    )
