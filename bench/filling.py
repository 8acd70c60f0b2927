"""Memories put straight into a ledger and its embedded index, as the pipeline would leave them: for measuring search alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.content_hash import content_hash, text_md5
from memline.contracts.fact import Analysis
from memline.contracts.ids import derived_id
from memline.contracts.index_object import IndexObject, ObjectKey
from memline.contracts.scope import Scope
from memline.ledger.schema import entities, entity_links, entity_names, lanes, memories, owners, postings, vectors
from memline.ledger.seats import ensure_lanes
from memline.ledger.session import Ledger
from memline.search.index.port import Index, Write

__all__ = ["Item", "fill"]


@dataclass(frozen=True, slots=True)
class Item:
    """A verbatim memory: one turn of a lane."""

    text: str
    analysis: Analysis
    vector: NDArray[np.float32]
    occurred_at: datetime
    actor: str | None = None
    role: str | None = None
    #: By name of an entity (normalised) its vector; a name that is missing here gets the memory's.
    names: dict[str, NDArray[np.float32]] | None = None


def fill(ledger: Ledger, index: Index, scope: Scope, items: Sequence[Item], *, model: str) -> list[str]:
    """Writes *items* as the turns of an empty lane; their ids, in order. Items with equal content share the first one's id."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    writes: list[Write] = []
    with ledger.write() as tx:
        ensure_lanes(tx, [scope], now=now)
        lane, owner_no = tx.execute(sa.select(lanes.c.key, lanes.c.owner_no).where(lanes.c.key == scope.lane)).one()
        rows, ids = _memory_rows(scope, lane, owner_no, items, now)
        tx.execute(sa.insert(memories), list(rows.values()))
        numbers = {memory_id: no for memory_id, no in tx.execute(sa.select(memories.c.id, memories.c.no).where(memories.c.lane == lane))}
        by_id = {memory_id: items[int(row["place"]) - 1] for memory_id, row in rows.items()}
        counts = {memory_id: Counter(item.analysis.terms) for memory_id, item in by_id.items()}
        tx.execute(
            sa.insert(postings),
            [
                {
                    "owner_no": owner_no,
                    "term": term,
                    "memory_no": numbers[memory_id],
                    "tf": tf,
                    "length": rows[memory_id]["length"],
                    "live": True,
                }
                for memory_id, found in counts.items()
                for term, tf in found.items()
            ],
        )
        tx.execute(
            sa.insert(vectors),
            [
                {"memory_no": numbers[memory_id], "model": model, "dimension": len(item.vector), "vector": item.vector.tobytes()}
                for memory_id, item in by_id.items()
            ],
        )
        length = sum(row["length"] for row in rows.values())
        tx.execute(sa.update(owners).where(owners.c.no == owner_no).values(live=owners.c.live + len(rows), length=owners.c.length + length))
        for memory_id, item in by_id.items():
            key = ObjectKey("memory", scope.namespace, memory_id)
            terms = tuple(sorted(item.analysis.terms))
            writes.append(Write(key, IndexObject(key, 1, scope.user_id, scope.agent_id, scope.run_id, terms, item.vector.tobytes())))
        writes += _write_entities(tx, scope, lane, owner_no, {numbers[memory_id]: item for memory_id, item in by_id.items()}, model, now)
    index.write(writes)
    return ids


def _memory_rows(
    scope: Scope, lane: str, owner_no: int, items: Sequence[Item], now: datetime
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    rows: dict[str, dict[str, Any]] = {}
    ids: list[str] = []
    first: dict[str, str] = {}
    for place, item in enumerate(items, 1):
        hashed = content_hash(item.text)
        if hashed in first:
            ids.append(first[hashed])
            continue
        memory_id = derived_id("bench", lane, str(place))
        first[hashed] = memory_id
        ids.append(memory_id)
        rows[memory_id] = {
            "id": memory_id,
            "namespace": scope.namespace,
            "lane": lane,
            "owner_no": owner_no,
            "user_id": scope.user_id,
            "agent_id": scope.agent_id,
            "run_id": scope.run_id,
            "job_id": memory_id,
            "ordinal": 0,
            "place": place,
            "state": "live",
            "version": 1,
            "text": item.text,
            "content_hash": hashed,
            "md5": text_md5(item.text),
            "digest": "",
            "length": len(item.analysis.terms),
            "metadata": {},
            "attributed_to": "user",
            "role": item.role,
            "actor_id": item.actor,
            "verbatim": True,
            "occurred_at": item.occurred_at,
            "created_at": now,
            "updated_at": now,
            "valid_from": item.occurred_at,
        }
    return rows, ids


def _write_entities(
    tx: Connection, scope: Scope, lane: str, owner_no: int, items: dict[int, Item], model: str, now: datetime
) -> list[Write]:
    found: dict[str, tuple[str, str, NDArray[np.float32]]] = {}
    for item in items.values():
        for mention in item.analysis.entities:
            vector = (item.names or {}).get(mention.normalised, item.vector)
            found.setdefault(mention.normalised, (mention.name, mention.type, vector))
    if not found:
        return []
    tx.execute(
        sa.insert(entities),
        [
            {
                "id": derived_id("bench-entity", lane, norm),
                "namespace": scope.namespace,
                "lane": lane,
                "owner_no": owner_no,
                "name": name,
                "norm": norm,
                "type": type_,
                "version": 1,
                "model": model,
                "vector": vector.tobytes(),
                "created_at": now,
            }
            for norm, (name, type_, vector) in found.items()
        ],
    )
    numbers = {norm: no for norm, no in tx.execute(sa.select(entities.c.norm, entities.c.no).where(entities.c.lane == lane))}
    tx.execute(sa.insert(entity_names), [{"lane": lane, "norm": norm, "entity_no": no} for norm, no in numbers.items()])
    tx.execute(
        sa.insert(entity_links),
        [
            {"entity_no": numbers[norm], "memory_no": memory_no}
            for memory_no, item in items.items()
            for norm in {mention.normalised for mention in item.analysis.entities}
        ],
    )
    writes = []
    for norm, (_, _, vector) in found.items():
        key = ObjectKey("entity", scope.namespace, derived_id("bench-entity", lane, norm))
        writes.append(Write(key, IndexObject(key, 1, scope.user_id, scope.agent_id, scope.run_id, (norm,), vector.tobytes())))
    return writes
