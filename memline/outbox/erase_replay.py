"""Tombstones that a ledger lacks: it was put back from a backup that is older than them. What they erased is erased again.

A tombstone speaks of what was committed until its time; what was added afterwards stays. The rows go here, before anything is served;
the index is told by the outbox.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import ConfigurationError
from memline.ledger.counters import count
from memline.ledger.erase import put_tombstone, remove_rows, value_of
from memline.ledger.erase_rows import Whose
from memline.ledger.jobs import lock_which
from memline.ledger.locks import lock_key
from memline.ledger.schema import erasure_objects, jobs, ledger_meta, subjects, tombstones
from memline.ledger.session import Ledger, insert
from memline.ledger.tenants import ledger_name
from memline.ledger.tombstones import Tombstone, keyed_hash, tombstone_ids
from memline.outbox.tombstone_file import EraseKey, FiledStone, TombstoneFile

__all__ = ["missing", "replay"]


def missing(ledger: Ledger, file: TombstoneFile) -> list[FiledStone]:
    """The tombstones of *file* that are this ledger's and not in it, in their order.

    A ledger without a name is older than every name: they are its own.
    """
    filed = file.read()
    if not filed:
        return []
    with ledger.read() as connection:
        known = tombstone_ids(connection, whole=True)
        name = connection.execute(sa.select(ledger_meta.c.value).where(ledger_meta.c.key == "name")).scalar_one_or_none()
    return [stone for stone in filed.values() if stone.id not in known and name in (None, stone.ledger)]


def replay(ledger: Ledger, stones: list[FiledStone], key: EraseKey | None, *, now: datetime) -> int:
    """Erases again what *stones* erased; how many memories and turns went. A second time nothing is left to do.

    Raises ConfigurationError without the key that they were made with: nothing is served then.
    """
    removed = 0
    for filed in stones:
        if key is None or key.id != filed.key_id:
            raise ConfigurationError(
                f"The ledger lacks the tombstone {filed.id}: it was put back from an older backup, and must erase again. "
                f"That needs the key {filed.key_id}, in MEMLINE_ERASE_KEY or in erase.key of the home folder, and it is "
                + ("not there." if key is None else f"another one ({key.id}) that is there.")
            )
        removed += _again(ledger, filed, key, now=now)
    return removed


def _again(ledger: Ledger, filed: FiledStone, key: EraseKey, *, now: datetime) -> int:
    subject = key.unseal(filed.id, filed.sealed)
    if keyed_hash(key.secret, subject) != filed.hash:
        raise ConfigurationError(f"The tombstone {filed.id} was changed by somebody: its two halves do not belong together.")
    kind: Any = filed.kind
    with ledger.write() as tx:
        ledger_name(tx, filed.ledger)
        lock_key(tx, subject, namespace=filed.namespace)
        value = value_of(tx, filed.namespace, kind, subject)
        if filed.id not in tombstone_ids(tx):
            put_tombstone(
                tx,
                {
                    "id": filed.id,
                    "subject": subject,
                    "namespace": filed.namespace,
                    "kind": filed.kind,
                    "hash": filed.hash,
                    "key_id": filed.key_id,
                    "epoch": filed.epoch,
                    "place": filed.place,
                    "at": filed.at,
                    "phase": "replaying",
                    "started_at": now,
                    "finished_at": None,
                    "waits": {},
                    "counts": {},
                    "certificate": None,
                },
            )
            _raise_to(tx, subject, filed.epoch, None if value is None else Whose(filed.namespace, kind, value))
    stone = Tombstone(filed.id, subject, filed.namespace, filed.kind, filed.hash, filed.key_id, filed.epoch, filed.place, filed.at,
                      "replaying", now, None, {}, {})  # fmt: skip
    removed = 0
    if value is not None:
        done = remove_rows(ledger, stone, Whose(filed.namespace, kind, value, before=filed.at), now=now)
        removed = done["memories"] + done["jobs"]
    with ledger.write() as tx:
        tx.execute(sa.delete(erasure_objects).where(erasure_objects.c.erasure == filed.id))
        tx.execute(sa.update(tombstones).where(tombstones.c.id == filed.id).values(phase="replayed", finished_at=now))
        count(tx, "subjects_erased")
    return removed


def _raise_to(tx: Connection, key: str, epoch: int, whose: Whose | None) -> None:
    """The subject's epoch is at least *epoch*; its turns of afterwards that are on their way go on under the new one."""
    before = tx.execute(sa.select(subjects.c.epoch).where(subjects.c.key == key)).scalar_one_or_none() or 0
    if before >= epoch:
        return
    statement = insert(tx, subjects).values(key=key, epoch=epoch)
    tx.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"epoch": epoch}))
    if whose is not None:
        open_jobs = sa.and_(jobs.c.lane.in_(whose.lane_keys), jobs.c.finished_at.is_(None))
        lock_which(tx, open_jobs)
        tx.execute(sa.update(jobs).where(open_jobs).values(epochs=jobs.c.epochs + (epoch - before)))
