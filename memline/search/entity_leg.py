"""The entity leg: memories that name what the question names, by exact name or by one that is near.

A match of similarity *s* whose entity is named by *n* memories inside the read counts s / (1 + 0.001 (n - 1)²), as mem0 weighs it: a
name that everything mentions says nothing. Of several matches of a memory the best one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.fact import EntityMention
from memline.contracts.filters import ScopeIds
from memline.ledger.memories import within
from memline.ledger.schema import entities, entity_links, entity_names, lanes, memories
from memline.search.index.port import Index

__all__ = ["MAX_ENTITIES", "MAX_LINKS", "Mentions", "named_memories", "near_entities"]

#: Entities of a question that are looked for.
MAX_ENTITIES = 8
#: Links that are followed; an entity with more memories than this names nothing in particular.
MAX_LINKS = 500
#: Least cosine between two names that are taken for the same thing.
SIMILAR = 0.5
#: Similar entities that a name of the question may lead to.
_NEAR = 50


@dataclass(frozen=True, slots=True)
class Mentions:
    """What the entity leg found: by ledger number, how much the best match counts (0 to 1), and the names that led there."""

    strength: Mapping[int, float]
    names: Mapping[int, tuple[str, ...]]


def near_entities(
    index: Index, namespace: str, scopes: Sequence[ScopeIds], vectors: Sequence[NDArray[np.float32]]
) -> tuple[dict[str, float], bool]:
    """Entities whose name is similar to one of *vectors*: id and cosine; False where the index does not answer."""
    found: dict[str, float] = {}
    try:
        for vector in vectors:
            for nominee in index.nearest("entity", namespace, scopes, vector, limit=_NEAR):
                if nominee.value >= SIMILAR:
                    found[nominee.id] = max(found.get(nominee.id, 0.0), min(1.0, nominee.value))
    except ServiceUnavailable:
        return found, False
    return found, True


def named_memories(
    connection: Connection,
    namespace: str,
    scopes: Sequence[ScopeIds],
    owner_nos: Sequence[int],
    mentions: Sequence[EntityMention],
    near: Mapping[str, float],
) -> Mentions:
    """Live memories in *scopes* linked to the entities that *mentions* name exactly, or to those in *near*; four statements at most."""
    names = list(dict.fromkeys(mention.normalised for mention in mentions))[:MAX_ENTITIES]
    matched = _exact(connection, owner_nos, names)
    matched |= {no: (norm, near[entity_id]) for no, entity_id, norm in _by_id(connection, namespace, list(near)) if no not in matched}
    usable = _not_everywhere(connection, list(matched))
    if not usable:
        return Mentions({}, {})
    usable.sort(key=lambda no: (-matched[no][1], no))
    links = _links(connection, namespace, scopes, usable)
    by_name: dict[str, set[int]] = {}
    for entity_no, memory_no in links:
        by_name.setdefault(matched[entity_no][0], set()).add(memory_no)
    strength: dict[int, float] = {}
    led: dict[int, list[str]] = {}
    followed = 0
    for entity_no in usable:
        name, similarity = matched[entity_no]
        counts = similarity / (1 + 0.001 * (len(by_name.get(name, ())) - 1) ** 2)
        for _, memory_no in (link for link in links if link[0] == entity_no):
            followed += 1
            if followed > MAX_LINKS:
                return Mentions(strength, {no: tuple(found) for no, found in led.items()})
            strength[memory_no] = max(strength.get(memory_no, 0.0), counts)
            if name not in led.setdefault(memory_no, []):
                led[memory_no].append(name)
    return Mentions(strength, {no: tuple(found) for no, found in led.items()})


def _exact(connection: Connection, owner_nos: Sequence[int], names: Sequence[str]) -> dict[int, tuple[str, float]]:
    if not names or not owner_nos:
        return {}
    query = (
        sa.select(entity_names.c.entity_no, entity_names.c.norm)
        .join(lanes, lanes.c.key == entity_names.c.lane)
        .where(lanes.c.owner_no.in_(list(owner_nos)), entity_names.c.norm.in_(list(names)))
    )
    return {no: (norm, 1.0) for no, norm in connection.execute(query).all()}


def _by_id(connection: Connection, namespace: str, ids: Sequence[str]) -> list[tuple[int, str, str]]:
    if not ids:
        return []
    query = sa.select(entities.c.no, entities.c.id, entities.c.norm).where(entities.c.id.in_(list(ids)), entities.c.namespace == namespace)
    return [(no, entity_id, norm) for no, entity_id, norm in connection.execute(query).all()]


def _not_everywhere(connection: Connection, entity_nos: Sequence[int]) -> list[int]:
    if not entity_nos:
        return []
    query = (
        sa.select(entity_links.c.entity_no)
        .where(entity_links.c.entity_no.in_(list(entity_nos)))
        .group_by(entity_links.c.entity_no)
        .having(sa.func.count() <= MAX_LINKS)
    )
    return list(connection.execute(query).scalars())


def _links(connection: Connection, namespace: str, scopes: Sequence[ScopeIds], entity_nos: Sequence[int]) -> list[tuple[int, int]]:
    # an entity has at most MAX_LINKS links and there are at most a few hundred of them; the limit keeps a pathological read short
    query = (
        sa.select(entity_links.c.entity_no, entity_links.c.memory_no)
        .join(memories, memories.c.no == entity_links.c.memory_no)
        .where(entity_links.c.entity_no.in_(list(entity_nos)), within(namespace, scopes), memories.c.state == "live")
        .order_by(entity_links.c.entity_no, entity_links.c.memory_no.desc())
        .limit(20 * MAX_LINKS)
    )
    return [(entity_no, memory_no) for entity_no, memory_no in connection.execute(query).all()]
