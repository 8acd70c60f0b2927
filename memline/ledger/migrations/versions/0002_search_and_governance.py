"""search and governance"""

import sqlalchemy as sa
from alembic import op

from memline.ledger.types import BigId, UtcTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "index_tenants",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_index_tenants")),
        sa.UniqueConstraint("namespace", name=op.f("uq_index_tenants_namespace")),
    )
    op.create_table(
        "namespace_options",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("set_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name", name=op.f("pk_namespace_options")),
    )
    op.create_table(
        "next_vectors",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("object_no", BigId, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("kind IN ('memory', 'entity')", name=op.f("ck_next_vectors_kind")),
        sa.PrimaryKeyConstraint("kind", "object_no", name=op.f("pk_next_vectors")),
    )


def downgrade() -> None:
    raise NotImplementedError("Migrations only go on: restore the backup that was made before it.")
