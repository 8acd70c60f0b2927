"""A batch on its way: taken, renewed, advanced, divided, ended; and what the sweep does about those that stopped.

Every verb that changes a lease names its epoch and its stage: who holds an older one changes nothing and is told (`LeaseLost`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import metrics
from memline.contracts.errors import LeaseLost
from memline.contracts.incidents import FailedJob
from memline.ledger.counters import count
from memline.ledger.jobs import Job, Stage, fail_jobs, jobs_of_lease, lock_which, next_stage
from memline.ledger.schema import jobs, lanes, leases
from memline.ledger.session import when_committed

__all__ = [
    "Lease",
    "LeaseTimes",
    "advance",
    "dissolve_expired",
    "divide",
    "end",
    "free_lanes",
    "guard",
    "hand_back",
    "hand_back_all",
    "lock_batches",
    "move_queues",
    "release_emptied",
    "renew",
    "send_again",
    "take",
]


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long things may take, in seconds."""

    #: A worker that says nothing for this long is taken for dead.
    lease: float = 60.0
    #: A batch that nobody took for this long is sent again.
    resend: float = 5.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A batch of jobs at one stage, under one epoch."""

    id: str
    epoch: int
    stage: Stage
    alone: bool
    #: Ids of its jobs, where they were at hand: to be shown, never to be relied on.
    jobs: tuple[str, ...] = field(default=(), compare=False)


def take(tx: Connection, lease_id: str, epoch: int, stage: Stage, *, worker: str, now: datetime, times: LeaseTimes) -> Lease | None:
    """Takes a waiting batch. None: somebody has it, it moved on, or it was claimed anew; the message is to be dropped."""
    row = tx.execute(
        sa.update(leases)
        .where(leases.c.id == lease_id, leases.c.epoch == epoch, leases.c.stage == stage.value, sa.not_(leases.c.taken))
        .values(taken=True, worker=worker, until=now + timedelta(seconds=times.lease))
        .returning(leases.c.alone)
    ).one_or_none()
    return None if row is None else Lease(lease_id, epoch, stage, row.alone)


def guard(tx: Connection, lease: Lease, *, now: datetime) -> None:
    """Locks the lease for this transaction; raises LeaseLost unless it is still ours and has not run out (G6)."""
    row = tx.execute(sa.select(leases.c.id).where(*_ours(lease, now)).with_for_update()).one_or_none()
    if row is None:
        raise LeaseLost(
            f"The lease {lease.id} (epoch {lease.epoch}, stage {lease.stage}) ran out or was taken over; nothing was committed."
        )


def renew(tx: Connection, lease: Lease, *, now: datetime, times: LeaseTimes) -> None:
    """Keeps a batch for another lease; raises LeaseLost where it is gone."""
    done = tx.execute(sa.update(leases).where(*_ours(lease, now)).values(until=now + timedelta(seconds=times.lease)))
    if done.rowcount != 1:
        raise LeaseLost(f"The lease {lease.id} (epoch {lease.epoch}, stage {lease.stage}) ran out or was taken over.")


def advance(tx: Connection, lease: Lease, *, now: datetime, times: LeaseTimes) -> Lease:
    """Moves a guarded batch, with the jobs that are still in it, to the next stage, where it waits to be taken."""
    stage = next_stage(lease.stage)
    tx.execute(
        sa.update(leases)
        .where(leases.c.id == lease.id)
        .values(
            stage=stage.value,
            taken=False,
            worker=None,
            until=now + timedelta(seconds=times.lease),
            send_at=now + timedelta(seconds=times.resend),
        )
    )
    tx.execute(sa.update(jobs).where(jobs.c.lease_id == lease.id).values(stage=stage.value))
    return Lease(lease.id, lease.epoch, stage, lease.alone)


def divide(tx: Connection, lease: Lease, ready: Sequence[Job], *, new_id: str, now: datetime, times: LeaseTimes) -> Lease:
    """Moves *ready* (whole lanes) out of a guarded batch into one of its own at the next stage; the rest stays where it is."""
    stage = next_stage(lease.stage)
    tx.execute(
        sa.insert(leases).values(
            id=new_id,
            epoch=1,
            stage=stage.value,
            alone=lease.alone,
            taken=False,
            until=now + timedelta(seconds=times.lease),
            send_at=now + timedelta(seconds=times.resend),
            created_at=now,
        )
    )
    tx.execute(sa.update(jobs).where(jobs.c.no.in_([job.no for job in ready])).values(lease_id=new_id, stage=stage.value))
    moved = _lock_lanes(tx, lanes.c.lease_id == lease.id, lanes.c.key.in_({job.lane for job in ready}))
    tx.execute(sa.update(lanes).where(lanes.c.key.in_(moved)).values(lease_id=new_id))
    return Lease(new_id, 1, stage, lease.alone, tuple(job.id for job in ready))


def end(tx: Connection, lease: Lease, *, now: datetime) -> None:
    """Ends a guarded batch after its last stage: its jobs are finished, its lanes free."""
    tx.execute(
        sa.update(jobs)
        .where(jobs.c.lease_id == lease.id)
        .values(stage=Stage.DONE.value, finished_at=now, lease_id=None, next_at=None, alone=False, reason=_settled_reason())
    )
    _drop(tx, lease.id, now=now)


def hand_back(tx: Connection, lease: Lease, *, now: datetime) -> None:
    """Ends a batch whose jobs are to be claimed again, where they stand."""
    _lock_jobs(tx, [lease.id])
    tx.execute(sa.update(jobs).where(jobs.c.lease_id == lease.id).values(lease_id=None))
    _drop(tx, lease.id, now=now)


def hand_back_all(tx: Connection, worker: str, *, now: datetime) -> int:
    """Ends the batches that *worker* has taken: their jobs are claimed again at once, where they stand, and have spent no attempt.

    Returns how many batches. What the worker still does for them commits nothing (G6).
    """
    held = sa.select(leases.c.id, leases.c.epoch, leases.c.stage, leases.c.alone).where(leases.c.taken, leases.c.worker == worker)
    rows = tx.execute(held.order_by(leases.c.id).with_for_update()).all()
    _lock_jobs(tx, [row.id for row in rows])
    for row in rows:
        hand_back(tx, Lease(row.id, row.epoch, Stage(row.stage), row.alone), now=now)
    count(tx, "batches_handed_back", len(rows))
    return len(rows)


def free_lanes(tx: Connection, lease_id: str, *, now: datetime, only_empty: bool = False) -> None:
    """Frees the lanes of a batch (*only_empty*: those of which no job is in it any more) and moves their queues on."""
    which = [lanes.c.lease_id == lease_id]
    if only_empty:
        which.append(~sa.exists().where(jobs.c.lane == lanes.c.key, jobs.c.lease_id == lease_id))
    move_queues(tx, _lock_lanes(tx, *which), now=now)


def lock_batches(tx: Connection, which: sa.ColumnElement[bool]) -> Sequence[str]:
    """Locks the batches of the jobs for which *which* holds, and those of their lanes that no batch holds: the keys of the latter.

    To be called before the jobs are locked. Batches come before the lanes: one that is given back at the moment leaves its lanes idle,
    and so they are locked. And once more after them: one of a lane that was being claimed is there only now, and may be taken at once.
    """
    _lock_leases(tx, which)
    idle = _lock_lanes(tx, lanes.c.key.in_(sa.select(jobs.c.lane).where(which)), lanes.c.lease_id.is_(None))
    _lock_leases(tx, which)
    return idle


def _lock_leases(tx: Connection, which: sa.ColumnElement[bool]) -> None:
    if tx.dialect.name == "sqlite":
        return
    of_jobs = sa.select(jobs.c.lease_id).where(which, jobs.c.lease_id.is_not(None))
    tx.execute(sa.select(leases.c.id).where(leases.c.id.in_(of_jobs)).order_by(leases.c.id).with_for_update()).all()


def release_emptied(tx: Connection, lease_ids: Sequence[str], *, now: datetime) -> None:
    """Gives back the lanes of which no job is left in these batches, and ends those batches that have none at all."""
    for lease_id in lease_ids:
        free_lanes(tx, lease_id, now=now, only_empty=True)
        tx.execute(sa.delete(leases).where(leases.c.id == lease_id, ~sa.exists().where(jobs.c.lease_id == lease_id)))


def _lock_jobs(tx: Connection, lease_ids: Sequence[str]) -> None:
    if lease_ids:
        lock_which(tx, jobs.c.lease_id.in_(lease_ids))


def _lock_lanes(tx: Connection, *which: sa.ColumnElement[bool]) -> Sequence[str]:
    """Keys of lanes, locked; one order for all who lock several: by key."""
    return tx.execute(sa.select(lanes.c.key).where(*which).order_by(lanes.c.key).with_for_update(key_share=True)).scalars().all()


def move_queues(tx: Connection, lane_keys: Sequence[str], *, now: datetime) -> None:
    """Moves the queues of locked lanes to their first open job, and leaves the lanes to be claimed."""
    if not lane_keys:
        return
    # PostgreSQL and SQLite both plan these as index look-ups on ix_jobs_open.
    open_jobs = sa.and_(jobs.c.lane == lanes.c.key, jobs.c.finished_at.is_(None), jobs.c.position.is_not(None))
    first = sa.select(sa.func.min(jobs.c.position)).where(open_jobs).scalar_subquery()
    head_waits_until = sa.select(jobs.c.next_at).where(open_jobs).order_by(jobs.c.position).limit(1).scalar_subquery()
    tx.execute(
        sa.update(lanes)
        .where(lanes.c.key.in_(lane_keys))
        .values(
            lease_id=None,
            done_position=sa.func.coalesce(first - 1, lanes.c.last_position),
            ready_at=sa.func.coalesce(head_waits_until, sa.bindparam("now", now, type_=lanes.c.ready_at.type)),
        )
        .execution_options(synchronize_session=False)
    )


def send_again(tx: Connection, *, now: datetime, times: LeaseTimes, limit: int = 200) -> list[Lease]:
    """Batches that nobody took since they were sent. They wait on: a batch in a queue never runs out by waiting."""
    rows = tx.execute(
        sa.select(leases.c.id, leases.c.epoch, leases.c.stage, leases.c.alone)
        .where(sa.not_(leases.c.taken), leases.c.send_at <= now)
        .order_by(leases.c.send_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    if rows:
        tx.execute(
            sa.update(leases)
            .where(leases.c.id.in_([row.id for row in rows]))
            .values(send_at=now + timedelta(seconds=times.resend), until=now + timedelta(seconds=times.lease))
        )
        count(tx, "messages_resent", len(rows))
    return [Lease(row.id, row.epoch, Stage(row.stage), row.alone) for row in rows]


def dissolve_expired(tx: Connection, *, now: datetime, max_attempts: int, limit: int = 50, failed: list[FailedJob] | None = None) -> int:
    """Takes batches from workers that died or hang. Their jobs are retried alone; one that was alone has spent an attempt.

    *failed* gets the jobs that have none left, for whoever tells of them after the commit.
    """
    rows = tx.execute(
        sa.select(leases.c.id, leases.c.epoch, leases.c.stage, leases.c.alone)
        .where(leases.c.taken, leases.c.until <= now)
        .order_by(leases.c.until)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    _lock_jobs(tx, [row.id for row in rows])
    for row in rows:
        found = jobs_of_lease(tx, row.id)
        single = row.alone or len(found) == 1
        spent = [job for job in found if single and job.attempts + 1 >= max_attempts]
        if spent:
            reason = f"The worker died or hung {max_attempts} times at {row.stage}."
            fail_jobs(tx, [job.no for job in spent], reason=reason, now=now)
            if failed is not None:
                failed += [FailedJob(job.id, row.stage, job.scope.namespace, reason, job.attempts + 1) for job in spent]
        values: dict[str, Any] = {"lease_id": None, "alone": True}
        if single:
            values["attempts"] = jobs.c.attempts + 1
        tx.execute(sa.update(jobs).where(jobs.c.lease_id == row.id).values(values))
        _drop(tx, row.id, now=now)
        when_committed(tx, partial(_measure, row.stage, retried=len(found) - len(spent), failed=len(spent)))
    count(tx, "leases_expired", len(rows))
    return len(rows)


def _measure(stage: str, *, retried: int, failed: int) -> None:
    metrics.RETRIES.add(retried, stage=stage, reason="worker_died")
    metrics.FAILURES.add(failed, stage=stage, reason="worker_died")


def _ours(lease: Lease, now: datetime) -> list[sa.ColumnElement[bool]]:
    return [
        leases.c.id == lease.id,
        leases.c.epoch == lease.epoch,
        leases.c.stage == lease.stage.value,
        leases.c.taken,
        leases.c.until > now,
    ]


def _drop(tx: Connection, lease_id: str, *, now: datetime) -> None:
    free_lanes(tx, lease_id, now=now)
    tx.execute(sa.delete(leases).where(leases.c.id == lease_id))


def _settled_reason() -> sa.ColumnElement[str | None]:
    # A job without a memory was searchable at its commit, and the reason says why it has none. One with memories has nothing to tell:
    # a reason that spoke of a retry is history.
    return sa.case((jobs.c.searchable_at == jobs.c.committed_at, jobs.c.reason), else_=sa.null())
