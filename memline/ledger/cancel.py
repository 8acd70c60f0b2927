"""Ending jobs that must not become memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.receipt import Status
from memline.ledger.counters import count
from memline.ledger.jobs import Stage, lock_which
from memline.ledger.leases import lock_batches, move_queues, release_emptied
from memline.ledger.messages import carries, strip_payloads
from memline.ledger.schema import jobs

__all__ = ["cancel_jobs", "cancel_where", "lock_to_cancel", "still_open"]


def cancel_jobs(tx: Connection, job_nos: Sequence[int], *, reason: str, now: datetime) -> int:
    """`cancel_where` of jobs by their numbers."""
    return cancel_where(tx, jobs.c.no.in_(list(job_nos)), reason=reason, now=now)


def cancel_where(tx: Connection, which: sa.ColumnElement[bool], *, reason: str, now: datetime, idle: Sequence[str] | None = None) -> int:
    """Ends the jobs for which *which* holds as cancelled, with what they carried, replies too. Returns how many were not committed.

    A failed one is among them: a replay would else bring it back. What a job has committed stays for the caller to decide; it is done, and
    its last stages do not run. The queues of lanes that wait move on. A batch that is left with no job of a lane gives the lane back, and
    one that is left with none ends: whoever runs it is told by the guard. *idle*: what `lock_to_cancel` said of the lanes of these jobs,
    where all is locked already.
    """
    open_jobs = still_open(which)
    waiting = lock_to_cancel(tx, which) if idle is None else idle
    rows = tx.execute(sa.select(jobs.c.no, jobs.c.lease_id, jobs.c.committed_at).where(open_jobs).order_by(jobs.c.no)).all()
    held = sorted({row.lease_id for row in rows if row.lease_id is not None})
    strip_payloads(tx, which)
    uncommitted = jobs.c.committed_at.is_(None)
    tx.execute(
        sa.update(jobs)
        .where(open_jobs)
        .values(
            state=sa.case((uncommitted, Status.CANCELLED.value), else_=jobs.c.state),
            stage=sa.case((uncommitted, jobs.c.stage), else_=Stage.DONE.value),
            reason=reason,
            finished_at=now,
            lease_id=None,
            next_at=None,
            held_until=None,
        )
    )
    move_queues(tx, waiting, now=now)
    release_emptied(tx, held, now=now)
    cancelled = sum(row.committed_at is None for row in rows)
    count(tx, "turns_cancelled", cancelled)
    return cancelled


def lock_to_cancel(tx: Connection, which: sa.ColumnElement[bool]) -> Sequence[str]:
    """Locks what `cancel_where` changes; the keys of the lanes among it. For who cancels in several steps: before the first, for all."""
    open_jobs = still_open(which)
    waiting = lock_batches(tx, open_jobs)
    lock_which(tx, which, sa.or_(open_jobs, carries()))
    return waiting


def still_open(which: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Those of the jobs of *which* that a cancellation ends: not cancelled, with stages to come (a failed one has them)."""
    unfinished = sa.or_(jobs.c.finished_at.is_(None), jobs.c.stage != Stage.DONE.value)
    return sa.and_(which, unfinished, jobs.c.state != Status.CANCELLED.value)
