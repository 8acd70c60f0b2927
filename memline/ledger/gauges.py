"""What is on its way in the ledger at this moment: a few statements, each led by an index over what is unfinished, so that a ledger with
millions of finished turns costs no more than an empty one (held by `tests/integration/ledger/test_gauges.py`).
"""

from __future__ import annotations

from datetime import datetime
from itertools import product

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import metrics
from memline.contracts.metrics import Gauge
from memline.ledger.heartbeats import read_beats
from memline.ledger.jobs import STAGES
from memline.ledger.schema import jobs, lanes, leases, outbox, tombstones

__all__ = ["Reading", "read_gauges"]

#: A gauge, the values of its labels, and its value.
Reading = tuple[Gauge, tuple[str, ...], float]


def read_gauges(connection: Connection, *, now: datetime) -> list[Reading]:
    """Every state of the ledger that is a metric; ages in seconds before *now*."""
    return [
        *_jobs(connection, now),
        *_lanes(connection, now),
        *_batches(connection),
        *_outbox(connection, now),
        *_loops(connection, now),
        *_erasures(connection, now),
    ]


def _jobs(connection: Connection, now: datetime) -> list[Reading]:
    uncommitted = sa.case((jobs.c.committed_at.is_(None), jobs.c.handed_at), else_=None)
    rows = connection.execute(
        sa.select(jobs.c.stage, sa.func.count().label("number"), sa.func.min(uncommitted, type_=jobs.c.handed_at.type).label("oldest"))
        .where(jobs.c.finished_at.is_(None))
        .group_by(jobs.c.stage)
    ).all()
    number = {row.stage: row.number for row in rows}
    oldest = min((row.oldest for row in rows if row.oldest is not None), default=None)
    return [
        *((metrics.JOBS_UNFINISHED, (stage.value,), float(number.get(stage.value, 0))) for stage in STAGES),
        (metrics.OLDEST_TURN, (), _age(oldest, now)),
        (metrics.JOBS_HELD, (), _count(connection, jobs, jobs.c.held_until.is_not(None))),
        # written out and not bound: so the database sees that its index over failed jobs will do
        (metrics.JOBS_FAILED, (), _count(connection, jobs, jobs.c.state == sa.literal_column("'failed'"))),
    ]


def _lanes(connection: Connection, now: datetime) -> list[Reading]:
    idle = (lanes.c.lease_id.is_(None), lanes.c.last_position > lanes.c.done_position)
    found = {
        "busy": _count(connection, lanes, lanes.c.lease_id.is_not(None)),
        "ready": _count(connection, lanes, *idle, lanes.c.ready_at <= now),
        "delayed": _count(connection, lanes, *idle, lanes.c.ready_at > now),
    }
    return [(metrics.LANES, (state,), number) for state, number in found.items()]


def _batches(connection: Connection) -> list[Reading]:
    rows = connection.execute(sa.select(leases.c.taken, sa.func.count()).group_by(leases.c.taken))
    found = {bool(taken): float(number) for taken, number in rows}
    return [(metrics.BATCHES, ("waiting",), found.get(False, 0.0)), (metrics.BATCHES, ("running",), found.get(True, 0.0))]


def _outbox(connection: Connection, now: datetime) -> list[Reading]:
    rows = connection.execute(
        sa.select(outbox.c.parked, sa.func.count().label("number"), sa.func.min(outbox.c.queued_at).label("oldest")).group_by(
            outbox.c.parked
        )
    ).all()
    found = {bool(row.parked): row for row in rows}
    return [
        (metrics.OUTBOX_ROWS, ("waiting",), float(found[False].number) if False in found else 0.0),
        (metrics.OUTBOX_ROWS, ("parked",), float(found[True].number) if True in found else 0.0),
        (metrics.OUTBOX_AGE, (), _age(found[False].oldest if False in found else None, now)),
    ]


def _erasures(connection: Connection, now: datetime) -> list[Reading]:
    number, oldest = connection.execute(
        sa.select(sa.func.count(), sa.func.min(tombstones.c.started_at)).where(tombstones.c.finished_at.is_(None))
    ).one()
    return [(metrics.ERASURES_UNFINISHED, (), float(number)), (metrics.ERASURES_AGE, (), _age(oldest, now))]


def _loops(connection: Connection, now: datetime) -> list[Reading]:
    names, states = metrics.LOOPS_BEATING.labels.values()
    found = dict.fromkeys(product(names, states), 0.0)
    for beat in read_beats(connection):
        # one that is in its first round, and in time, is none of these: it may take minutes, and nothing is wrong
        stuck = beat.is_failing or beat.hangs(now)
        state = "dead" if not beat.is_alive(now) else "stuck" if stuck else "working" if beat.works(now) else "starting"
        if (beat.loop, state) in found:  # a newer memline may have other loops, too
            found[beat.loop, state] += 1
    return [(metrics.LOOPS_BEATING, labels, number) for labels, number in found.items()]


def _count(connection: Connection, table: sa.Table, *where: sa.ColumnElement[bool]) -> float:
    return float(connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one())


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
