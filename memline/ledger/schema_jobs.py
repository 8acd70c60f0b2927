"""The tables of turns on their way: owners and lanes, jobs and leases, keys and numbers, and what the ledger counts."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Table, UniqueConstraint, text

from memline.ledger.schema_base import metadata, now_or_null, where_set
from memline.ledger.types import BigId, IdText, UtcTime

__all__ = [
    "counters",
    "idempotency_keys",
    "jobs",
    "lane_numbers",
    "lane_producers",
    "lanes",
    "leases",
    "ledger_meta",
    "lost_turns",
    "marks",
    "owners",
    "repeats",
    "stage_results",
    "subjects",
]

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
    where_set("lanes", "lease_id"),
    Index(None, "namespace", "run_id"),
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
    now_or_null("held_until"),
    now_or_null("next_at"),
    now_or_null("committed_at"),
    now_or_null("searchable_at"),
    now_or_null("finished_at"),
    # whose instructions the prompt is ("call" or "namespace"), and its digest, which stays when the text is no longer kept
    Column("prompt_source", sa.Text),
    Column("prompt_hash", sa.Text),
    Column("memory_type", sa.Text),
    # what the write policy masked, by kind: counts only
    Column("masked", sa.JSON(none_as_null=True)),
    # what else its receipt tells: near-duplicates by the number of the fact, facts that were left out; ids and numbers only
    Column("notes", sa.JSON(none_as_null=True)),
    # the `traceparent` of the span that handed the turn over, where it is traced: two random numbers, of no person
    Column("trace", sa.Text),
    CheckConstraint(_STATES, name="state"),
    UniqueConstraint("lane", "position"),
    Index("ix_jobs_open", "lane", "position", sqlite_where=text(_OPEN), postgresql_where=text(_OPEN)),
    Index("ix_jobs_held", "held_until", sqlite_where=text("held_until IS NOT NULL"), postgresql_where=text("held_until IS NOT NULL")),
    Index("ix_jobs_committed", "committed_at", sqlite_where=text("state = 'committed'"), postgresql_where=text("state = 'committed'")),
    Index("ix_jobs_unfinished", "namespace", "no", sqlite_where=text(_UNFINISHED), postgresql_where=text(_UNFINISHED)),
    Index("ix_jobs_failed", "namespace", "no", sqlite_where=text("state = 'failed'"), postgresql_where=text("state = 'failed'")),
    where_set("jobs", "lease_id"),
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

#: Up to where turns are cancelled that reach the ledger late: set by delete_all and reset, one row a set of ids, the newest. `key`: the
#: digest of the ids, so that no id stands here; `place`: where in the stream (`ledger.marks`); `at`: by the clock of whoever set it.
marks = Table(
    "marks",
    metadata,
    Column("key", sa.Text, primary_key=True),
    Column("namespace", sa.Text, nullable=False),
    Column("place", IdText, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("reason", sa.Text, nullable=False),
    Index(None, "namespace"),
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
