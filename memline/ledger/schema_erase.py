"""The tables of erasing: the tombstones, what is left of the turns of an erased subject, and what an erasure still has to look after.

None of them holds an id of a person, a text or anything made from one. What stands for a subject or a lane in an index is a digest without
a key, by which turns that come late are known: who holds the ledger and guesses an id can confirm it. `hash` has a key that is elsewhere.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from memline.ledger.schema_base import metadata, now_or_null
from memline.ledger.types import IdText, UtcTime

__all__ = ["erased_numbers", "erased_turns", "erasure_objects", "tombstones"]

#: One row an erasure. While `finished_at` is null it runs, or was killed and is to be resumed at `phase`. `place` and `at`: turns that were
#: handed over before are cancelled when they arrive (`ledger.marks` says how the two are compared).
tombstones = Table(
    "tombstones",
    metadata,
    Column("id", sa.Text, primary_key=True),
    Column("subject", sa.Text, nullable=False),
    Column("namespace", sa.Text, nullable=False),
    Column("kind", sa.Text, nullable=False),
    Column("hash", sa.Text, nullable=False),
    Column("key_id", sa.Text, nullable=False),
    Column("epoch", sa.BigInteger, nullable=False),
    Column("place", IdText, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("phase", sa.Text, nullable=False),
    Column("started_at", UtcTime, nullable=False),
    now_or_null("finished_at"),
    Column("waits", sa.JSON, nullable=False),
    Column("counts", sa.JSON, nullable=False),
    Column("certificate", sa.JSON(none_as_null=True)),
    Index(None, "subject"),
    Index(
        "ix_tombstones_open",
        "started_at",
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    ),
)

#: What is left of the jobs of an erased subject, and of its turns that came late: id and state.
erased_turns = Table(
    "erased_turns",
    metadata,
    Column("turn_id", sa.Text, primary_key=True),
    Column("namespace", sa.Text, nullable=False),
    Column("state", sa.Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Index(None, "at"),
)

#: The next number that a producer owes a lane that was erased: its turns after the erasure need not wait for those before it.
erased_numbers = Table(
    "erased_numbers",
    metadata,
    Column("lane", sa.Text, primary_key=True),
    Column("producer", sa.Text, primary_key=True),
    Column("expected", sa.BigInteger, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
    Index(None, "seen_at"),
)

#: Objects of the index that an erasure removes, and looks for at its end; they go with it.
erasure_objects = Table(
    "erasure_objects",
    metadata,
    Column("erasure", sa.Text, ForeignKey("tombstones.id"), primary_key=True),
    Column("kind", sa.Text, primary_key=True),
    Column("object_id", sa.Text, primary_key=True),
    Column("namespace", sa.Text, nullable=False),
)
