"""The tables. What must never be broken stands here as a constraint, not only in code.

Names: `no` is a ledger's own number (order of arrival, joins), `id` is what callers see. A job has a `place`, its seat in the
conversation of its lane, and a `position`, its turn in the lane's queue: they differ only after a replay.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Table, UniqueConstraint, text

from memline.ledger.types import BigId, UtcTime

__all__ = [
    "counters",
    "entities",
    "entity_links",
    "entity_names",
    "history",
    "idempotency_keys",
    "jobs",
    "lane_numbers",
    "lane_producers",
    "lanes",
    "leases",
    "ledger_meta",
    "lost_turns",
    "memories",
    "memory_links",
    "messages",
    "metadata",
    "outbox",
    "owners",
    "postings",
    "repeats",
    "stage_results",
    "subjects",
    "vectors",
]

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _now_or_null(name: str) -> Column[object]:
    return Column(name, UtcTime, nullable=True)


def _where_set(table: str, column: str, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Index:
    """An index over the rows that have a value in *column*: `column = x` finds it, `column IS NULL` is not led into it."""
    condition = text(f"{column} IS NOT NULL")
    return Index(f"ix_{table}_{column}", *before, column, *after, sqlite_where=condition, postgresql_where=condition)


#: Facts about the ledger itself: the embedder its vectors were made by.
ledger_meta = Table(
    "ledger_meta",
    metadata,
    Column("key", sa.Text, primary_key=True),
    Column("value", sa.Text, nullable=False),
)

#: Counts of what was survived (gaps passed, turns lost, …), shown by doctor and metrics.
counters = Table(
    "counters",
    metadata,
    Column("name", sa.Text, primary_key=True),
    Column("value", sa.BigInteger, nullable=False),
)

#: Epochs of subjects. A subject without a row has epoch 0; erase raises it.
subjects = Table(
    "subjects",
    metadata,
    Column("key", sa.Text, primary_key=True),
    Column("epoch", sa.BigInteger, nullable=False),
)

#: Owners with what BM25 needs to know of them: live memories and the sum of their lengths in terms.
owners = Table(
    "owners",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("key", sa.Text, nullable=False, unique=True),
    Column("namespace", sa.Text, nullable=False),
    Column("user_id", sa.Text),
    Column("agent_id", sa.Text),
    Column("run_id", sa.Text),
    Column("live", sa.BigInteger, nullable=False, server_default="0"),
    Column("length", sa.BigInteger, nullable=False, server_default="0"),
    Index(None, "namespace", "user_id"),
    Index(None, "namespace", "agent_id"),
    sqlite_autoincrement=True,
)

#: A batch of jobs on its way through the stages. `epoch` fences: what was sent under an older one is dropped. `taken`: a worker
#: is at it until `until`. While nobody is, the batch waits in a queue and is sent again at `send_at`, should its message be lost.
leases = Table(
    "leases",
    metadata,
    Column("id", sa.Text, primary_key=True),
    Column("epoch", sa.BigInteger, nullable=False),
    Column("stage", sa.Text, nullable=False),
    Column("alone", sa.Boolean, nullable=False),
    Column("taken", sa.Boolean, nullable=False),
    Column("worker", sa.Text),
    Column("until", UtcTime, nullable=False),
    Column("send_at", UtcTime, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index(None, "taken", "until"),
)

#: A lane: the jobs of one scope, in a queue from `done_position` (exclusive) to `last_position`. `lease_id`: one of them runs.
lanes = Table(
    "lanes",
    metadata,
    Column("key", sa.Text, primary_key=True),
    Column("namespace", sa.Text, nullable=False),
    Column("user_id", sa.Text),
    Column("agent_id", sa.Text),
    Column("run_id", sa.Text),
    Column("owner_no", BigId, ForeignKey("owners.no"), nullable=False),
    Column("lease_id", sa.Text, ForeignKey("leases.id")),
    Column("last_place", sa.BigInteger, nullable=False, server_default="0"),
    Column("last_position", sa.BigInteger, nullable=False, server_default="0"),
    Column("done_position", sa.BigInteger, nullable=False, server_default="0"),
    Column("ready_at", UtcTime, nullable=False),
    CheckConstraint("user_id IS NOT NULL OR agent_id IS NOT NULL OR run_id IS NOT NULL", name="has_an_id"),
    CheckConstraint("done_position <= last_position", name="queue"),
    Index("ix_lanes_ready", "ready_at", sqlite_where=text("lease_id IS NULL AND last_position > done_position"),
          postgresql_where=text("lease_id IS NULL AND last_position > done_position")),
    _where_set("lanes", "lease_id"),
    Index(None, "owner_no"),
)  # fmt: skip

#: The next number each producer instance owes a lane.
lane_producers = Table(
    "lane_producers",
    metadata,
    Column("lane", sa.Text, ForeignKey("lanes.key"), primary_key=True),
    Column("producer", sa.Text, primary_key=True),
    Column("expected", sa.BigInteger, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
)

#: Numbers that arrived before one that is still missing.
lane_numbers = Table(
    "lane_numbers",
    metadata,
    Column("lane", sa.Text, ForeignKey("lanes.key"), primary_key=True),
    Column("producer", sa.Text, primary_key=True),
    Column("number", sa.BigInteger, primary_key=True),
)

_STATES = "state IN ('accepted', 'committed', 'searchable', 'failed', 'cancelled', 'conflict')"
_UNFINISHED = "finished_at IS NULL"
_OPEN = f"{_UNFINISHED} AND position IS NOT NULL"

#: The ledger's record of one turn.
jobs = Table(
    "jobs",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("id", sa.Text, nullable=False, unique=True),
    Column("lane", sa.Text, ForeignKey("lanes.key"), nullable=False),
    Column("namespace", sa.Text, nullable=False),
    Column("producer", sa.Text, nullable=False),
    Column("number", sa.BigInteger, nullable=False),
    Column("place", sa.BigInteger),
    Column("position", sa.BigInteger),
    Column("state", sa.Text, nullable=False),
    Column("stage", sa.Text, nullable=False),
    Column("lease_id", sa.Text, ForeignKey("leases.id")),
    Column("attempts", sa.Integer, nullable=False, server_default="0"),
    Column("alone", sa.Boolean, nullable=False, server_default=sa.false()),
    Column("epochs", sa.BigInteger, nullable=False),
    Column("messages", sa.JSON),
    Column("infer", sa.Boolean, nullable=False),
    Column("prompt", sa.Text),
    Column("metadata", sa.JSON),
    Column("expires_on", sa.Date),
    Column("key", sa.Text),
    Column("fingerprint", sa.Text, nullable=False),
    Column("extractor", sa.Text),
    Column("outcome", sa.JSON),
    Column("reason", sa.Text),
    Column("said_at", UtcTime, nullable=False),
    Column("occurred_at", UtcTime),
    Column("handed_at", UtcTime, nullable=False),
    Column("accepted_at", UtcTime, nullable=False),
    _now_or_null("held_until"),
    _now_or_null("next_at"),
    _now_or_null("committed_at"),
    _now_or_null("searchable_at"),
    _now_or_null("finished_at"),
    CheckConstraint(_STATES, name="state"),
    UniqueConstraint("lane", "position"),
    Index("ix_jobs_open", "lane", "position", sqlite_where=text(_OPEN), postgresql_where=text(_OPEN)),
    Index("ix_jobs_held", "held_until", sqlite_where=text("held_until IS NOT NULL"), postgresql_where=text("held_until IS NOT NULL")),
    Index("ix_jobs_committed", "committed_at", sqlite_where=text("state = 'committed'"), postgresql_where=text("state = 'committed'")),
    Index("ix_jobs_unfinished", "namespace", "no", sqlite_where=text(_UNFINISHED), postgresql_where=text(_UNFINISHED)),
    Index("ix_jobs_failed", "namespace", "no", sqlite_where=text("state = 'failed'"), postgresql_where=text("state = 'failed'")),
    _where_set("jobs", "lease_id"),
    Index(None, "namespace", "no"),
    sqlite_autoincrement=True,
)

#: Keys outlive their jobs. One key, one effect (G2).
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("lane", sa.Text, ForeignKey("lanes.key"), primary_key=True),
    Column("key", sa.Text, primary_key=True),
    Column("job_id", sa.Text, nullable=False),
    Column("fingerprint", sa.Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index(None, "created_at"),
)

#: Turns that made no job of their own: they repeated a key, with the same content or with another (`conflict`).
repeats = Table(
    "repeats",
    metadata,
    Column("turn_id", sa.Text, primary_key=True),
    Column("job_id", sa.Text, nullable=False),
    Column("conflict", sa.Boolean, nullable=False),
    Column("at", UtcTime, nullable=False),
)

#: Turns that somebody asked for after `order_wait` and that were nowhere.
lost_turns = Table(
    "lost_turns",
    metadata,
    Column("turn_id", sa.Text, primary_key=True),
    Column("noted_at", UtcTime, nullable=False),
)

#: What the model, the embedder or a stage returned for a job, by stage and number of the ask: never bought twice (G10).
stage_results = Table(
    "stage_results",
    metadata,
    Column("job_id", sa.Text, ForeignKey("jobs.id"), primary_key=True),
    Column("stage", sa.Text, primary_key=True),
    Column("ask", sa.Integer, primary_key=True),
    Column("body", sa.Text, nullable=False),
    Column("stored_at", UtcTime, nullable=False),
)

_LIVE = "state = 'live'"

#: The committed set. A deleted memory keeps its row, without its text, so that nothing brings it back.
memories = Table(
    "memories",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("id", sa.Text, nullable=False, unique=True),
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
    _now_or_null("valid_to"),
    Column("superseded_by", sa.Text),
    CheckConstraint("state IN ('live', 'superseded', 'expired', 'deleted')", name="state"),
    CheckConstraint("(state = 'superseded') = (superseded_by IS NOT NULL)", name="superseded"),
    UniqueConstraint("job_id", "ordinal"),
    # G4: no two live memories of a scope have the same content hash, under any concurrency.
    Index("uq_memories_live_hash", "lane", "content_hash", unique=True, sqlite_where=text(_LIVE), postgresql_where=text(_LIVE)),
    _where_set("memories", "slot", before=("owner_no",)),
    Index(None, "lane", "place", "ordinal"),
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

#: What happened to a memory, in order, one row a version.
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
    UniqueConstraint("memory_id", "version"),
    sqlite_autoincrement=True,
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
    UniqueConstraint("job_id", "ordinal"),
    Index(None, "lane", "place", "ordinal"),
    sqlite_autoincrement=True,
)

#: Names that memories of a scope share.
entities = Table(
    "entities",
    metadata,
    Column("no", BigId, primary_key=True, autoincrement=True),
    Column("id", sa.Text, nullable=False, unique=True),
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
    CheckConstraint("kind IN ('memory', 'entity')", name="kind"),
    Index("ix_outbox_due", "parked", "next_at"),
)
