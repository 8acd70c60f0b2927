"""The table of who is at work: one row a loop of a process, written over about every ten seconds."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table

from memline.ledger.schema_base import metadata, now_or_null
from memline.ledger.types import UtcTime

__all__ = ["heartbeats"]

#: `process`: a name that no other process has, and none had before. `beat_by`: a process that says nothing until then is taken for dead.
#: `round_by`: a loop whose round has not ended by then hangs; null while it waits for something outside, such as Redis. `failures`: rounds
#: in a row that raised, `reason` why the last one did (memline's own words, or the class of the error).
heartbeats = Table(
    "heartbeats",
    metadata,
    Column("process", sa.Text, primary_key=True),
    Column("loop", sa.Text, primary_key=True),
    Column("host", sa.Text, nullable=False),
    Column("pid", sa.Integer, nullable=False),
    Column("version", sa.Text, nullable=False),
    Column("started_at", UtcTime, nullable=False),
    Column("beat_at", UtcTime, nullable=False),
    Column("beat_by", UtcTime, nullable=False),
    now_or_null("round_at"),
    now_or_null("round_by"),
    now_or_null("good_at"),
    Column("failures", sa.Integer, nullable=False),
    Column("reason", sa.Text),
    Index(None, "beat_by"),
)
