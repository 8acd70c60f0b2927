"""A job as the stages see it, and what they write of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from memline.contracts.errors import JobFailed, UnknownReceipt
from memline.contracts.receipt import Status
from memline.contracts.scope import Scope
from memline.contracts.turn import Message
from memline.ledger.counters import count
from memline.ledger.locks import lock_of_lanes
from memline.ledger.schema import jobs, lanes

__all__ = [
    "STAGES",
    "Job",
    "Stage",
    "fail_jobs",
    "jobs_of_lease",
    "list_jobs",
    "lock_jobs",
    "lock_which",
    "next_stage",
    "postpone_jobs",
    "retry_job",
]


class Stage(StrEnum):
    """The six stages, in order, and `done`."""

    EXTRACT = "extract"
    EMBED = "embed"
    DEDUP = "dedup"
    PERSIST = "persist"
    LINK = "link"
    SAVE = "save"
    DONE = "done"


STAGES = tuple(stage for stage in Stage if stage is not Stage.DONE)


def next_stage(stage: Stage) -> Stage:
    """The stage after *stage*."""
    order = list(Stage)
    return order[order.index(stage) + 1]


@dataclass(frozen=True, slots=True)
class Job:
    """A turn on its way through the stages."""

    no: int
    id: str
    scope: Scope
    lane: str
    owner_no: int
    place: int
    position: int
    state: Status
    stage: Stage
    attempts: int
    alone: bool
    epochs: int
    messages: tuple[Message, ...]
    infer: bool
    prompt: str | None
    metadata: dict[str, Any]
    expires_on: date | None
    said_at: datetime
    occurred_at: datetime | None
    handed_at: datetime
    #: `turn.PROCEDURAL`, or None for facts.
    memory_type: str | None = None
    #: The `traceparent` of the span that handed it over, where it is traced.
    trace: str | None = None


def jobs_of_lease(connection: Connection, lease_id: str) -> list[Job]:
    """The jobs of a batch, lane by lane, each lane in its order."""
    query = (
        sa.select(jobs, lanes.c.user_id, lanes.c.agent_id, lanes.c.run_id, lanes.c.owner_no)
        .join(lanes, lanes.c.key == jobs.c.lane)
        .where(jobs.c.lease_id == lease_id)
        .order_by(jobs.c.lane, jobs.c.position)
    )
    return [_job(row) for row in connection.execute(query)]


def _job(row: Row[Any]) -> Job:
    return Job(
        no=row.no,
        id=row.id,
        scope=Scope(row.namespace, row.user_id, row.agent_id, row.run_id),
        lane=row.lane,
        owner_no=row.owner_no,
        place=row.place,
        position=row.position,
        state=Status(row.state),
        stage=Stage(row.stage),
        attempts=row.attempts,
        alone=row.alone,
        epochs=row.epochs,
        messages=tuple(Message.from_json(message) for message in row.messages or ()),
        infer=row.infer,
        prompt=row.prompt,
        metadata=row.metadata or {},
        expires_on=row.expires_on,
        said_at=row.said_at,
        occurred_at=row.occurred_at,
        handed_at=row.handed_at,
        memory_type=row.memory_type,
        trace=row.trace,
    )


def lock_jobs(tx: Connection, lease_id: str) -> set[int]:
    """Locks the jobs of a batch, in the order in which everybody locks jobs, and says which they are now (numbers).

    A job that was cancelled, by erase or delete_all, since the batch was read is not among them.
    """
    return set(tx.execute(sa.select(jobs.c.no).where(jobs.c.lease_id == lease_id).order_by(jobs.c.no).with_for_update()).scalars())


def lock_which(tx: Connection, *which: sa.ColumnElement[bool]) -> None:
    """Locks the jobs for which *which* holds, in the order in which everybody locks jobs, before some of them are changed by statements
    that keep no order: a relay may be about to lock the same ones.
    """
    if tx.dialect.name == "sqlite":
        return
    locked = sa.select(jobs.c.no).where(*which).order_by(jobs.c.no).with_for_update().subquery()
    tx.execute(sa.select(sa.func.count()).select_from(locked)).scalar_one()


def postpone_jobs(tx: Connection, found: Sequence[Job], *, next_at: datetime, spend: bool, alone: bool, reason: str) -> None:
    """Takes jobs out of their batch until *next_at*; *spend*: it was their own failure and costs an attempt."""
    values: dict[str, Any] = {"lease_id": None, "next_at": next_at, "alone": alone, "reason": reason}
    if spend:
        values["attempts"] = jobs.c.attempts + 1
    tx.execute(sa.update(jobs).where(jobs.c.no.in_([job.no for job in found])).values(values))


def fail_jobs(tx: Connection, job_nos: Iterable[int], *, reason: str, now: datetime) -> None:
    """Ends jobs as failed. One that was committed stays committed and shows the stage that is missing."""
    nos = list(job_nos)
    tx.execute(
        sa.update(jobs)
        .where(jobs.c.no.in_(nos))
        .values(
            state=sa.case((jobs.c.state == Status.ACCEPTED.value, Status.FAILED.value), else_=jobs.c.state),
            reason=reason,
            finished_at=now,
            lease_id=None,
            next_at=None,
            attempts=jobs.c.attempts + 1,
        )
    )
    count(tx, "jobs_failed", len(nos))


def retry_job(tx: Connection, job_id: str, *, now: datetime) -> bool:
    """Puts a failed job back at the end of its lane's queue, at its stage; its seat in the conversation stays. False: it did not fail."""
    lane = tx.execute(sa.select(jobs.c.lane).where(jobs.c.id == job_id)).scalar_one_or_none()
    lock_of_lanes(tx, [] if lane is None else [lane])
    # the lane before the job, as everybody does: two retries at once are one after the other
    tx.execute(sa.select(lanes.c.key).where(lanes.c.key == lane).with_for_update(key_share=True))
    row = tx.execute(
        sa.select(jobs.c.no, jobs.c.lane, jobs.c.state, jobs.c.stage, jobs.c.finished_at, jobs.c.messages.is_(sa.null()).label("bare"))
        .where(jobs.c.id == job_id)
        .with_for_update()
    ).one_or_none()
    if row is None:
        raise UnknownReceipt(f"No job {job_id} is in this ledger. `memline jobs` lists what is there.")
    if row.finished_at is None or row.stage == Stage.DONE or row.state in (Status.CANCELLED, Status.CONFLICT):
        return False
    if row.bare:
        raise JobFailed(
            f"Job {job_id} failed longer ago than MEMLINE_KEEP_FAILED allows, and its messages are no longer kept: it can't be replayed. "
            "Hand the turn over again."
        )
    position = tx.execute(
        sa.update(lanes)
        .where(lanes.c.key == row.lane)
        .values(
            last_position=lanes.c.last_position + 1,
            ready_at=sa.case(
                (lanes.c.last_position == lanes.c.done_position, sa.bindparam("now", now, type_=lanes.c.ready_at.type)),
                else_=lanes.c.ready_at,
            ),
        )
        .returning(lanes.c.last_position)
    ).scalar_one()
    state = Status.ACCEPTED if row.state == Status.FAILED else Status(row.state)
    tx.execute(
        sa.update(jobs)
        .where(jobs.c.no == row.no)
        .values(state=state.value, position=position, attempts=0, alone=True, next_at=None, finished_at=None, reason=None)
    )
    return True


def list_jobs(connection: Connection, namespace: str, *, state: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
    """The newest jobs first, without their text."""
    query = (
        sa.select(
            jobs.c.id,
            jobs.c.state,
            jobs.c.stage,
            jobs.c.attempts,
            jobs.c.reason,
            jobs.c.handed_at,
            jobs.c.accepted_at,
            jobs.c.committed_at,
            jobs.c.searchable_at,
            jobs.c.finished_at,
            jobs.c.held_until,
            jobs.c.next_at,
            jobs.c.extractor,
            jobs.c.prompt_source,
            jobs.c.prompt_hash,
            lanes.c.user_id,
            lanes.c.agent_id,
            lanes.c.run_id,
        )
        .join(lanes, lanes.c.key == jobs.c.lane)
        .where(jobs.c.namespace == namespace)
        .order_by(jobs.c.no.desc())
        .limit(limit)
    )
    if state == "unfinished":
        query = query.where(jobs.c.finished_at.is_(None))
    elif state is not None:
        # written out and not bound: so the database sees that its index over failed jobs will do
        query = query.where(jobs.c.state == sa.bindparam(None, state, sa.Text(), literal_execute=True))
    return [dict(row._mapping) for row in connection.execute(query)]
