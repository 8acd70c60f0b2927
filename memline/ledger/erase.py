"""Erasing in the ledger: the tombstone and the new epoch first, then the rows, then the end; each step can be done again.

`outbox.erase` puts the steps in their order. All of them take the lock of the subject exclusively: whoever writes for it has either
committed before, and is removed, or finds the new epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import failpoints
from memline.contracts.receipt import Status
from memline.contracts.scope import Owner, Subject, SubjectKind
from memline.ledger.cancel import lock_to_cancel, still_open
from memline.ledger.counters import count
from memline.ledger.erase_rows import Whose, erase_jobs, erase_lanes, erase_memories
from memline.ledger.jobs import Stage
from memline.ledger.leases import move_queues, release_emptied
from memline.ledger.locks import lock_key, lock_owners
from memline.ledger.messages import strip_payloads
from memline.ledger.outbox import lock_all, write_enqueued
from memline.ledger.schema import erasure_objects, jobs, lanes, leases, memories, outbox, owners, stage_results, subjects, tombstones
from memline.ledger.session import Ledger, insert
from memline.ledger.tombstones import REASON, Tombstone, load_tombstone, running_tombstone

__all__ = [
    "AlreadyFinished",
    "begin",
    "change",
    "check_running",
    "finish",
    "lock_subject",
    "objects_of",
    "put_tombstone",
    "remove_rows",
    "still_held",
    "value_of",
]


class AlreadyFinished(Exception):
    """Somebody else has brought the same erasure to its end: what is there now was added afterwards, and is not to be touched."""


#: Pages of rows a transaction.
_PAGES = 5


def begin(ledger: Ledger, subject: Subject, *, id: str, hash: str, key_id: str, place: str, now: datetime) -> Tombstone:
    """The tombstone of *subject*: the one of an erasure that runs, or a new one. From its commit on no turn of the subject is taken and
    nothing of it is committed: its epoch is raised, its jobs that are not through are cancelled and carry nothing any more.

    *waits* of a new one holds the leases that were taken for its jobs then: [id, epoch, stage, until (seconds since 1970)].
    """
    whose = Whose(subject.namespace, subject.kind, subject.value)
    with ledger.write() as tx:
        lock_key(tx, subject.key, namespace=subject.namespace)
        running = running_tombstone(tx, subject)
        if running is not None:
            return running
        epoch = _raise_epoch(tx, subject.key)
        results = _results(tx, whose)
        held = _cancel(tx, whose, now=now)
        emptied = results - _results(tx, whose)
        counts = {"removed": {stage_results.name: emptied}} if emptied else {}
        put_tombstone(
            tx,
            {
                "id": id,
                "subject": subject.key,
                "namespace": subject.namespace,
                "kind": subject.kind,
                "hash": hash,
                "key_id": key_id,
                "epoch": epoch,
                "place": place,
                "at": now,
                "phase": "marked",
                "started_at": now,
                "finished_at": None,
                "waits": {"jobs": held, "relay": {}},
                "counts": counts,
                "certificate": None,
            },
        )
    return Tombstone(id, subject.key, subject.namespace, subject.kind, hash, key_id, epoch, place, now, "marked", now, None,
                     {"jobs": held, "relay": {}}, counts)  # fmt: skip


def put_tombstone(tx: Connection, row: Mapping[str, Any]) -> None:
    """Writes a tombstone; the caller holds the subject's lock exclusively."""
    tx.execute(sa.insert(tombstones).values(**row))


def lock_subject(tx: Connection, stone: Tombstone, value: str | None) -> None:
    """Locks the subject exclusively, and the owners that its lanes are of: other deletions, and a reembedding, hold only theirs."""
    lock_key(tx, stone.subject, namespace=stone.namespace)
    if value is not None:
        kind: Any = stone.kind
        whose = Whose(stone.namespace, kind, value)
        rows = tx.execute(sa.select(owners).where(owners.c.no.in_(sa.select(lanes.c.owner_no).where(whose.of(lanes)))))
        lock_owners(tx, [Owner(row.namespace, row.user_id, row.agent_id, row.run_id).key for row in rows])


