"""Names that memories of a scope share, and the pairs that link them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.ids import derived_id
from memline.ledger.outbox import enqueue
from memline.ledger.pairs import has_pair
from memline.ledger.schema import entities, entity_links, entity_names, memories
from memline.ledger.session import insert

__all__ = ["Made", "Named", "entity_id", "known_names", "link_entities", "memories_of_jobs", "names_of_entities"]


@dataclass(frozen=True, slots=True)
class Named:
    """A name in a lane, about to become an entity or an alias of one."""

    lane: str
    norm: str
    name: str
    type: str
    vector: bytes
    #: Id of the entity of this lane it is another name of.
    alias_of: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A memory as the link stage finds it: its number, and the MD5 of its text."""

    no: int
    md5: str


def entity_id(lane: str, norm: str) -> str:
    """One entity per (scope, normalised name), in whichever process it is met first."""
    return derived_id("entity", lane, norm)


def known_names(connection: Connection, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The entities behind (lane, normalised name), of those that have one."""
    found: dict[tuple[str, str], int] = {}
    for start in range(0, len(names), 400):
        pairs = list(names[start : start + 400])
        rows = connection.execute(has_pair(sa.select(entity_names), entity_names.c.lane, entity_names.c.norm, pairs))
        found |= {(row.lane, row.norm): row.entity_no for row in rows}
    return found


def names_of_entities(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """The normalised names of entities, by id."""
    return {row.id: row.norm for row in connection.execute(sa.select(entities.c.id, entities.c.norm).where(entities.c.id.in_(list(ids))))}


def memories_of_jobs(connection: Connection, job_ids: Sequence[str]) -> dict[tuple[str, int], Made]:
    """By (job, ordinal) the memories that jobs committed and that are not deleted."""
    query = sa.select(memories.c.job_id, memories.c.ordinal, memories.c.no, memories.c.md5).where(
        memories.c.job_id.in_(list(job_ids)), memories.c.state != "deleted"
    )
    return {(row.job_id, row.ordinal): Made(row.no, row.md5) for row in connection.execute(query)}


def link_entities(
    tx: Connection,
    lanes: Mapping[str, tuple[str, int]],
    named: Sequence[Named],
    pairs: Sequence[tuple[str, str, int]],
    *,
    model: str,
    now: datetime,
) -> None:
    """Makes sure of entities and links (lane, normalised name, memory number); a second time changes nothing.

    *lanes*: the namespace and the owner's number of each lane.
    """
    _add_names(tx, lanes, named, model=model, now=now)
    entity_nos = known_names(tx, sorted({(lane, norm) for lane, norm, _ in pairs}))
    rows = sorted({(entity_nos[lane, norm], memory_no) for lane, norm, memory_no in pairs if (lane, norm) in entity_nos})
    if rows:
        tx.execute(
            insert(tx, entity_links).on_conflict_do_nothing(),
            [{"entity_no": entity_no, "memory_no": memory_no} for entity_no, memory_no in rows],
        )


def _add_names(tx: Connection, lanes: Mapping[str, tuple[str, int]], named: Sequence[Named], *, model: str, now: datetime) -> None:
    known = known_names(tx, [(name.lane, name.norm) for name in named])
    new = [name for name in named if (name.lane, name.norm) not in known]
    targets = {
        row.id: row.no
        for row in tx.execute(sa.select(entities.c.id, entities.c.no).where(entities.c.id.in_([n.alias_of for n in new if n.alias_of])))
    }
    firsts = {entity_id(name.lane, name.norm) for name in new if name.alias_of is None}
    own = [name for name in new if name.alias_of not in targets and name.alias_of not in firsts]
    rows = [
        {
            "id": entity_id(name.lane, name.norm),
            "namespace": lanes[name.lane][0],
            "lane": name.lane,
            "owner_no": lanes[name.lane][1],
            "name": name.name,
            "norm": name.norm,
            "type": name.type,
            "version": 1,
            "model": model,
            "vector": name.vector,
            "created_at": now,
        }
        for name in own
    ]
    if rows:
        tx.execute(insert(tx, entities).on_conflict_do_nothing(index_elements=["lane", "norm"]), rows)
        made = tx.execute(
            sa.select(entities.c.no, entities.c.id, entities.c.namespace, entities.c.version).where(
                entities.c.id.in_([row["id"] for row in rows])
            )
        )
        by_id = {row.id: row for row in made}
        enqueue(tx, "entity", {row.id: (row.namespace, row.version) for row in by_id.values()}, now=now)
        targets |= {row.id: row.no for row in by_id.values()}
    names = [
        {
            "lane": name.lane,
            "norm": name.norm,
            "entity_no": targets[name.alias_of if name.alias_of in targets else entity_id(name.lane, name.norm)],
        }
        for name in new
    ]
    if names:
        tx.execute(insert(tx, entity_names).on_conflict_do_nothing(index_elements=["lane", "norm"]), names)
