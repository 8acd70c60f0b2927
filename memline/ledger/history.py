"""What happened to each memory, one row a version, written in the transaction that did it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import history

__all__ = ["history_of", "write_history"]


def write_history(tx: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Adds rows; (memory, version) is unique, so one change has one row."""
    if rows:
        tx.execute(sa.insert(history), list(rows))


def history_of(connection: Connection, namespace: str, memory_id: str) -> list[dict[str, Any]]:
    """The rows of a memory, oldest first; empty for an unknown id."""
    query = sa.select(history).where(history.c.memory_id == memory_id, history.c.namespace == namespace).order_by(history.c.version)
    return [dict(row._mapping) for row in connection.execute(query)]