def check_running(tx: Connection, stone: Tombstone) -> None:
    """Raises AlreadyFinished where the erasure is at its end. The caller holds the subject's lock."""
    if load_tombstone(tx, stone.id).finished_at is not None:
        raise AlreadyFinished


def value_of(connection: Connection, namespace: str, kind: SubjectKind, key: str) -> str | None:
    """The id of the subject with this key, if anything of it is in the ledger."""
    for table in (lanes, memories):
        column = table.c[f"{kind}_id"]
        query = sa.select(column).where(table.c.namespace == namespace, column.is_not(None)).distinct()
        for value in connection.execute(query).scalars():
            if Subject(namespace, kind, value).key == key:
                return str(value)
    return None


def remove_rows(ledger: Ledger, stone: Tombstone, whose: Whose, *, now: datetime) -> Counter[str]:
    """Removes every row of the subject, some pages a transaction; how many by store. What relays had of them then is added to the waits."""
    removed: Counter[str] = Counter()
    for step in ("memories", "jobs", "lanes"):
        more = True
        while more:
            done: Counter[str] = Counter()
            with ledger.write() as tx:
                lock_subject(tx, stone, whose.value)
                check_running(tx, stone)
                for _ in range(_PAGES):
                    if step == "memories":
                        page = erase_memories(tx, whose, stone.id, now=now)
                    elif step == "jobs":
                        page = erase_jobs(tx, whose, now=now)
                    else:
                        page = erase_lanes(tx, whose, stone.id, now=now)
                    done += page
                    more = page["lanes"] > 0 if step == "lanes" else bool(page)
                    if not more:
                        break
                _add_counts(tx, stone.id, done)
                _add_waits(tx, stone.id, {lease: until.timestamp() for lease, until in write_enqueued(tx).items()})
                failpoints.hit("erase.before_commit")
            failpoints.hit("erase.after_commit")
            removed += done
    return removed


def change(ledger: Ledger, erasure: str, **values: Any) -> None:
    """Writes columns of a tombstone."""
    with ledger.write() as tx:
        tx.execute(sa.update(tombstones).where(tombstones.c.id == erasure).values(**values))


def finish(ledger: Ledger, stone: Tombstone, *, place: str, certificate: Mapping[str, Any], now: datetime) -> None:
    """Ends an erasure: turns that were handed over until *place* and *now* end cancelled, later ones are taken again."""
    with ledger.write() as tx:
        lock_subject(tx, stone, None)
        told = erasure_objects.c
        mine = sa.exists().where(told.erasure == stone.id, told.kind == outbox.c.kind, told.object_id == outbox.c.object_id)
        lock_all(tx, mine)
        tx.execute(sa.delete(outbox).where(mine))
        tx.execute(sa.delete(erasure_objects).where(erasure_objects.c.erasure == stone.id))
        ended = tx.execute(
            sa.update(tombstones)
            .where(tombstones.c.id == stone.id, tombstones.c.finished_at.is_(None))
            .values(place=max(place, stone.place), at=max(now, stone.at), phase="finished", finished_at=now, certificate=dict(certificate))
        )
        count(tx, "subjects_erased", ended.rowcount)  # of two who erase at once one ends it
        failpoints.hit("erase.before_finish")


def still_held(connection: Connection, stone: Tombstone, *, now: datetime, grace: float, seen: dict[str, float]) -> dict[str, float]:
    """The leases of the old epoch, of jobs and of relays, that have not ended: id -> until when (seconds since 1970) to wait at most.

    A batch that is gone, or at another stage, before its lease ran out has ended; so has a relay whose lease no row has. One whose lease
    ran out may still be in a call: it has ended *grace* seconds later, the longest that a call may take. *seen* keeps, from one look to
    the next, until when a lease was renewed.
    """
    at = now.timestamp()
    held: dict[str, float] = {}
    taken = {
        row.id: row
        for row in connection.execute(sa.select(leases).where(leases.c.id.in_([wait[0] for wait in stone.waits.get("jobs", ())])))
    }
    for lease_id, epoch, stage, until in stone.waits.get("jobs", ()):
        row, until = taken.get(lease_id), max(until, seen.get(lease_id, 0.0))
        if row is not None and row.epoch == epoch and row.stage == stage and row.taken:
            seen[lease_id] = max(until, row.until.timestamp())
            held[lease_id] = seen[lease_id] + grace
        elif until <= at < until + grace:
            held[lease_id] = until + grace
    relays = stone.waits.get("relay", {})
    busy = set(connection.execute(sa.select(outbox.c.lease).where(outbox.c.lease.in_(list(relays))).distinct()).scalars())
    for lease_id, until in relays.items():
        if (lease_id in busy or until <= at) and at < until + grace:
            held[lease_id] = until + grace
    return held


