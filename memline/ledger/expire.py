"""What is over its last day leaves the live set: its terms and its place in the index go, its text stays until it is purged.

Reads do not wait for this: they compare the date (`MemoryRow.is_expired`). What it is for is everything that counts live memories, and
the index, which would otherwise nominate more and more that nobody may see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.receipt import Event
from memline.contracts.scope import Scope
from memline.ledger.counters import count
from memline.ledger.history import HistoryMode, write_history
from memline.ledger.locks import lock_owners, lock_subjects
from memline.ledger.memories import MemoryRow
from memline.ledger.outbox import enqueue
from memline.ledger.retire import drop_postings
from memline.ledger.schema import memories, owners

__all__ = ["REASON", "expire_due", "expire_memory", "lock_scopes"]

#: The reason in the history of what went because its last day was over.
REASON = "expired"


def expire_due(tx: Connection, *, now: datetime, limit: int, keep: HistoryMode = HistoryMode.FULL) -> int:
    """Marks at most *limit* live memories whose last day (UTC) is over, the oldest day first; how many it marked or found changed."""
    due = sa.and_(memories.c.state == "live", memories.c.expires_on < now.date())
    found = tx.execute(
        sa.select(*(memories.c[name] for name in ("no", "namespace", "user_id", "agent_id", "run_id")))
        .where(due)
        .order_by(memories.c.expires_on, memories.c.no)
        .limit(limit)
    ).all()
    if not found:
        return 0
    lock_scopes(tx, found)
    # as they are now that nobody else changes them
    columns = ("no", "id", "namespace", "owner_no", "version", "text", "length", "actor_id", "role")
    rows = tx.execute(
        sa.select(*(memories.c[name] for name in columns)).where(memories.c.no.in_([row.no for row in found]), due).order_by(memories.c.no)
    ).all()
    _mark(tx, rows, now=now, reason=REASON, keep=keep)
    count(tx, "memories_expired", len(rows))
    return len(found)


def expire_memory(tx: Connection, row: MemoryRow, *, now: datetime, reason: str | None = None, keep: HistoryMode) -> None:
    """Takes a live memory that is past its day out of the live ones, so that another may say the same. Its row and vector stay."""
    _mark(tx, [replace(row, actor_id=None)], now=now, reason=reason, keep=keep)  # it made room: no actor of its own did that


def lock_scopes(tx: Connection, rows: Sequence[Any]) -> None:
    """Locks what a change of memories needs, for rows with namespace and scope ids: their subjects shared, their owners exclusively."""
    scopes = {Scope(row.namespace, row.user_id, row.agent_id, row.run_id) for row in rows}
    lock_subjects(tx, [subject for scope in scopes for subject in scope.subjects])
    lock_owners(tx, [scope.owner.key for scope in scopes])


def _mark(tx: Connection, rows: Sequence[Any], *, now: datetime, reason: str | None, keep: HistoryMode) -> None:
    nos = [row.no for row in rows]
    tx.execute(sa.update(memories).where(memories.c.no.in_(nos)).values(state="expired", version=memories.c.version + 1, updated_at=now))
    drop_postings(tx, nos)
    gone: dict[int, list[int]] = {}
    for row in rows:
        gone.setdefault(row.owner_no, []).append(row.length)
    for owner_no, lengths in sorted(gone.items()):
        tx.execute(
            sa.update(owners)
            .where(owners.c.no == owner_no)
            .values(live=owners.c.live - len(lengths), length=owners.c.length - sum(lengths))
        )
    write_history(
        tx,
        [
            {
                "memory_id": row.id,
                "namespace": row.namespace,
                "version": row.version + 1,
                "event": Event.EXPIRE.value,
                "old_text": row.text,
                "new_text": None,
                "job_id": None,
                "actor_id": row.actor_id,
                "role": row.role,
                "reason": reason,
                "at": now,
            }
            for row in rows
        ],
        keep=keep,
    )
    enqueue(tx, "memory", {row.id: (row.namespace, row.version + 1) for row in rows}, now=now)
