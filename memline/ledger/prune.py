"""What the ledger forgets, and when: payloads, stage results, old messages, keys, receipts, job rows, producers that fell silent.

Every verb does one bounded batch in the caller's transaction and says what it removed by name of a counter. Rows that somebody has
locked are passed over: the next pass finds them. Nothing here changes what is committed: a job's row stays as long as a memory's
row names it (a deleted memory's too, so that a turn that arrives again years later is known and does not bring it back), its
messages as long as a memory that is not deleted does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.receipt import Status
from memline.ledger.changes import prune_changes
from memline.ledger.counters import count
from memline.ledger.jobs import Stage
from memline.ledger.schema import (
    erased_numbers,
    erased_turns,
    idempotency_keys,
    jobs,
    lane_numbers,
    lane_producers,
    ledger_meta,
    lost_turns,
    memories,
    messages,
    repeats,
    stage_results,
)
from memline.ledger.session import insert

__all__ = ["Retention", "Visit", "begin_pass", "prune_feed", "prune_keys", "prune_producers", "prune_receipts", "save_place", "visit_jobs"]

_STARTED, _PLACE = "prune.started", "prune.after"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept after they ended."""

    #: What a finished job carried (messages, metadata, prompt), its stage results and raw replies; and messages of a lane that no
    #: memory names and that are not among its last *window*.
    payloads: timedelta = timedelta(days=7)
    #: The same of a failed job, which may be replayed until then.
    failed: timedelta = timedelta(days=30)
    #: Idempotency keys.
    keys: timedelta = timedelta(days=30)
    #: Job rows that no memory names, and receipts of turns that made no job.
    jobs: timedelta = timedelta(days=90)
    #: The numbers of a producer instance that handed over nothing in any lane.
    producers: timedelta = timedelta(days=7)
    #: The feed of changes.
    changes: timedelta = timedelta(days=30)
    #: Messages of a lane that are kept whatever their age; an extraction reads the last 10.
    window: int = 50


@dataclass(slots=True)
class Visit:
    """One batch of jobs looked at. `after`: the number to go on after; None when what is old enough came to an end."""

    after: int | None
    removed: Counter[str] = field(default_factory=Counter)


def begin_pass(tx: Connection, *, now: datetime, every: timedelta) -> int | None:
    """Claims the next pass and returns the job number after which it goes on.

    None: some process began one less than *every* ago. One pass at a time is enough, however many workers there are.
    """
    claim = insert(tx, ledger_meta).values(key=_STARTED, value=_moment(now))
    claim = claim.on_conflict_do_update(
        index_elements=["key"], set_={"value": claim.excluded.value}, where=ledger_meta.c.value <= _moment(now - every)
    )
    if tx.execute(claim.returning(ledger_meta.c.key)).one_or_none() is None:
        return None
    place = tx.execute(sa.select(ledger_meta.c.value).where(ledger_meta.c.key == _PLACE)).scalar_one_or_none()
    return int(place or 0)


def save_place(tx: Connection, after: int) -> None:
    """Remembers the job number after which the next pass goes on; 0 for the beginning."""
    statement = insert(tx, ledger_meta).values(key=_PLACE, value=str(after))
    tx.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value}))


def visit_jobs(tx: Connection, after: int, *, keep: Retention, now: datetime, limit: int) -> Visit:
    """Looks at the next *limit* jobs in order of arrival and removes what is over age of each."""
    youngest = now - min(keep.payloads, keep.failed, keep.jobs)
    page = tx.execute(sa.select(jobs.c.no, jobs.c.accepted_at).where(jobs.c.no > after).order_by(jobs.c.no).limit(limit)).all()
    # jobs arrive in order of time, but for the moment by which two workers' clocks differ
    old = [row.no for row in page if row.accepted_at <= youngest]
    visit = Visit(page[-1].no if page and len(page) == limit and page[-1].accepted_at <= youngest else None)
    if old:
        span = sa.and_(jobs.c.no >= old[0], jobs.c.no <= old[-1])
        visit.removed["payloads_pruned"] = _strip(tx, span, keep=keep, now=now)
        visit.removed["messages_pruned"] = _drop_messages(tx, span, keep=keep, now=now)
        visit.removed["jobs_pruned"] = _drop_jobs(tx, span, keep=keep, now=now)
    _count(tx, visit.removed)
    return visit


