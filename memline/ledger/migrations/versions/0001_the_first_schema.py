"""the first schema"""

import sqlalchemy as sa
from alembic import op

from memline.ledger.types import BigId, IdText, UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("alone", sa.Boolean(), nullable=False),
        sa.Column("taken", sa.Boolean(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("until", UtcTime, nullable=False),
        sa.Column("send_at", UtcTime, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
    )
    op.create_index(op.f("ix_leases_taken_until"), "leases", ["taken", "until"], unique=False)
    op.create_table(
        "ledger_meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_ledger_meta")),
    )
    op.create_table(
        "lost_turns",
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("noted_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_lost_turns")),
    )
    op.create_table(
        "outbox",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("object_id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("queued_at", UtcTime, nullable=False),
        sa.Column("next_at", UtcTime, nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("parked", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("lease", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('memory', 'entity')", name=op.f("ck_outbox_kind")),
        sa.PrimaryKeyConstraint("kind", "object_id", name=op.f("pk_outbox")),
    )
    op.create_index("ix_outbox_due", "outbox", ["parked", "next_at"], unique=False)
    op.create_table(
        "owners",
        sa.Column("no", BigId, autoincrement=True, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("live", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("length", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_owners")),
        sa.UniqueConstraint("key", name=op.f("uq_owners_key")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_owners_namespace_agent_id"), "owners", ["namespace", "agent_id"], unique=False)
    op.create_index(op.f("ix_owners_namespace_user_id"), "owners", ["namespace", "user_id"], unique=False)
    op.create_table(
        "repeats",
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("conflict", sa.Boolean(), nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_repeats")),
    )
    op.create_table(
        "subjects",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_subjects")),
    )
    op.create_table(
        "lanes",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("owner_no", BigId, nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=True),
        sa.Column("last_place", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_position", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("done_position", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ready_at", UtcTime, nullable=False),
        sa.CheckConstraint("done_position <= last_position", name=op.f("ck_lanes_queue")),
        sa.CheckConstraint("user_id IS NOT NULL OR agent_id IS NOT NULL OR run_id IS NOT NULL", name=op.f("ck_lanes_has_an_id")),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], name=op.f("fk_lanes_lease_id")),
        sa.ForeignKeyConstraint(["owner_no"], ["owners.no"], name=op.f("fk_lanes_owner_no")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_lanes")),
    )
    op.create_index(
        "ix_lanes_lease_id",
        "lanes",
        ["lease_id"],
        unique=False,
        sqlite_where=sa.text("lease_id IS NOT NULL"),
        postgresql_where=sa.text("lease_id IS NOT NULL"),
    )
    op.create_index(op.f("ix_lanes_owner_no"), "lanes", ["owner_no"], unique=False)
    op.create_index(
        "ix_lanes_ready",
        "lanes",
        ["ready_at"],
        unique=False,
        sqlite_where=sa.text("lease_id IS NULL AND last_position > done_position"),
        postgresql_where=sa.text("lease_id IS NULL AND last_position > done_position"),
    )
    op.create_table(
        "entities",
        sa.Column("no", BigId, autoincrement=True, nullable=False),
        sa.Column("id", IdText, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("owner_no", BigId, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("norm", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["lane"], ["lanes.key"], name=op.f("fk_entities_lane")),
        sa.ForeignKeyConstraint(["owner_no"], ["owners.no"], name=op.f("fk_entities_owner_no")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_entities")),
        sa.UniqueConstraint("id", name=op.f("uq_entities_id")),
        sa.UniqueConstraint("lane", "norm", name=op.f("uq_entities_lane_norm")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_entities_namespace_id"), "entities", ["namespace", "id"], unique=False)
    op.create_index(op.f("ix_entities_owner_no_norm"), "entities", ["owner_no", "norm"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["lane"], ["lanes.key"], name=op.f("fk_idempotency_keys_lane")),
        sa.PrimaryKeyConstraint("lane", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("no", BigId, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=True),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("alone", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("epochs", sa.BigInteger(), nullable=False),
        sa.Column("messages", sa.JSON(), nullable=True),
        sa.Column("infer", sa.Boolean(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=True),
        sa.Column("expires_on", sa.Date(), nullable=True),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("extractor", sa.Text(), nullable=True),
        sa.Column("outcome", sa.JSON(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("said_at", UtcTime, nullable=False),
        sa.Column("occurred_at", UtcTime, nullable=True),
        sa.Column("handed_at", UtcTime, nullable=False),
        sa.Column("accepted_at", UtcTime, nullable=False),
        sa.Column("held_until", UtcTime, nullable=True),
        sa.Column("next_at", UtcTime, nullable=True),
        sa.Column("committed_at", UtcTime, nullable=True),
        sa.Column("searchable_at", UtcTime, nullable=True),
        sa.Column("finished_at", UtcTime, nullable=True),
        sa.CheckConstraint(
            "state IN ('accepted', 'committed', 'searchable', 'failed', 'cancelled', 'conflict')", name=op.f("ck_jobs_state")
        ),
        sa.ForeignKeyConstraint(["lane"], ["lanes.key"], name=op.f("fk_jobs_lane")),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], name=op.f("fk_jobs_lease_id")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_jobs")),
        sa.UniqueConstraint("id", name=op.f("uq_jobs_id")),
        sa.UniqueConstraint("lane", "position", name=op.f("uq_jobs_lane_position")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_jobs_committed",
        "jobs",
        ["committed_at"],
        unique=False,
        sqlite_where=sa.text("state = 'committed'"),
        postgresql_where=sa.text("state = 'committed'"),
    )
    op.create_index(
        "ix_jobs_failed",
        "jobs",
        ["namespace", "no"],
        unique=False,
        sqlite_where=sa.text("state = 'failed'"),
        postgresql_where=sa.text("state = 'failed'"),
    )
    op.create_index(
        "ix_jobs_held",
        "jobs",
        ["held_until"],
        unique=False,
        sqlite_where=sa.text("held_until IS NOT NULL"),
        postgresql_where=sa.text("held_until IS NOT NULL"),
    )
    op.create_index(
        "ix_jobs_lease_id",
        "jobs",
        ["lease_id"],
        unique=False,
        sqlite_where=sa.text("lease_id IS NOT NULL"),
        postgresql_where=sa.text("lease_id IS NOT NULL"),
    )
    op.create_index(op.f("ix_jobs_namespace_no"), "jobs", ["namespace", "no"], unique=False)
    op.create_index(
        "ix_jobs_open",
        "jobs",
        ["lane", "position"],
        unique=False,
        sqlite_where=sa.text("finished_at IS NULL AND position IS NOT NULL"),
        postgresql_where=sa.text("finished_at IS NULL AND position IS NOT NULL"),
    )
    op.create_index(
        "ix_jobs_unfinished",
        "jobs",
        ["namespace", "no"],
        unique=False,
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "lane_numbers",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["lane"], ["lanes.key"], name=op.f("fk_lane_numbers_lane")),
        sa.PrimaryKeyConstraint("lane", "producer", "number", name=op.f("pk_lane_numbers")),
    )
    op.create_table(
        "lane_producers",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("expected", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["lane"], ["lanes.key"], name=op.f("fk_lane_producers_lane")),
        sa.PrimaryKeyConstraint("lane", "producer", name=op.f("pk_lane_producers")),
    )
    op.create_table(
        "memories",
        sa.Column("no", BigId, autoincrement=True, nullable=False),
        sa.Column("id", IdText, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("owner_no", BigId, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("md5", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("attributed_to", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("actor_id", sa.Text(), nullable=True),
        sa.Column("memory_type", sa.Text(), nullable=True),
        sa.Column("verbatim", sa.Boolean(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=True),
        sa.Column("message", sa.Integer(), nullable=True),
        sa.Column("expires_on", sa.Date(), nullable=True),
        sa.Column("occurred_at", UtcTime, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.Column("valid_from", UtcTime, nullable=False),
        sa.Column("valid_to", UtcTime, nullable=True),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.CheckConstraint("(state = 'superseded') = (superseded_by IS NOT NULL)", name=op.f("ck_memories_superseded")),
        sa.CheckConstraint("state IN ('live', 'superseded', 'expired', 'deleted')", name=op.f("ck_memories_state")),
        sa.ForeignKeyConstraint(["lane"], ["lanes.key"], name=op.f("fk_memories_lane")),
        sa.ForeignKeyConstraint(["owner_no"], ["owners.no"], name=op.f("fk_memories_owner_no")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_memories")),
        sa.UniqueConstraint("id", name=op.f("uq_memories_id")),
        sa.UniqueConstraint("job_id", "ordinal", name=op.f("uq_memories_job_id_ordinal")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_memories_lane_place_ordinal"), "memories", ["lane", "place", "ordinal"], unique=False)
    op.create_index(op.f("ix_memories_namespace_agent_id_no"), "memories", ["namespace", "agent_id", "no"], unique=False)
    op.create_index(op.f("ix_memories_namespace_id"), "memories", ["namespace", "id"], unique=False)
    op.create_index(op.f("ix_memories_namespace_run_id_no"), "memories", ["namespace", "run_id", "no"], unique=False)
    op.create_index(op.f("ix_memories_namespace_user_id_no"), "memories", ["namespace", "user_id", "no"], unique=False)
    op.create_index(op.f("ix_memories_owner_no_no"), "memories", ["owner_no", "no"], unique=False)
    op.create_index(
        "ix_memories_slot",
        "memories",
        ["owner_no", "slot"],
        unique=False,
        sqlite_where=sa.text("slot IS NOT NULL"),
        postgresql_where=sa.text("slot IS NOT NULL"),
    )
    op.create_index(
        "uq_memories_live_hash",
        "memories",
        ["lane", "content_hash"],
        unique=True,
        sqlite_where=sa.text("state = 'live'"),
        postgresql_where=sa.text("state = 'live'"),
    )
    op.create_table(
        "messages",
        sa.Column("no", BigId, autoincrement=True, nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("said_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["lane"], ["lanes.key"], name=op.f("fk_messages_lane")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_messages")),
        sa.UniqueConstraint("job_id", "ordinal", name=op.f("uq_messages_job_id_ordinal")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_messages_lane_place_ordinal"), "messages", ["lane", "place", "ordinal"], unique=False)
    op.create_table(
        "entity_links",
        sa.Column("entity_no", BigId, nullable=False),
        sa.Column("memory_no", BigId, nullable=False),
        sa.ForeignKeyConstraint(["entity_no"], ["entities.no"], name=op.f("fk_entity_links_entity_no"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["memory_no"], ["memories.no"], name=op.f("fk_entity_links_memory_no"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("entity_no", "memory_no", name=op.f("pk_entity_links")),
    )
    op.create_index(op.f("ix_entity_links_memory_no"), "entity_links", ["memory_no"], unique=False)
    op.create_table(
        "entity_names",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("norm", sa.Text(), nullable=False),
        sa.Column("entity_no", BigId, nullable=False),
        sa.ForeignKeyConstraint(["entity_no"], ["entities.no"], name=op.f("fk_entity_names_entity_no"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["lane"], ["lanes.key"], name=op.f("fk_entity_names_lane")),
        sa.PrimaryKeyConstraint("lane", "norm", name=op.f("pk_entity_names")),
    )
    op.create_index(op.f("ix_entity_names_entity_no"), "entity_names", ["entity_no"], unique=False)
    op.create_table(
        "history",
        sa.Column("no", BigId, autoincrement=True, nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("old_text", sa.Text(), nullable=True),
        sa.Column("new_text", sa.Text(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("actor_id", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["memory_id"], ["memories.id"], name=op.f("fk_history_memory_id")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_history")),
        sa.UniqueConstraint("memory_id", "version", name=op.f("uq_history_memory_id_version")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "memory_links",
        sa.Column("memory_no", BigId, nullable=False),
        sa.Column("to_no", BigId, nullable=False),
        sa.Column("relation", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["memory_no"], ["memories.no"], name=op.f("fk_memory_links_memory_no"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["to_no"], ["memories.no"], name=op.f("fk_memory_links_to_no"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("memory_no", "to_no", name=op.f("pk_memory_links")),
    )
    op.create_index(op.f("ix_memory_links_to_no"), "memory_links", ["to_no"], unique=False)
    op.create_table(
        "postings",
        sa.Column("owner_no", BigId, nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("memory_no", BigId, nullable=False),
        sa.Column("tf", sa.Integer(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["memory_no"], ["memories.no"], name=op.f("fk_postings_memory_no"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["owner_no"], ["owners.no"], name=op.f("fk_postings_owner_no")),
        sa.PrimaryKeyConstraint("owner_no", "term", "memory_no", name=op.f("pk_postings")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_postings_memory_no"), "postings", ["memory_no"], unique=False)
    op.create_table(
        "stage_results",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("ask", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("stored_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_stage_results_job_id")),
        sa.PrimaryKeyConstraint("job_id", "stage", "ask", name=op.f("pk_stage_results")),
    )
    op.create_table(
        "vectors",
        sa.Column("memory_no", BigId, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("length(vector) = 4 * dimension", name=op.f("ck_vectors_whole")),
        sa.ForeignKeyConstraint(["memory_no"], ["memories.no"], name=op.f("fk_vectors_memory_no"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("memory_no", name=op.f("pk_vectors")),
    )


def downgrade() -> None:
    raise NotImplementedError("There is nothing before the first schema: drop the database instead.")
