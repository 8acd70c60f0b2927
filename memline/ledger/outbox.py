"""The outbox: what the index still has to be shown, in which version. State, not operations: one row an object.

Its rows are locked by all in one order, memories before entities and each by id, since relays meet writers here: so what a transaction
enqueues is written at its end (`session.before_commit`), and what has to be written before that (`retire`) are memories.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import metrics, tracing
from memline.contracts.index_object import Kind, ObjectKey
from memline.contracts.receipt import Status
from memline.ledger.counters import count
from memline.ledger.schema import jobs, memories, outbox
from memline.ledger.session import before_commit, insert, when_committed

__all__ = [
    "OutboxRow",
    "by_id",
    "claim_outbox",
    "disown",
    "enqueue",
    "lock_all",
    "lock_rows",
    "mark_searchable",
    "next_due",
    "outbox_size",
    "pending_objects",
    "release",
    "requeue",
    "settle",
    "unsettled",
    "write_enqueued",
]


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """An object the index has to be shown, as claimed by one relay."""

    key: ObjectKey
    version: int
    attempts: int
    trace: str | None = None


def enqueue(
    tx: Connection,
    kind: Kind,
    namespace_by_id: Mapping[str, tuple[str, int]],
    *,
    now: datetime,
    traces: Mapping[str, str | None] | None = None,
) -> None:
    """Writes, as the transaction ends, that the index must see objects (id -> namespace, version). A row that is there already takes the
    newer version.

    *traces*: the `traceparent` of objects (by id) whose change is traced; by default the span around is that of all.

    A row that a relay has at the moment stays with it, and is due when that relay is done (`release`): two relays that write one
    object at a time could leave the older state in the index.
    """
    if not namespace_by_id:
        return
    around = tracing.current()
    gathered = _gathered.get(tx)
    if gathered is None:
        gathered = {}
        before_commit(tx, _RANK, partial(_write, gathered))
        _gathered[tx] = gathered
    for object_id, (namespace, version) in namespace_by_id.items():
        trace = around if traces is None else traces.get(object_id)
        gathered[_NUMBER[kind], object_id] = (kind, object_id, namespace, version, now, now, trace)


#: Before the counters: `session.before_commit`.
_RANK = 1

#: Rows or ids a statement.
_CHUNK = 1000

#: The order in which kinds are locked.
_NUMBER = {"memory": 0, "entity": 1}

#: A row: kind, id, namespace, version, when it was queued and is due, trace. A deletion may gather 100,000 of them.
_Row = tuple[Kind, str, str, int, datetime, datetime, str | None]
_COLUMNS = ("kind", "object_id", "namespace", "version", "queued_at", "next_at", "trace")

#: By transaction, the rows that it enqueued and that are not written yet, by number of the kind and id.
_gathered: weakref.WeakKeyDictionary[Connection, dict[tuple[int, str], _Row]] = weakref.WeakKeyDictionary()


def _write(gathered: dict[tuple[int, str], _Row], tx: Connection) -> None:
    rows = [gathered[key] for key in sorted(gathered)]
    gathered.clear()
    for start in range(0, len(rows), _CHUNK):
        tx.execute(requeue(insert(tx, outbox)), [dict(zip(_COLUMNS, row, strict=True)) for row in rows[start : start + _CHUNK]])


def write_enqueued(tx: Connection) -> dict[str, datetime]:
    """Writes now what the transaction has enqueued, its last rows; the leases of relays that have some of these, and until when.

    No relay takes one of them any more until the transaction ends.
    """
    rows = _gathered.get(tx, {})
    keys = [ObjectKey(kind, namespace, object_id) for kind, object_id, namespace, *_ in rows.values()]
    _write(rows, tx)
    found: dict[str, datetime] = {}
    for start in range(0, len(keys), _CHUNK):
        for which in _by_kind(keys[start : start + _CHUNK]):
            held = sa.select(outbox.c.lease, outbox.c.next_at).where(which, outbox.c.lease.is_not(None))
            for lease, until in tx.execute(held):
                found[lease] = max(found.get(lease, until), until)
    return found


def requeue(statement: Any) -> Any:
    """The INSERT of `enqueue`, with what becomes of a row that is there already."""
    new = statement.excluded
    next_at = sa.case((outbox.c.lease.is_(None), new.next_at), else_=outbox.c.next_at)
    values = {"namespace": new.namespace, "version": new.version, "next_at": next_at, "attempts": 0, "parked": sa.false(), "error": None}
    values["trace"] = new.trace
    return statement.on_conflict_do_update(index_elements=["kind", "object_id"], set_=values)


def claim_outbox(tx: Connection, *, lease: str, seconds: float, limit: int, now: datetime) -> list[OutboxRow]:
    """Takes due rows for *seconds*; another relay that comes meanwhile sees others."""
    due = (
        sa.select(outbox.c.kind, outbox.c.object_id)
        .where(sa.not_(outbox.c.parked), outbox.c.next_at <= now)
        .order_by(outbox.c.next_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    claimed: list[OutboxRow] = []
    for which in _by_kind(ObjectKey(kind, "", object_id) for kind, object_id in tx.execute(due).all()):
        rows = tx.execute(
            sa.update(outbox)
            .where(which)
            .values(lease=lease, next_at=now + timedelta(seconds=seconds))
            .returning(outbox.c.kind, outbox.c.object_id, outbox.c.namespace, outbox.c.version, outbox.c.attempts, outbox.c.trace)
        )
        claimed += [OutboxRow(ObjectKey(row.kind, row.namespace, row.object_id), row.version, row.attempts, row.trace) for row in rows]
    return claimed


def lock_rows(tx: Connection, rows: Sequence[OutboxRow]) -> None:
    """Locks rows in the one order, before some of them are settled and others not.

    Before them the jobs whose memories they show, which `mark_searchable` will change: who cancels or deletes locks jobs and then writes
    to the outbox, so the other way round the two would wait for each other.
    """
    shown = sa.select(memories.c.job_id).where(memories.c.id.in_([row.key.id for row in rows if row.key.kind == "memory"]))
    tx.execute(sa.select(jobs.c.no).where(jobs.c.id.in_(shown)).order_by(jobs.c.no).with_for_update()).all()
    for which in _by_kind(row.key for row in rows):
        tx.execute(sa.select(outbox.c.object_id).where(which).order_by(by_id(tx)).with_for_update()).all()


def lock_all(tx: Connection, which: sa.ColumnElement[bool]) -> None:
    """Locks the rows for which *which* holds, in the one order."""
    for kind in _NUMBER:
        tx.execute(sa.select(outbox.c.object_id).where(outbox.c.kind == kind, which).order_by(by_id(tx)).with_for_update()).all()


def by_id(tx: Connection) -> sa.ColumnElement[str]:
    """The order of ids by their bytes, as Python and the other tables have it, whatever the database's locale is."""
    return outbox.c.object_id if tx.dialect.name == "sqlite" else outbox.c.object_id.collate("C")