def prune_keys(tx: Connection, *, keep: Retention, now: datetime, limit: int) -> int:
    """Removes at most *limit* keys older than their retention; a key used again after that is a new one."""
    table = idempotency_keys.c
    rows = tx.execute(
        sa.select(table.lane, table.key)
        .where(table.created_at <= now - keep.keys)
        .order_by(table.created_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    _delete(tx, idempotency_keys, rows)
    _count(tx, {"keys_pruned": len(rows)})
    return len(rows)


def prune_receipts(tx: Connection, *, keep: Retention, now: datetime, limit: int) -> int:
    """Removes at most *limit* receipts, each of turns that repeated a key, of lost and of erased ones, when the jobs of their time go."""
    removed = 0
    for table, at in ((repeats, repeats.c.at), (lost_turns, lost_turns.c.noted_at), (erased_turns, erased_turns.c.at)):
        rows = tx.execute(sa.select(table.c.turn_id).where(at <= now - keep.jobs).limit(limit).with_for_update(skip_locked=True)).all()
        _delete(tx, table, rows)
        removed += len(rows)
    _count(tx, {"receipts_pruned": removed})
    return removed


def prune_feed(tx: Connection, *, keep: Retention, now: datetime, limit: int) -> int:
    """Removes at most *limit* changes from the beginning of the feeds."""
    removed = prune_changes(tx, until=now - keep.changes, limit=limit)
    _count(tx, {"changes_pruned": removed})
    return removed


def prune_producers(tx: Connection, *, keep: Retention, now: datetime, limit: int) -> int:
    """Removes at most *limit* rows of producer instances that were silent in every lane, and of which no job is unfinished.

    One that is still heard of somewhere keeps all its rows: a user who comes back after a month to a process that never stopped is
    not held up. Should an instance come back after all (a spool that lay for a week), its first turn in a lane waits `order_wait`
    as for a gap, those behind it wait with it, and all of them run in their order; the numbers before it are counted as a gap.
    """
    table = lane_producers.c
    silent = sa.select(table.producer).group_by(table.producer).having(sa.func.max(table.seen_at) <= now - keep.producers)
    busy = sa.select(jobs.c.producer).where(jobs.c.finished_at.is_(None))
    rows = tx.execute(
        sa.select(table.lane, table.producer)
        .where(table.producer.in_(silent), table.producer.not_in(busy), table.seen_at <= now - keep.producers)
        .order_by(table.lane, table.producer)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    _delete(tx, lane_numbers, rows)
    _delete(tx, lane_producers, rows)
    of_erased = erased_numbers.c
    old = sa.select(of_erased.lane, of_erased.producer).where(of_erased.seen_at <= now - keep.producers).limit(limit)
    _delete(tx, erased_numbers, tx.execute(old).all())
    _count(tx, {"producers_pruned": len(rows)})
    return len(rows)


def _ended_before(keep: Retention, now: datetime) -> sa.ColumnElement[bool]:
    """Jobs whose payload is over age. A job that failed after its commit shows the stage that is missing, and is kept like a failed one."""
    ended_well = sa.or_(jobs.c.stage == Stage.DONE.value, jobs.c.state == Status.CANCELLED.value)
    return sa.or_(
        sa.and_(ended_well, jobs.c.finished_at <= now - keep.payloads),
        sa.and_(sa.not_(ended_well), jobs.c.finished_at <= now - keep.failed),
    )


def _strip(tx: Connection, span: sa.ColumnElement[bool], *, keep: Retention, now: datetime) -> int:
    """Takes from jobs what they carried, and what stages left for them."""
    carries = sa.or_(
        jobs.c.messages.is_not(sa.null()),
        jobs.c.metadata.is_not(sa.null()),
        jobs.c.prompt.is_not(None),
        sa.exists().where(stage_results.c.job_id == jobs.c.id),
    )
    found = _locked(tx, span, _ended_before(keep, now), carries)
    if found:
        tx.execute(sa.delete(stage_results).where(stage_results.c.job_id.in_([row.id for row in found])))
        payload = {"messages": sa.null(), "metadata": sa.null(), "prompt": None}
        tx.execute(sa.update(jobs).where(jobs.c.no.in_([row.no for row in found])).values(payload))
    return len(found)


def _drop_messages(tx: Connection, span: sa.ColumnElement[bool], *, keep: Retention, now: datetime) -> int:
    """Removes messages that no memory came from and that lie before the last `window` of their lane."""
    newer = messages.alias()
    after = sa.or_(newer.c.place > messages.c.place, sa.and_(newer.c.place == messages.c.place, newer.c.ordinal > messages.c.ordinal))
    nth_newer = (
        sa.select(sa.literal(1))
        .where(newer.c.lane == messages.c.lane, newer.c.place >= messages.c.place, after)
        .order_by(newer.c.place, newer.c.ordinal)
        .limit(1)
        .offset(keep.window - 1)
    )
    named = sa.exists().where(memories.c.job_id == jobs.c.id, memories.c.state != "deleted")
    rows = tx.execute(
        sa.select(messages.c.no)
        .join(jobs, jobs.c.id == messages.c.job_id)
        .where(span, _ended_before(keep, now), ~named, sa.exists(nth_newer))
        .order_by(messages.c.no)
        .with_for_update(skip_locked=True, of=messages)
    ).all()
    _delete(tx, messages, rows)
    return len(rows)


def _drop_jobs(tx: Connection, span: sa.ColumnElement[bool], *, keep: Retention, now: datetime) -> int:
    """Removes the rows of jobs that nothing names any more: no memory, message, stage result, key or receipt."""
    found = _locked(
        tx,
        span,
        jobs.c.finished_at <= now - keep.jobs,
        jobs.c.messages.is_(sa.null()),
        ~sa.exists().where(memories.c.job_id == jobs.c.id),
        ~sa.exists().where(messages.c.job_id == jobs.c.id),
        ~sa.exists().where(stage_results.c.job_id == jobs.c.id),
        ~sa.exists().where(
            idempotency_keys.c.lane == jobs.c.lane, idempotency_keys.c.key == jobs.c.key, idempotency_keys.c.job_id == jobs.c.id
        ),
    )
    if not found:
        return 0
    named = set(tx.execute(sa.select(repeats.c.job_id).where(repeats.c.job_id.in_([row.id for row in found]))).scalars())
    gone = [row.no for row in found if row.id not in named]
    tx.execute(sa.delete(jobs).where(jobs.c.no.in_(gone)))
    return len(gone)


def _locked(tx: Connection, *which: sa.ColumnElement[bool]) -> Sequence[Any]:
    query = sa.select(jobs.c.no, jobs.c.id).where(*which).order_by(jobs.c.no)
    return tx.execute(query.with_for_update(skip_locked=True, of=jobs)).all()


def _delete(tx: Connection, table: sa.Table, rows: Sequence[Any]) -> None:
    """Deletes rows by the columns that were selected, each by its index."""
    if rows:
        names = rows[0]._fields
        which = [table.c[name] == sa.bindparam(f"of_{name}") for name in names]
        tx.execute(sa.delete(table).where(*which), [{f"of_{name}": getattr(row, name) for name in names} for row in rows])


def _count(tx: Connection, removed: dict[str, int]) -> None:
    for name, number in removed.items():
        count(tx, name, number)


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")
