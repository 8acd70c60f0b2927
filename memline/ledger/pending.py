"""What is still on its way."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import jobs, outbox

__all__ = ["pending_work"]


def pending_work(connection: Connection, namespace: str) -> tuple[int, int]:
    """Jobs of a namespace that are not finished, and objects that its index was not shown yet (those set aside are not counted)."""
    unfinished = sa.select(sa.func.count()).select_from(jobs).where(jobs.c.namespace == namespace, jobs.c.finished_at.is_(None))
    unseen = sa.select(sa.func.count()).select_from(outbox).where(outbox.c.namespace == namespace, sa.not_(outbox.c.parked))
    return connection.execute(unfinished).scalar_one(), connection.execute(unseen).scalar_one()
