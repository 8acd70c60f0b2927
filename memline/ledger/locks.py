"""Who waits for whom: subjects first, then owners, then lanes, then the claim, always in this order and sorted within each.

On PostgreSQL these are transaction advisory locks over a fixed number of keys, since they queue fairly and row locks do not; two
subjects that share a key only wait a little more. SQLite needs none: BEGIN IMMEDIATE has one writer.

Of rows the order is: batches (leases), idle lanes, jobs (by number), lanes of a batch whose jobs are locked, what hangs on jobs and
memories, the outbox (memories before entities, by id), usage by day, and the counters at the very end (`session.before_commit`). A relay,
a sweep and a reply of a model hold no lock of a subject, so these orders are what keeps them and the others from waiting for each other;
`tests/integration/ledger/test_lock_order.py` holds pairs apart, `tests/chaos/test_no_deadlock.py` all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.scope import Scope, Subject
from memline.ledger.schema import lanes, subjects

__all__ = [
    "STRIPES",
    "epoch_sums",
    "lock_against_swap",
    "lock_all_subjects",
    "lock_claim",
    "lock_key",
    "lock_of_lanes",
    "lock_one_of",
    "lock_owners",
    "lock_subjects",
]

#: Number of advisory keys a class has.
STRIPES = 512

_SUBJECT, _OWNER, _CLAIM = 0x6D656D31, 0x6D656D32, 0x6D656D33


def lock_subjects(tx: Connection, found: Iterable[Subject], *, exclusive: bool = False) -> None:
    """Locks *found* until the transaction ends: shared by writers, exclusive by erase, delete_all and reset."""
    _lock(tx, _SUBJECT, (subject.key for subject in found), exclusive=exclusive)


def lock_of_lanes(tx: Connection, keys: Iterable[str]) -> None:
    """`lock_subjects` of the lanes with these keys, those that are there: whoever deletes them locks their jobs before the lanes."""
    if tx.dialect.name == "sqlite":
        return
    scopes = sa.select(lanes.c.namespace, lanes.c.user_id, lanes.c.agent_id, lanes.c.run_id).where(lanes.c.key.in_(list(keys)))
    lock_subjects(tx, {subject for row in tx.execute(scopes) for subject in Scope(*row).subjects})


def lock_one_of(tx: Connection, alone: Subject, beside: Iterable[Subject]) -> None:
    """Locks *alone* exclusively and *beside* shared, in the one order: nobody writes for a scope that has *alone* among its subjects."""
    _lock_one(tx, alone.key, [subject.key for subject in beside])


def lock_key(tx: Connection, key: str, *, namespace: str) -> None:
    """Locks the subject with this key exclusively, for who knows nothing else of it, and its namespace shared: no reset runs beside."""
    _lock_one(tx, key, [Subject(namespace, "namespace", namespace).key])


def lock_all_subjects(tx: Connection) -> None:
    """Locks every subject exclusively: nobody else writes for anybody until the transaction ends."""
    _lock(tx, _SUBJECT, (f"{stripe:08x}" for stripe in range(STRIPES)), exclusive=True)


def lock_against_swap(tx: Connection) -> None:
    """For a transaction that writes for no subject: `lock_all_subjects` waits for it, and it for that one."""
    _lock(tx, _SUBJECT, ("00000000",), exclusive=False)


def lock_owners(tx: Connection, owner_keys: Iterable[str]) -> None:
    """Locks owners exclusively: two runs of one owner commit one after the other, and each sees what the other closed."""
    _lock(tx, _OWNER, owner_keys, exclusive=True)


def lock_claim(tx: Connection) -> None:
    """The last lock of this kind of a transaction that claims: who holds it waits only for jobs that a relay shows, and for counters."""
    _lock(tx, _CLAIM, ("00000000",), exclusive=True)


def epoch_sums(tx: Connection, found: Mapping[str, Sequence[Subject]]) -> dict[str, int]:
    """For each key of *found*, the sum of the epochs of its subjects: epochs only rise, so an equal sum means equal epochs."""
    keys = {subject.key for group in found.values() for subject in group}
    rows = tx.execute(sa.select(subjects.c.key, subjects.c.epoch).where(subjects.c.key.in_(keys)))
    epochs = {key: epoch for key, epoch in rows}
    return {name: sum(epochs.get(subject.key, 0) for subject in group) for name, group in found.items()}


def _stripe(key: str) -> int:
    return int(key[:8], 16) % STRIPES


def _lock_one(tx: Connection, alone: str, beside: Iterable[str]) -> None:
    if tx.dialect.name == "sqlite":
        return
    exclusive = {_stripe(alone)}
    for stripe in sorted(exclusive | {_stripe(key) for key in beside}):
        tx.execute(_EXCLUSIVE if stripe in exclusive else _SHARED, {"kind": _SUBJECT, "keys": [stripe]})


def _lock(tx: Connection, kind: int, keys: Iterable[str], *, exclusive: bool) -> None:
    if tx.dialect.name == "sqlite":
        return
    stripes = sorted({_stripe(key) for key in keys})
    if not stripes:
        return
    tx.execute(_EXCLUSIVE if exclusive else _SHARED, {"kind": kind, "keys": stripes})


# unnest … WITH ORDINALITY keeps the order in which the locks are taken
_EXCLUSIVE = sa.text("SELECT pg_advisory_xact_lock(:kind, k) FROM unnest(CAST(:keys AS int[])) WITH ORDINALITY AS s(k, i) ORDER BY i")
_SHARED = sa.text("SELECT pg_advisory_xact_lock_shared(:kind, k) FROM unnest(CAST(:keys AS int[])) WITH ORDINALITY AS s(k, i) ORDER BY i")
