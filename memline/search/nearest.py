"""The live memories of an owner that are nearest to a text: what an extraction is shown, so that it can link and replace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.filters import ScopeIds
from memline.contracts.scope import Scope
from memline.ledger.memories import MemoryRow, load_memories, load_vectors
from memline.ledger.schema import memories, outbox, owners
from memline.ledger.session import Ledger
from memline.search.index.port import Index
from memline.search.nominate import scan_vectors

__all__ = ["nearest_to", "similar_to"]

#: How many times *k* the index is asked for: some of what it has is no longer live, or another owner's.
_DEEPER = 4
#: Most memories of a lane that are looked at because the index does not show them yet, the newest.
_MOST_PENDING = 200


def nearest_to(
    ledger: Ledger, index: Index, scope: Scope, vectors: NDArray[np.float32], *, model: str, k: int = 10, today: date
) -> list[MemoryRow]:
    """The *k* live memories of *scope*'s owner that are nearest to any of *vectors* (number of texts, dimension) of *model*, nearest first.

    Those that the scope's lane committed and the index does not show yet are among them.
    """
    rows, stored = _live_near(ledger, index, scope, vectors, model=model, limit=_DEEPER * k, today=today)
    # The ledger's own vectors decide: an index that lags may know an older text of a memory.
    value = {row.no: _closest(stored.get(row.no), vectors) for row in rows}
    return sorted(rows, key=lambda row: (-value[row.no], -row.no))[:k]


def similar_to(
    ledger: Ledger, index: Index, scope: Scope, vectors: NDArray[np.float32], *, model: str, at_least: float, k: int = 3, today: date
) -> list[list[tuple[MemoryRow, float]]]:
    """For each of *vectors*, at most *k* live memories of *scope*'s owner with their cosine similarity, nearest first.

    None is below *at_least*. Raises ServiceUnavailable where the index does not answer: to scan the ledger instead is not worth it here.
    """
    rows, stored = _live_near(ledger, index, scope, vectors, model=model, limit=_DEEPER * k, today=today, scans=False)
    found: list[list[tuple[MemoryRow, float]]] = [[] for _ in vectors]
    size = 4 * vectors.shape[1] if len(vectors) else 0
    there = [row for row in rows if len(stored.get(row.no, b"")) == size]
    if there:
        close = vectors @ np.frombuffer(b"".join(stored[row.no] for row in there), np.dtype("<f4")).reshape(len(there), -1).T
        for number, column in zip(*np.nonzero(close >= at_least), strict=True):
            found[number].append((there[column], float(close[number, column])))
    return [sorted(near, key=lambda one: (-one[1], -one[0].no))[:k] for near in found]


def _live_near(
    ledger: Ledger, index: Index, scope: Scope, vectors: NDArray[np.float32], *, model: str, limit: int, today: date, scans: bool = True
) -> tuple[list[MemoryRow], dict[int, bytes]]:
    """The live memories of the owner that the index has near any of *vectors*, or does not show yet, and the ledger's vectors of them."""
    owner = scope.owner
    with ledger.read() as connection:
        owner_no = connection.execute(sa.select(owners.c.no).where(owners.c.key == owner.key)).scalar_one_or_none()
    if owner_no is None or len(vectors) == 0:
        return [], {}
    within = ScopeIds(owner.user_id, owner.agent_id, owner.run_id)
    ids = _nominated(ledger, index, owner.namespace, within, vectors, model, limit=limit, scans=scans)
    with ledger.read() as connection:
        pending = _pending(connection, scope.lane)
        rows = [
            row
            for row in load_memories(connection, owner.namespace, nos=pending, ids=ids)
            if row.owner_no == owner_no and row.state == "live" and not row.is_expired(today)
        ]
        return rows, load_vectors(connection, [row.no for row in rows], model=model)


def _nominated(
    ledger: Ledger, index: Index, namespace: str, scope: ScopeIds, vectors: NDArray[np.float32], model: str, *, limit: int, scans: bool
) -> list[str]:
    found: dict[str, None] = {}
    for vector in vectors:
        try:
            nominees = index.nearest("memory", namespace, [scope], vector, limit=limit)
        except ServiceUnavailable:
            if not scans:
                raise
            with ledger.read() as connection:
                nominees, _ = scan_vectors(connection, namespace, [scope], vector, model=model, limit=limit)
        found |= dict.fromkeys(nominee.id for nominee in nominees)
    return list(found)


def _pending(connection: Connection, lane: str) -> Sequence[int]:
    query = (
        sa.select(memories.c.no)
        .join(outbox, sa.and_(outbox.c.kind == "memory", outbox.c.object_id == memories.c.id))
        .where(memories.c.lane == lane, memories.c.state == "live")
        .order_by(memories.c.no.desc())
        .limit(_MOST_PENDING)
    )
    return list(connection.execute(query).scalars())


def _closest(stored: bytes | None, vectors: NDArray[np.float32]) -> float:
    if stored is None or len(stored) != 4 * vectors.shape[1]:
        return -1.0
    return float((vectors @ np.frombuffer(stored, np.dtype("<f4"))).max())
