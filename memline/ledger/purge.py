"""What expired long enough ago is deleted, as `delete` deletes: nothing made from its text remains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.counters import count
from memline.ledger.expire import REASON, lock_scopes
from memline.ledger.history import HistoryMode
from memline.ledger.memories import MemoryRow, load_memories
from memline.ledger.retire import delete_memories
from memline.ledger.schema import memories

__all__ = ["Overdue", "first_day_kept", "overdue", "purge_expired"]

_STATES = ("live", "expired", "superseded")


@dataclass(frozen=True, slots=True)
class Overdue:
    """Memories of a namespace that a purge would delete."""

    namespace: str
    number: int
    #: The earliest last day among them.
    oldest: date


def first_day_kept(now: datetime, grace: int) -> date:
    """What had its last day before this one is purged: *grace* days (0 or more) after the last day have passed, all in UTC."""
    try:
        return now.date() - timedelta(days=grace)
    except OverflowError:  # before the year 1
        return date.min


def overdue(connection: Connection, *, before: date, namespace: str | None = None) -> list[Overdue]:
    """What `purge_expired` would delete, by namespace in their order; of every namespace where None is named."""
    query = (
        sa.select(memories.c.namespace, sa.func.count().label("number"), sa.func.min(memories.c.expires_on).label("oldest"))
        .where(_is_overdue(before, namespace))
        .group_by(memories.c.namespace)
    )
    found = [Overdue(row.namespace, row.number, row.oldest) for row in connection.execute(query)]
    return sorted(found, key=lambda each: each.namespace)


def purge_expired(
    tx: Connection, *, before: date, limit: int, now: datetime, namespace: str | None = None, keep: HistoryMode = HistoryMode.FULL
) -> int:
    """Deletes at most *limit* memories whose last day lies before *before*, the oldest first; how many it deleted or found changed."""
    found = tx.execute(
        sa.select(*(memories.c[name] for name in ("no", "namespace", "user_id", "agent_id", "run_id")))
        .where(_is_overdue(before, namespace))
        .order_by(memories.c.expires_on, memories.c.no)
        .limit(limit)
    ).all()
    if not found:
        return 0
    lock_scopes(tx, found)
    nos: dict[str, list[int]] = {}
    for row in found:
        nos.setdefault(row.namespace, []).append(row.no)
    rows = [row for name, some in nos.items() for row in _still(load_memories(tx, name, nos=some), before)]
    if rows:
        delete_memories(tx, sorted(rows, key=lambda row: row.no), actor=None, reason=REASON, now=now, keep=keep)
        count(tx, "memories_purged", len(rows))
    return len(found)


def _still(rows: list[MemoryRow], before: date) -> Iterator[MemoryRow]:
    """Those that nobody gave another date since they were found."""
    return (row for row in rows if row.expires_on is not None and row.expires_on < before)


def _is_overdue(before: date, namespace: str | None) -> sa.ColumnElement[bool]:
    where = sa.and_(memories.c.state.in_(_STATES), memories.c.expires_on < before)
    return where if namespace is None else sa.and_(where, memories.c.namespace == namespace)
