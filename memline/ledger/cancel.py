"""Ending jobs that must not become memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.receipt import Status
from memline.ledger.leases import lock_idle_lanes, move_queues
from memline.ledger.schema import jobs

__all__ = ["cancel_jobs"]


def cancel_jobs(tx: Connection, job_nos: Sequence[int], *, reason: str, now: datetime) -> None:
    """Ends jobs as cancelled, with what they carried; what they committed before stays for the caller to decide.

    The queues of lanes that wait move on; those that a batch holds move when it ends.
    """
    which = jobs.c.no.in_(list(job_nos))
    waiting = lock_idle_lanes(tx, set(tx.execute(sa.select(jobs.c.lane).where(which)).scalars()))
    tx.execute(sa.select(jobs.c.no).where(which).order_by(jobs.c.no).with_for_update())
    tx.execute(
        sa.update(jobs)
        .where(which)
        .values(
            state=sa.case((jobs.c.state == Status.ACCEPTED.value, Status.CANCELLED.value), else_=jobs.c.state),
            reason=reason,
            finished_at=now,
            lease_id=None,
            next_at=None,
            held_until=None,
            messages=sa.null(),
            metadata=sa.null(),
            prompt=None,
        )
    )
    move_queues(tx, waiting, now=now)