def objects_of(connection: Connection, erasure: str, *, after: tuple[str, str] = ("", ""), limit: int = 500) -> list[tuple[str, str, str]]:
    """Objects of the index that an erasure removes, a page: (kind, id, namespace)."""
    table = erasure_objects.c
    query = sa.select(table.kind, table.object_id, table.namespace).where(
        table.erasure == erasure,
        sa.or_(table.kind > after[0], sa.and_(table.kind == after[0], table.object_id > after[1])),
    )
    rows = connection.execute(query.order_by(table.kind, table.object_id).limit(limit))
    return [(row.kind, row.object_id, row.namespace) for row in rows]


def _raise_epoch(tx: Connection, key: str) -> int:
    statement = insert(tx, subjects).values(key=key, epoch=1)
    raised = statement.on_conflict_do_update(index_elements=["key"], set_={"epoch": subjects.c.epoch + 1})
    epoch: int = tx.execute(raised.returning(subjects.c.epoch)).scalar_one()
    return epoch


def _cancel(tx: Connection, whose: Whose, *, now: datetime) -> list[list[Any]]:
    """Ends the jobs of the subject that are not through. A batch stays while a worker has it: so it is seen when that one has ended."""
    open_jobs = still_open(whose.jobs)
    of_jobs = sa.select(jobs.c.lease_id).where(open_jobs, jobs.c.lease_id.is_not(None))
    waiting = lock_to_cancel(tx, whose.jobs)
    batches = tx.execute(sa.select(leases).where(leases.c.id.in_(of_jobs)).order_by(leases.c.id)).all()
    rows = tx.execute(sa.select(jobs.c.no, jobs.c.committed_at).where(open_jobs).order_by(jobs.c.no)).all()
    strip_payloads(tx, whose.jobs)
    uncommitted = jobs.c.committed_at.is_(None)
    values = {
        "state": sa.case((uncommitted, Status.CANCELLED.value), else_=jobs.c.state),
        "stage": sa.case((uncommitted, jobs.c.stage), else_=Stage.DONE.value),
        "reason": REASON,
        "finished_at": now,
        "lease_id": None,
        "next_at": None,
        "held_until": None,
    }
    tx.execute(sa.update(jobs).where(open_jobs).values(values))
    move_queues(tx, waiting, now=now)
    release_emptied(tx, [row.id for row in batches if not row.taken], now=now)
    count(tx, "turns_cancelled", sum(row.committed_at is None for row in rows))
    return [[row.id, row.epoch, row.stage, row.until.timestamp()] for row in batches if row.taken]


def _results(tx: Connection, whose: Whose) -> int:
    """Replies and other results of stages that jobs of the subject have."""
    of_jobs = sa.select(jobs.c.id).where(whose.jobs)
    return int(tx.execute(sa.select(sa.func.count()).where(stage_results.c.job_id.in_(of_jobs))).scalar_one())


def _add_waits(tx: Connection, erasure: str, relay: Mapping[str, float]) -> None:
    if not relay:
        return
    waits = dict(load_tombstone(tx, erasure).waits)
    known = dict(waits.get("relay", {}))
    waits["relay"] = known | {lease: max(until, known.get(lease, 0.0)) for lease, until in relay.items()}
    tx.execute(sa.update(tombstones).where(tombstones.c.id == erasure).values(waits=waits))


def _add_counts(tx: Connection, erasure: str, removed: Mapping[str, int]) -> None:
    counts = dict(load_tombstone(tx, erasure).counts)
    known = Counter(counts.get("removed", {}))
    known.update(removed)
    tx.execute(
        sa.update(tombstones).where(tombstones.c.id == erasure).values(counts=counts | {"removed": {k: v for k, v in known.items() if v}})
    )