def settle(tx: Connection, rows: Iterable[OutboxRow], *, lease: str) -> list[str]:
    """Removes rows that the index took, unless they were written again meanwhile. Returns the ids of the memories that are gone."""
    shown = {(row.key.kind, row.key.id): row for row in rows}
    held = [sa.select(outbox).where(which, outbox.c.lease == lease).with_for_update() for which in _by_kind(r.key for r in shown.values())]
    there = [row for query in held for row in tx.execute(query)]
    gone = [shown[row.kind, row.object_id].key for row in there if shown[row.kind, row.object_id].version == row.version]
    for which in _by_kind(gone):
        tx.execute(sa.delete(outbox).where(which))
    return [key.id for key in gone if key.kind == "memory"]


def disown(tx: Connection, rows: Sequence[OutboxRow], *, lease: str) -> list[OutboxRow]:
    """What a relay wrote although it no longer had the rows, which must be locked: its late write may lie over a newer state.

    Another relay that has such a row at the moment may not settle it any more, since the version it took is not the row's now. Returns
    those that another has settled since: they are to be shown again (`enqueue`), in a transaction of their own, for the order of locks.
    """
    held = {(row.kind, row.object_id): row.lease for which in _by_kind(row.key for row in rows) for row in tx.execute(_leases(which))}
    gone = [row for row in rows if (row.key.kind, row.key.id) not in held]
    taken = [row.key for row in rows if held.get((row.key.kind, row.key.id), lease) not in (lease, None)]
    for which in _by_kind(taken):
        # below zero: no row is ever written with such a version, and the index is shown the ledger's
        tx.execute(sa.update(outbox).where(which).values(version=-1 - sa.func.abs(outbox.c.version)))
    count(tx, "late_writes", len(gone) + len(taken))
    return gone


