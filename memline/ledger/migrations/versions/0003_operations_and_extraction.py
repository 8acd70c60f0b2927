"""operations and extraction"""

import sqlalchemy as sa
from alembic import op

from memline.ledger.types import UtcTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "heartbeats",
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("loop", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", UtcTime, nullable=False),
        sa.Column("beat_at", UtcTime, nullable=False),
        sa.Column("beat_by", UtcTime, nullable=False),
        sa.Column("round_at", UtcTime, nullable=True),
        sa.Column("round_by", UtcTime, nullable=True),
        sa.Column("good_at", UtcTime, nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("process", "loop", name=op.f("pk_heartbeats")),
    )
    op.create_index(op.f("ix_heartbeats_beat_by"), "heartbeats", ["beat_by"], unique=False)
    op.create_table(
        "usage",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("repeated", sa.BigInteger(), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_cached", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.Column("nanodollars", sa.BigInteger(), nullable=False),
        sa.Column("unpriced", sa.BigInteger(), nullable=False),
        sa.Column("last_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("day", "namespace", "call", "model", name=op.f("pk_usage")),
    )
    op.add_column("jobs", sa.Column("masked", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("jobs", sa.Column("notes", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("jobs", sa.Column("trace", sa.Text(), nullable=True))
    op.add_column("memories", sa.Column("span_start", sa.Integer(), nullable=True))
    op.add_column("memories", sa.Column("span_end", sa.Integer(), nullable=True))
    op.add_column("messages", sa.Column("withheld", sa.Boolean(), nullable=True))
    op.add_column("outbox", sa.Column("trace", sa.Text(), nullable=True))
    op.create_index(
        "ix_tombstones_open",
        "tombstones",
        ["started_at"],
        unique=False,
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )


def downgrade() -> None:
    raise NotImplementedError("Migrations only go on: restore the backup that was made before it.")
