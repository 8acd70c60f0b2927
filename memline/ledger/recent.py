"""How fast turns go at the moment, from two looks at the ledger: cheap whatever it holds, since each is led by an index over what is open.

Between two looks, what came is counted by number; what was open at the first and is not at the second went on. Turns that failed or were
cancelled meanwhile are taken out by the ledger's own counts of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.receipt import Status
from memline.ledger.schema import jobs

__all__ = ["Flow", "Look", "RecentFailure", "flow", "look", "newest_failures", "recent_seconds"]

#: Jobs whose times are looked at: the newest, and those around the oldest that is open, where a backlog is worked off.
_SAMPLE = 1000


@dataclass(frozen=True, slots=True)
class Look:
    """What the ledger had at a moment."""

    at: datetime
    #: Number of the newest job; 0 where there is none.
    newest: int
    #: Open jobs: not committed, and committed but not shown to the index yet.
    uncommitted: int
    unshown: int
    #: Number of the oldest open job; None where none is open.
    oldest_open: int | None
    #: The ledger's counters of jobs that failed, and of turns that were cancelled.
    failed: int
    cancelled: int
    #: Jobs since the look before.
    new: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """Turns a second between two looks."""

    accepted: float
    committed: float
    searchable: float


@dataclass(frozen=True, slots=True)
class RecentFailure:
    """A job that failed: its id, where, and memline's words; never a text."""

    id: str
    namespace: str
    stage: str
    reason: str
    at: datetime | None


def look(connection: Connection, *, now: datetime, failed: int, cancelled: int, before: Look | None = None) -> Look:
    """Looks now; *failed* and *cancelled* are the ledger's counters (`counters.read_counters`)."""
    newest = connection.execute(sa.select(sa.func.max(jobs.c.no))).scalar_one() or 0
    count, oldest = sa.func.count().label("number"), sa.func.min(jobs.c.no).label("oldest")
    uncommitted = connection.execute(
        sa.select(count, oldest).where(jobs.c.finished_at.is_(None), jobs.c.state == Status.ACCEPTED.value)
    ).one()
    # written out and not bound: so the database sees that its index over such jobs will do
    unshown = connection.execute(sa.select(count, oldest).where(jobs.c.state == sa.literal_column("'committed'"))).one()
    new = 0
    if before is not None and newest > before.newest:
        # counted, since PostgreSQL leaves numbers out
        new = connection.execute(sa.select(sa.func.count()).select_from(jobs).where(jobs.c.no > before.newest)).scalar_one()
    return Look(
        now,
        newest,
        uncommitted.number,
        unshown.number,
        min((row.oldest for row in (uncommitted, unshown) if row.oldest is not None), default=None),
        failed,
        cancelled,
        new,
    )


def flow(before: Look, after: Look) -> Flow:
    """What went on between two looks, a second. A replay of failed jobs may hide as many that went on."""
    seconds = max(1e-9, (after.at - before.at).total_seconds())
    ended = (after.failed - before.failed) + (after.cancelled - before.cancelled)
    committed = after.new - (after.uncommitted - before.uncommitted) - ended
    searchable = after.new - (after.uncommitted + after.unshown - before.uncommitted - before.unshown) - ended
    return Flow(after.new / seconds, max(0, committed) / seconds, max(0, searchable) / seconds)


def recent_seconds(connection: Connection, seen: Look, *, within: timedelta) -> list[float]:
    """Sorted seconds from hand-over to searchable, of a sample of the jobs that became searchable *within* that time before the look."""
    places = [jobs.c.no > seen.newest - _SAMPLE]
    if seen.oldest_open is not None:
        places.append(jobs.c.no.between(seen.oldest_open - _SAMPLE, seen.oldest_open + _SAMPLE))
    rows = connection.execute(
        sa.select(jobs.c.handed_at, jobs.c.searchable_at).where(
            sa.or_(*places), jobs.c.searchable_at.is_not(None), jobs.c.searchable_at > seen.at - within
        )
    )
    return sorted((row.searchable_at - row.handed_at).total_seconds() for row in rows)


def newest_failures(connection: Connection, *, limit: int, namespace: str | None = None) -> list[RecentFailure]:
    """The newest jobs that failed, of one namespace or of all."""
    query = (
        sa.select(jobs.c.id, jobs.c.namespace, jobs.c.stage, jobs.c.reason, jobs.c.finished_at)
        # written out and not bound: so the database sees that its index over failed jobs will do
        .where(jobs.c.state == sa.literal_column("'failed'"))
        .order_by(jobs.c.no.desc())
        .limit(limit)
    )
    if namespace is not None:
        query = query.where(jobs.c.namespace == namespace)
    return [RecentFailure(row.id, row.namespace, row.stage, row.reason or "", row.finished_at) for row in connection.execute(query)]