def unsettled(
    tx: Connection, failures: Sequence[tuple[OutboxRow, str]], *, lease: str, now: datetime, max_attempts: int, longest: float = 300.0
) -> None:
    """Lets rows that the index refused wait (1 s, 2 s, 4 s, … at most *longest*), and sets aside those that failed too often."""
    parked = 0
    for row, error in failures:
        park = row.attempts + 1 >= max_attempts
        changed = tx.execute(
            sa.update(outbox)
            .where(
                outbox.c.kind == row.key.kind,
                outbox.c.object_id == row.key.id,
                outbox.c.version == row.version,
                outbox.c.lease == lease,
            )
            .values(
                attempts=row.attempts + 1,
                parked=park,
                lease=None,
                error=error,
                next_at=now + timedelta(seconds=min(longest, 2.0 ** min(row.attempts, 20))),
            )
        )
        parked += changed.rowcount if park else 0
    count(tx, "outbox_parked", parked)


def release(tx: Connection, rows: Sequence[OutboxRow], *, lease: str, next_at: datetime, error: str | None = None) -> None:
    """Gives back what is still under *lease*, due at *next_at*: it was written again, or the index did not answer at all.

    Neither is a failure of the object's own, so it spends none of its attempts.
    """
    for which in _by_kind(row.key for row in rows):
        tx.execute(sa.update(outbox).where(which, outbox.c.lease == lease).values(lease=None, next_at=next_at, error=error))


def mark_searchable(tx: Connection, memory_ids: Sequence[str], *, now: datetime) -> list[str]:
    """Jobs all of whose memories the index has now become searchable. Returns their ids."""
    if not memory_ids:
        return []
    job_ids = sorted(set(tx.execute(sa.select(memories.c.job_id).where(memories.c.id.in_(list(memory_ids)))).scalars()))
    # Locked before it is looked what is left of them, so that of two relays that show the last two memories of a job one sees it done.
    committed = {
        row.id: (row.no, row.handed_at)
        for row in tx.execute(
            sa.select(jobs.c.id, jobs.c.no, jobs.c.handed_at)
            .where(jobs.c.id.in_(job_ids), jobs.c.state == Status.COMMITTED.value)
            .order_by(jobs.c.no)
            .with_for_update()
        )
    }
    unseen = sa.exists().where(outbox.c.kind == "memory", outbox.c.object_id == memories.c.id)
    waiting = set(tx.execute(sa.select(memories.c.job_id).where(memories.c.job_id.in_(list(committed)), unseen)).scalars())
    done = {job_id: found for job_id, found in committed.items() if job_id not in waiting}
    nos = [no for no, _ in done.values()]
    tx.execute(sa.update(jobs).where(jobs.c.no.in_(nos)).values(state=Status.SEARCHABLE.value, searchable_at=now))
    when_committed(tx, lambda: _measure([handed_at for _, handed_at in done.values()], now))
    return list(done)


def _measure(handed: Sequence[datetime], now: datetime) -> None:
    for at in handed:
        metrics.SEARCHABLE_SECONDS.observe(max(0.0, (now - at).total_seconds()))


def next_due(connection: Connection) -> datetime | None:
    """When the next row is due; None for an empty outbox."""
    return connection.execute(
        sa.select(outbox.c.next_at).where(sa.not_(outbox.c.parked)).order_by(outbox.c.next_at).limit(1)
    ).scalar_one_or_none()


def outbox_size(connection: Connection) -> tuple[int, int]:
    """Rows that wait, and rows that were set aside."""
    rows = connection.execute(sa.select(outbox.c.parked, sa.func.count()).group_by(outbox.c.parked))
    found = {bool(parked): number for parked, number in rows}
    return found.get(False, 0), found.get(True, 0)


def _by_kind(keys: Iterable[ObjectKey]) -> list[sa.ColumnElement[bool]]:
    """Conditions that find rows by their primary key, one a kind, memories first (SQLite scans for a list of pairs)."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(key.kind, []).append(key.id)
    return [
        sa.and_(outbox.c.kind == kind, outbox.c.object_id.in_(ids))
        for kind, ids in sorted(found.items(), key=lambda each: _NUMBER[each[0]])
    ]


def _leases(which: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(outbox.c.kind, outbox.c.object_id, outbox.c.lease).where(which)


def pending_objects(connection: Connection, keys: Sequence[ObjectKey]) -> set[ObjectKey]:
    """Those of *keys* that the index is going to be shown; what was set aside is not among them."""
    wanted = set(keys)
    found: set[ObjectKey] = set()
    for which in _by_kind(keys):
        rows = connection.execute(sa.select(outbox.c.kind, outbox.c.namespace, outbox.c.object_id).where(which, sa.not_(outbox.c.parked)))
        found |= {ObjectKey(row.kind, row.namespace, row.object_id) for row in rows}
    return found & wanted
