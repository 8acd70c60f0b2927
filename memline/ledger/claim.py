"""Claiming: heads of idle lanes become batches, as large as the load asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.jobs import Stage, lock_which
from memline.ledger.leases import Lease, LeaseTimes
from memline.ledger.locks import lock_claim
from memline.ledger.schema import jobs, lanes, leases

__all__ = ["ClaimLimits", "claim"]


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """How much is out at a time."""

    #: Batches on their way, waiting in a queue or running.
    in_flight: int = 8
    #: Jobs in a batch.
    batch: int = 32
    #: Consecutive jobs of one lane that go as one unit.
    unit: int = 32
    #: The same for turns that a paid model extracts: so many are asked in one call. 1: each wants to see what the one before left.
    paid_unit: int = 1
    #: Most characters of their messages, as the ledger keeps them, that go together so; how many tokens those are, extract counts.
    unit_size: int = 32_000


def claim(tx: Connection, *, now: datetime, limits: ClaimLimits, times: LeaseTimes, new_id: Callable[[], str], paid: bool) -> list[Lease]:
    """Claims what is ready: at most one unit a lane, as few or as many jobs a batch as there is room for.

    *paid*: the extractor is a paid model. The caller sends the batches after its commit.
    """
    if not _anything_ready(tx, now):
        return []
    lock_claim(tx)
    free = limits.in_flight - tx.execute(sa.select(sa.func.count()).select_from(leases)).scalar_one()
    if free <= 0:
        return []
    units = _ready_units(tx, now=now, limits=limits, paid=paid, most=free * limits.batch)
    claimed: list[Lease] = []
    batches = _batches(units, free=free, limits=limits)
    if batches:
        lock_which(tx, jobs.c.no.in_([row.no for batch in batches for unit in batch for row in unit]))
    for batch in batches:
        first = batch[0][0]
        lease = Lease(new_id(), 1, Stage(first.stage), first.alone, tuple(row.id for unit in batch for row in unit))
        tx.execute(
            sa.insert(leases).values(
                id=lease.id,
                epoch=1,
                stage=lease.stage.value,
                alone=lease.alone,
                taken=False,
                until=now + timedelta(seconds=times.lease),
                send_at=now + timedelta(seconds=times.resend),
                created_at=now,
            )
        )
        nos = [row.no for unit in batch for row in unit]
        # one that was cancelled while this waited for its row stays as it ended
        mine = sa.and_(jobs.c.no.in_(nos), jobs.c.finished_at.is_(None))
        tx.execute(sa.update(jobs).where(mine).values(lease_id=lease.id, next_at=None))
        tx.execute(sa.update(lanes).where(lanes.c.key.in_([unit[0].lane for unit in batch])).values(lease_id=lease.id))
        claimed.append(lease)
    return claimed


#: A row of jobs: no, id, lane, stage, alone, infer, next_at.
_Row = Any
_Unit = Sequence[_Row]


def _anything_ready(tx: Connection, now: datetime) -> bool:
    return tx.execute(sa.select(sa.literal(1)).where(*_idle(now)).limit(1)).one_or_none() is not None


def _idle(now: datetime) -> list[sa.ColumnElement[bool]]:
    return [lanes.c.lease_id.is_(None), lanes.c.last_position > lanes.c.done_position, lanes.c.ready_at <= now]


def _ready_units(tx: Connection, *, now: datetime, limits: ClaimLimits, paid: bool, most: int) -> list[_Unit]:
    idle = tx.execute(
        sa.select(lanes.c.key).where(*_idle(now)).order_by(lanes.c.ready_at).limit(most).with_for_update(skip_locked=True, key_share=True)
    ).scalars()
    order = {key: index for index, key in enumerate(idle)}
    other = jobs.alias()
    open_ahead = sa.and_(other.c.lane == lanes.c.key, other.c.finished_at.is_(None), other.c.position.is_not(None))
    head = sa.select(sa.func.min(other.c.position)).where(open_ahead).correlate(lanes).scalar_subquery()
    together = paid and limits.paid_unit > 1
    rows = tx.execute(
        sa.select(
            *_of_unit(together, jobs.c.position < head + limits.paid_unit),
            jobs.c.no,
            jobs.c.id,
            jobs.c.lane,
            jobs.c.stage,
            jobs.c.alone,
            jobs.c.infer,
            jobs.c.next_at,
        )
        .join(lanes, lanes.c.key == jobs.c.lane)
        .where(
            jobs.c.lane.in_(list(order)),
            jobs.c.finished_at.is_(None),
            jobs.c.position.is_not(None),
            jobs.c.position >= head,  # a queue may have holes: jobs that were replayed or cancelled
            jobs.c.position < head + limits.unit,
        )
        .order_by(jobs.c.lane, jobs.c.position)
    ).all()
    lanes_waiting: list[_Unit] = [list(group) for _, group in groupby(rows, key=lambda row: row.lane)]
    units = [_unit(waiting, now=now, limits=limits, paid=paid) for waiting in lanes_waiting]
    return sorted((unit for unit in units if unit), key=lambda unit: order[unit[0].lane])


def _unit(waiting: _Unit, *, now: datetime, limits: ClaimLimits, paid: bool) -> _Unit:
    """The head of a lane with those right behind it that may go along; empty while the head waits for its next try."""
    head = waiting[0]
    if _waits(head, now):
        return []
    if head.alone:
        return [head]
    extracting = paid and head.stage == Stage.EXTRACT
    most = limits.paid_unit if extracting else limits.unit
    unit = [head]
    size = head.size
    for row in waiting[1:]:
        if row.alone or _waits(row, now) or row.stage != head.stage or len(unit) >= (most if row.infer or head.infer else limits.unit):
            break
        size += row.size
        if extracting and (row.infer or head.infer) and not (row.joins and head.joins and size <= limits.unit_size):
            break
        unit.append(row)
    return unit


def _of_unit(together: bool, near: sa.ColumnElement[bool]) -> list[sa.ColumnElement[Any]]:
    """What decides whether a turn may be asked in one call with others: the size of its messages, and that nothing sets it apart.

    Messages may be long, so they are looked at only where they decide anything: of turns to extract that are *near* enough to the head.
    """
    if not together:
        return [sa.literal(0).label("size"), sa.true().label("joins")]
    said = sa.cast(jobs.c.messages, sa.Text)
    own_prompt = sa.func.coalesce(jobs.c.prompt_source, "") == "call"
    joins = sa.and_(jobs.c.infer, jobs.c.memory_type.is_(None), sa.not_(own_prompt), sa.not_(said.contains('"images":')))
    decides = sa.and_(near, jobs.c.infer, jobs.c.stage == Stage.EXTRACT.value)
    size = sa.case((decides, sa.func.coalesce(sa.func.length(said), 0)), else_=0)
    return [size.label("size"), sa.case((decides, joins), else_=sa.false()).label("joins")]


def _waits(row: _Row, now: datetime) -> bool:
    return row.next_at is not None and row.next_at > now


def _batches(units: Sequence[_Unit], *, free: int, limits: ClaimLimits) -> list[list[_Unit]]:
    """Units as batches: one stage a batch, a lone job by itself, at most *free* of them."""
    found: list[list[_Unit]] = [[unit] for unit in units if unit[0].alone]
    for stage in dict.fromkeys(unit[0].stage for unit in units):
        together = [unit for unit in units if unit[0].stage == stage and not unit[0].alone]
        size = min(limits.batch, max(1, math.ceil(sum(map(len, together)) / free)))
        batch: list[_Unit] = []
        for unit in together:
            if batch and sum(map(len, batch)) + len(unit) > size:
                found.append(batch)
                batch = []
            batch.append(unit)
        if batch:
            found.append(batch)
    return found[:free]
