"""The tables of what was committed: memories with what is made from them, messages, entities, and the outbox."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Table, UniqueConstraint, text

from memline.ledger.schema_base import metadata, now_or_null, where_set
from memline.ledger.types import BigId, IdText, UtcTime

__all__ = [
    "entities",
    "entity_links",
    "entity_names",
    "history",
    "memories",
    "memory_links",
    "messages",
    "outbox",
    "postings",
    "sightings",
    "vectors",
]

_LIVE = "state = 'live'"

#: The committed set. A deleted memory keeps its row, without its text, so that nothing brings it back.
memories = Table(
    "memories",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("id", IdText, nullable=False, unique=True),
    Column("namespace", sa.Text, nullable=False),
    Column("lane", sa.Text, ForeignKey("lanes.key"), nullable=False),
    Column("owner_no", BigId, ForeignKey("owners.no"), nullable=False),
    Column("user_id", sa.Text),
    Column("agent_id", sa.Text),
    Column("run_id", sa.Text),
    Column("job_id", sa.Text, nullable=False),
    Column("ordinal", sa.Integer, nullable=False),
    Column("place", sa.BigInteger, nullable=False),
    Column("state", sa.Text, nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("text", sa.Text, nullable=False),
    Column("content_hash", sa.Text, nullable=False),
    Column("md5", sa.Text, nullable=False),
    Column("digest", sa.Text, nullable=False),
    Column("length", sa.Integer, nullable=False),
    Column("metadata", sa.JSON, nullable=False),
    Column("attributed_to", sa.Text),
    Column("role", sa.Text),
    Column("actor_id", sa.Text),
    Column("memory_type", sa.Text),
    Column("verbatim", sa.Boolean, nullable=False),
    Column("slot", sa.Text),
    Column("message", sa.Integer),
    Column("expires_on", sa.Date),
    Column("occurred_at", UtcTime, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("valid_from", UtcTime, nullable=False),
    now_or_null("valid_to"),
    Column("superseded_by", sa.Text),
    # where in its message it was said, in characters: [start, end); null where the extractor did not tell
    Column("span_start", sa.Integer),
    Column("span_end", sa.Integer),
    CheckConstraint("state IN ('live', 'superseded', 'expired', 'deleted')", name="state"),
    CheckConstraint("(state = 'superseded') = (superseded_by IS NOT NULL)", name="superseded"),
    UniqueConstraint("job_id", "ordinal"),
    # G4: no two live memories of a scope have the same content hash, under any concurrency.
    Index("uq_memories_live_hash", "lane", "content_hash", unique=True, sqlite_where=text(_LIVE), postgresql_where=text(_LIVE)),
    where_set("memories", "slot", before=("owner_no",)),
    # what expires, soonest first, of one state: a deleted memory keeps its day
    where_set("memories", "expires_on", before=("state",)),
    Index(None, "lane", "place", "ordinal"),
    Index(None, "namespace", "id"),
    Index(None, "namespace", "user_id", "no"),
    Index(None, "namespace", "agent_id", "no"),
    Index(None, "namespace", "run_id", "no"),
    Index(None, "owner_no", "no"),
    sqlite_autoincrement=True,
)

#: A memory's vector, float32 in the machine's (little-endian) order, and the model it came from: an index is refilled from here.
vectors = Table(
    "vectors",
    metadata,
    Column("memory_no", BigId, ForeignKey("memories.no", ondelete="CASCADE"), primary_key=True),
    Column("model", sa.Text, nullable=False),
    Column("dimension", sa.Integer, nullable=False),
    Column("vector", sa.LargeBinary, nullable=False),
    CheckConstraint("length(vector) = 4 * dimension", name="whole"),
)

#: Analysed terms, per owner: the BM25 leg of the embedded backend, and the one that remains without Weaviate. Those of a superseded
#: memory stay, not `live`, for reads of the past; those of a deleted or expired one go.
postings = Table(
    "postings",
    metadata,
    Column("owner_no", BigId, ForeignKey("owners.no"), primary_key=True),
    Column("term", sa.Text, primary_key=True),
    Column("memory_no", BigId, ForeignKey("memories.no", ondelete="CASCADE"), primary_key=True),
    Column("tf", sa.Integer, nullable=False),
    Column("length", sa.Integer, nullable=False),
    Column("live", sa.Boolean, nullable=False),
    Index(None, "memory_no"),
    sqlite_with_rowid=False,
)

#: Links from a memory to older ones, as the extractor saw them.
memory_links = Table(
    "memory_links",
    metadata,
    Column("memory_no", BigId, ForeignKey("memories.no", ondelete="CASCADE"), primary_key=True),
    Column("to_no", BigId, ForeignKey("memories.no", ondelete="CASCADE"), primary_key=True),
    Column("relation", sa.Text, nullable=False),
    Index(None, "to_no"),
)

#: What happened to a memory, in order, one row a version. Where MEMLINE_HISTORY is `hashes` the texts are null, and their MD5 (the `hash`
#: that callers see of a memory) and length in characters stand in their place. `changes`: what else changed, see `ledger.history`.
history = Table(
    "history",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("memory_id", sa.Text, ForeignKey("memories.id"), nullable=False),
    Column("namespace", sa.Text, nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("event", sa.Text, nullable=False),
    Column("old_text", sa.Text),
    Column("new_text", sa.Text),
    Column("job_id", sa.Text),
    Column("actor_id", sa.Text),
    Column("role", sa.Text),
    Column("reason", sa.Text),
    Column("at", UtcTime, nullable=False),
    Column("old_hash", sa.Text),
    Column("new_hash", sa.Text),
    Column("old_length", sa.Integer),
    Column("new_length", sa.Integer),
    Column("changes", sa.JSON(none_as_null=True)),
    UniqueConstraint("memory_id", "version"),
    sqlite_autoincrement=True,
)

#: When a memory was said again, by which turn: what a duplicate leaves. They go with their memory's text.
sightings = Table(
    "sightings",
    metadata,
    Column("memory_no", BigId, ForeignKey("memories.no", ondelete="CASCADE"), primary_key=True),
    Column("job_id", sa.Text, primary_key=True),
    Column("said_at", UtcTime, nullable=False),
    Index(None, "memory_no", "said_at"),
    Index(None, "job_id"),
)

#: What was said, in the order of the lane: the window of an extraction, the context of a result.
messages = Table(
    "messages",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("lane", sa.Text, ForeignKey("lanes.key"), nullable=False),
    Column("place", sa.BigInteger, nullable=False),
    Column("ordinal", sa.Integer, nullable=False),
    Column("job_id", sa.Text, nullable=False),
    Column("role", sa.Text, nullable=False),
    Column("name", sa.Text),
    Column("text", sa.Text, nullable=False),
    Column("said_at", UtcTime, nullable=False),
    # a memory that came from it was deleted and another one still names it: shown to who asks why, to no model
    Column("withheld", sa.Boolean),
    UniqueConstraint("job_id", "ordinal"),
    Index(None, "lane", "place", "ordinal"),
    sqlite_autoincrement=True,
)

#: Names that memories of a scope share.
entities = Table(
    "entities",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("id", IdText, nullable=False, unique=True),
    Column("namespace", sa.Text, nullable=False),
    Column("lane", sa.Text, ForeignKey("lanes.key"), nullable=False),
    Column("owner_no", BigId, ForeignKey("owners.no"), nullable=False),
    Column("name", sa.Text, nullable=False),
    Column("norm", sa.Text, nullable=False),
    Column("type", sa.Text, nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("model", sa.Text, nullable=False),
    Column("vector", sa.LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("lane", "norm"),
    Index(None, "namespace", "id"),
    Index(None, "owner_no", "norm"),
    sqlite_autoincrement=True,
)

#: Every normalised name of a scope leads to one entity: its own, or the one it is an alias of.
entity_names = Table(
    "entity_names",
    metadata,
    Column("lane", sa.Text, ForeignKey("lanes.key"), primary_key=True),
    Column("norm", sa.Text, primary_key=True),
    Column("entity_no", BigId, ForeignKey("entities.no", ondelete="CASCADE"), nullable=False),
    Index(None, "entity_no"),
)

#: Which memory names which entity: a pair, never a list that is read, changed and written.
entity_links = Table(
    "entity_links",
    metadata,
    Column("entity_no", BigId, ForeignKey("entities.no", ondelete="CASCADE"), primary_key=True),
    Column("memory_no", BigId, ForeignKey("memories.no", ondelete="CASCADE"), primary_key=True),
    Index(None, "memory_no"),
)

#: What the index still has to be shown: one row an object, whatever number of changes, in the version it has now.
outbox = Table(
    "outbox",
    metadata,
    Column("kind", sa.Text, primary_key=True),
    Column("object_id", sa.Text, primary_key=True),
    Column("namespace", sa.Text, nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("queued_at", UtcTime, nullable=False),
    Column("next_at", UtcTime, nullable=False),
    Column("attempts", sa.Integer, nullable=False, server_default="0"),
    Column("parked", sa.Boolean, nullable=False, server_default=sa.false()),
    Column("lease", sa.Text),
    Column("error", sa.Text),
    # the `traceparent` of the span that wrote the row, where it is traced
    Column("trace", sa.Text),
    CheckConstraint("kind IN ('memory', 'entity')", name="kind"),
    Index("ix_outbox_due", "parked", "next_at"),
)
