"""search and governance"""

import sqlalchemy as sa
from alembic import op

from memline.ledger.types import BigId, IdText, UtcTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("no", BigId, autoincrement=True, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("xid", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_changes")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_changes_memory_id_no"), "changes", ["memory_id", "no"], unique=False)
    op.create_index(op.f("ix_changes_namespace_xid_no"), "changes", ["namespace", "xid", "no"], unique=False)
    op.create_table(
        "erased_numbers",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("expected", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("lane", "producer", name=op.f("pk_erased_numbers")),
    )
    op.create_index(op.f("ix_erased_numbers_seen_at"), "erased_numbers", ["seen_at"], unique=False)
    op.create_table(
        "erased_turns",
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_erased_turns")),
    )
    op.create_index(op.f("ix_erased_turns_at"), "erased_turns", ["at"], unique=False)
    op.create_table(
        "index_tenants",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_index_tenants")),
        sa.UniqueConstraint("namespace", name=op.f("uq_index_tenants_namespace")),
    )
    op.create_table(
        "marks",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("place", IdText, nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_marks")),
    )
    op.create_index(op.f("ix_marks_namespace"), "marks", ["namespace"], unique=False)
    op.create_table(
        "namespace_options",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("set_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name", name=op.f("pk_namespace_options")),
    )
    op.create_table(
        "tombstones",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("place", IdText, nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("started_at", UtcTime, nullable=False),
        sa.Column("finished_at", UtcTime, nullable=True),
        sa.Column("waits", sa.JSON(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("certificate", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tombstones")),
    )
    op.create_index(op.f("ix_tombstones_subject"), "tombstones", ["subject"], unique=False)
    op.create_table(
        "erasure_objects",
        sa.Column("erasure", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("object_id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["erasure"], ["tombstones.id"], name=op.f("fk_erasure_objects_erasure")),
        sa.PrimaryKeyConstraint("erasure", "kind", "object_id", name=op.f("pk_erasure_objects")),
    )
    op.create_table(
        "next_entity_vectors",
        sa.Column("entity_no", BigId, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["entity_no"], ["entities.no"], name=op.f("fk_next_entity_vectors_entity_no"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("entity_no", name=op.f("pk_next_entity_vectors")),
    )
    op.create_index(
        op.f("ix_next_entity_vectors_entity_no_source_model"), "next_entity_vectors", ["entity_no", "source", "model"], unique=False
    )
    op.create_table(
        "next_vectors",
        sa.Column("memory_no", BigId, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["memory_no"], ["memories.no"], name=op.f("fk_next_vectors_memory_no"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("memory_no", name=op.f("pk_next_vectors")),
    )
    op.create_index(op.f("ix_next_vectors_memory_no_source_model"), "next_vectors", ["memory_no", "source", "model"], unique=False)
    op.create_table(
        "sightings",
        sa.Column("memory_no", BigId, nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("said_at", UtcTime, nullable=False),
        sa.ForeignKeyConstraint(["memory_no"], ["memories.no"], name=op.f("fk_sightings_memory_no"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("memory_no", "job_id", name=op.f("pk_sightings")),
    )
    op.create_index(op.f("ix_sightings_job_id"), "sightings", ["job_id"], unique=False)
    op.create_index(op.f("ix_sightings_memory_no_said_at"), "sightings", ["memory_no", "said_at"], unique=False)
    op.add_column("history", sa.Column("old_hash", sa.Text(), nullable=True))
    op.add_column("history", sa.Column("new_hash", sa.Text(), nullable=True))
    op.add_column("history", sa.Column("old_length", sa.Integer(), nullable=True))
    op.add_column("history", sa.Column("new_length", sa.Integer(), nullable=True))
    op.add_column("history", sa.Column("changes", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("jobs", sa.Column("prompt_source", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("prompt_hash", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("memory_type", sa.Text(), nullable=True))
    op.create_index(op.f("ix_lanes_namespace_run_id"), "lanes", ["namespace", "run_id"], unique=False)
    op.create_index(
        "ix_memories_expires_on",
        "memories",
        ["state", "expires_on"],
        unique=False,
        sqlite_where=sa.text("expires_on IS NOT NULL"),
        postgresql_where=sa.text("expires_on IS NOT NULL"),
    )


def downgrade() -> None:
    raise NotImplementedError("Migrations only go on: restore the backup that was made before it.")
