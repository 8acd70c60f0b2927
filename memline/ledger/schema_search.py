"""The tables that search needs beside the committed set: where a namespace lies in a remote index, what a namespace wants, new vectors."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, Table

from memline.ledger.schema_base import metadata
from memline.ledger.types import BigId, UtcTime

__all__ = ["index_tenants", "namespace_options", "next_vectors"]

#: Which namespace a tenant of a remote index is: its name there is a hash, since an index takes few characters in a name.
index_tenants = Table(
    "index_tenants",
    metadata,
    Column("tenant", sa.Text, primary_key=True),
    Column("namespace", sa.Text, nullable=False, unique=True),
)

#: What one namespace wants otherwise than the settings say, as JSON by name: the weights of its search, for one.
namespace_options = Table(
    "namespace_options",
    metadata,
    Column("namespace", sa.Text, primary_key=True),
    Column("name", sa.Text, primary_key=True),
    Column("value", sa.JSON, nullable=False),
    Column("set_at", UtcTime, nullable=False),
)

#: Vectors of the next embedder, while `memline index reembed` gathers them: the ledger's own serve until the swap.
next_vectors = Table(
    "next_vectors",
    metadata,
    Column("kind", sa.Text, primary_key=True),
    Column("object_no", BigId, primary_key=True),
    Column("version", sa.Integer, nullable=False),
    Column("model", sa.Text, nullable=False),
    Column("vector", sa.LargeBinary, nullable=False),
    CheckConstraint("kind IN ('memory', 'entity')", name="kind"),
)
