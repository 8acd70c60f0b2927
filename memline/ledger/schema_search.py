"""The tables that search needs beside the committed set: where a namespace lies in a remote index, what a namespace wants, new vectors."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from memline.ledger.schema_base import metadata
from memline.ledger.types import BigId, UtcTime

__all__ = ["index_tenants", "namespace_options", "next_entity_vectors", "next_vectors"]

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

#: Vectors of the next embedder, while `memline index reembed` gathers them: the ledger's own serve until the swap, these after it
#: (`ledger/vectors.py`), until they are moved in. `source` is what was embedded: the digest of a memory's text; the version of an entity.
#: They go with what they were made of: by themselves where a row goes, in the verb that takes the text where the row stays
#: (`ledger/retire.py`).
next_vectors = Table(
    "next_vectors",
    metadata,
    Column("memory_no", BigId, ForeignKey("memories.no", ondelete="CASCADE"), primary_key=True),
    Column("source", sa.Text, nullable=False),
    Column("model", sa.Text, nullable=False),
    Column("vector", sa.LargeBinary, nullable=False),
    # what is missing is looked for without reading a vector
    Index(None, "memory_no", "source", "model"),
)

next_entity_vectors = Table(
    "next_entity_vectors",
    metadata,
    Column("entity_no", BigId, ForeignKey("entities.no", ondelete="CASCADE"), primary_key=True),
    Column("source", sa.Text, nullable=False),
    Column("model", sa.Text, nullable=False),
    Column("vector", sa.LargeBinary, nullable=False),
    Index(None, "entity_no", "source", "model"),
)
