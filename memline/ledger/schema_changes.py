"""The table of the feed of changes: what happened to which memory, for caches and everything derived; without content."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table

from memline.ledger.schema_base import metadata
from memline.ledger.types import BigId, UtcTime

__all__ = ["changes"]

#: One row a change, written in the transaction that made it. In the order of (`xid`, `no`), see `ledger.changes`. `xid`: the transaction
#: on PostgreSQL, 0 on SQLite, whose one writer makes the numbers the order of commits. No foreign key: an erased memory has no row.
changes = Table(
    "changes",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("namespace", sa.Text, nullable=False),
    Column("memory_id", sa.Text, nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("event", sa.Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("xid", sa.BigInteger, nullable=False),
    Index(None, "namespace", "xid", "no"),
    Index(None, "memory_id", "no"),
    sqlite_autoincrement=True,
)
