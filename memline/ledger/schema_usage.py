"""The table of what calls of models used, added up by day: it names no job and no subject, so it outlives them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Table

from memline.ledger.schema_base import metadata
from memline.ledger.types import UtcTime

__all__ = ["usage"]

#: `nanodollars`: billionths of a dollar, of the calls whose model has a price; `unpriced`: the other calls. `repeated`: calls made again
#: as their answer was lost. `last_at`: when the last of them was answered.
usage = Table(
    "usage",
    metadata,
    Column("day", sa.Date, primary_key=True),
    Column("namespace", sa.Text, primary_key=True),
    Column("call", sa.Text, primary_key=True),
    Column("model", sa.Text, primary_key=True),
    Column("calls", sa.BigInteger, nullable=False),
    Column("repeated", sa.BigInteger, nullable=False),
    Column("tokens_in", sa.BigInteger, nullable=False),
    Column("tokens_cached", sa.BigInteger, nullable=False),
    Column("tokens_out", sa.BigInteger, nullable=False),
    Column("nanodollars", sa.BigInteger, nullable=False),
    Column("unpriced", sa.BigInteger, nullable=False),
    Column("last_at", UtcTime, nullable=False),
)
