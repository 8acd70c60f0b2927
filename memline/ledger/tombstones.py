"""Tombstones: what keeps an erased subject from coming back. They hold no id, no text, and nothing made from a text.

A turn that was handed over before an erasure is met here when it reaches the ledger (`ledger.marks` says what "before" means), an old
memory when it is imported. While an erasure runs, every turn of its subject ends cancelled.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.erasing import MarkedTurn
from memline.contracts.receipt import Status
from memline.contracts.scope import Scope, Subject
from memline.contracts.turn import Turn
from memline.ledger.counters import count
from memline.ledger.marks import place_of
from memline.ledger.pairs import has_pair
from memline.ledger.schema import erased_numbers, erased_turns, tombstones
from memline.ledger.session import insert

__all__ = [
    "REASON",
    "Tombstone",
    "end_erased",
    "expected_after_erasure",
    "is_erased",
    "keyed_hash",
    "load_tombstone",
    "running_tombstone",
    "tombstone_ids",
    "tombstones_in",
    "turns_of_erased",
    "unfinished",
]

#: Why a turn of an erased subject ended.
REASON = "its subject was erased"

#: One that is replayed goes on at the next opening of the ledger, by its own rule.
_NOT_REPLAYING = sa.not_(sa.and_(tombstones.c.phase == "replaying", tombstones.c.finished_at.is_(None)))
_RUNNING = sa.and_(tombstones.c.finished_at.is_(None), tombstones.c.phase != "replaying")


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An erasure as the ledger remembers it. *subject*: the key of `contracts.scope.Subject`, a digest."""

    id: str
    subject: str
    namespace: str
    kind: str
    hash: str
    key_id: str
    epoch: int
    place: str
    at: datetime
    phase: str
    started_at: datetime
    finished_at: datetime | None
    waits: Mapping[str, Any]
    counts: Mapping[str, Any]
    certificate: Mapping[str, Any] | None = None


def keyed_hash(key: bytes, subject: str) -> str:
    """What stands for a subject (its key) outside: HMAC-SHA-256, 64 hex digits. Without *key* no guess can be confirmed."""
    return hmac.new(key, b"memline tombstone 1:" + subject.encode("ascii"), hashlib.sha256).hexdigest()


def is_erased(tx: Connection, scope: Scope, created_at: datetime) -> bool:
    """Whether something of *scope* that was made at *created_at* was erased since, or is being erased: it must not come back.

    For whoever brings memories in from elsewhere. The caller holds the locks of the scope's subjects.
    """
    query = sa.select(tombstones.c.id).where(
        tombstones.c.subject.in_([subject.key for subject in scope.subjects]),
        sa.or_(tombstones.c.at >= created_at, tombstones.c.finished_at.is_(None)),
    )
    return tx.execute(query.limit(1)).one_or_none() is not None


def turns_of_erased(tx: Connection, arrived: Iterable[tuple[Turn, str | None]], *, margin: timedelta) -> list[Turn]:
    """Which of the turns (with the id of their stream entry; None: straight from the caller) belong to an erased subject and were handed
    over before its erasure ended, as far as that can be known.
    """
    found = list(arrived)
    by_subject: dict[str, list[Any]] = {}
    keys = sorted({subject.key for turn, _ in found for subject in turn.scope.subjects})
    for start in range(0, len(keys), 500):
        query = sa.select(tombstones.c.subject, tombstones.c.place, tombstones.c.at, tombstones.c.finished_at)
        for row in tx.execute(query.where(tombstones.c.subject.in_(keys[start : start + 500]))):
            by_subject.setdefault(row.subject, []).append(row)
    if not by_subject:
        return []
    ended = set(tx.execute(sa.select(erased_turns.c.turn_id).where(erased_turns.c.turn_id.in_([turn.id for turn, _ in found]))).scalars())
    gone = []
    for turn, entry_id in found:
        rows = [row for subject in turn.scope.subjects for row in by_subject.get(subject.key, ())]
        if turn.id in ended or any(_is_before(turn, entry_id, row, margin) for row in rows):
            gone.append(turn)
    return gone


def _is_before(turn: Turn, entry_id: str | None, row: Any, margin: timedelta) -> bool:
    if row.finished_at is None:
        return True
    if entry_id is None:
        return False  # it goes straight into the ledger, whose order decides: it is after
    return bool(place_of(entry_id) < row.place or (turn.spooled and turn.handed_at <= row.at + margin))


def end_erased(tx: Connection, turns: Sequence[MarkedTurn], *, now: datetime, state: Status = Status.CANCELLED) -> int:
    """Writes of turns that they ended, and which numbers they used; nothing else of them. How many are new."""
    if not turns:
        return 0
    rows = [
        {"turn_id": turn.id, "namespace": turn.namespace, "state": state.value, "at": now}
        for turn in sorted(turns, key=lambda turn: turn.id)
    ]
    new = 0
    for start in range(0, len(rows), 500):
        statement = insert(tx, erased_turns).values(rows[start : start + 500]).on_conflict_do_nothing(index_elements=["turn_id"])
        new += len(tx.execute(statement.returning(erased_turns.c.turn_id)).all())
    next_ones: Counter[tuple[str, str]] = Counter()
    for turn in turns:
        if turn.producer:
            pair = (turn.lane, turn.producer)
            next_ones[pair] = max(next_ones[pair], turn.number + 1)
    keep_numbers(tx, next_ones, now=now)
    if state is Status.CANCELLED:
        count(tx, "turns_cancelled", new)
    return new


def keep_numbers(tx: Connection, expected: Mapping[tuple[str, str], int], *, now: datetime) -> None:
    """Remembers the next number that (lane, producer) owes; a number only rises."""
    if not expected:
        return
    statement = insert(tx, erased_numbers)
    new = statement.excluded
    later = sa.case((new.expected > erased_numbers.c.expected, new.expected), else_=erased_numbers.c.expected)
    tx.execute(
        statement.on_conflict_do_update(index_elements=["lane", "producer"], set_={"expected": later, "seen_at": new.seen_at}),
        [{"lane": lane, "producer": name, "expected": number, "seen_at": now} for (lane, name), number in sorted(expected.items())],
    )


def expected_after_erasure(tx: Connection, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The next numbers of those (lane, producer) that were erased; the others are left out."""
    found: dict[tuple[str, str], int] = {}
    table = erased_numbers.c
    for start in range(0, len(wanted), 400):
        query = sa.select(table.lane, table.producer, table.expected)
        for row in tx.execute(has_pair(query, table.lane, table.producer, list(wanted[start : start + 400]))):
            found[row.lane, row.producer] = row.expected
    return found


def load_tombstone(connection: Connection, erasure: str) -> Tombstone:
    """One erasure by its id, which is there."""
    return _tombstone(connection.execute(sa.select(tombstones).where(tombstones.c.id == erasure)).one())


def running_tombstone(connection: Connection, subject: Subject) -> Tombstone | None:
    """The erasure of *subject* that was begun and is not finished."""
    query = sa.select(tombstones).where(tombstones.c.subject == subject.key, _RUNNING)
    row = connection.execute(query.order_by(tombstones.c.started_at).limit(1)).one_or_none()
    return None if row is None else _tombstone(row)


def unfinished(connection: Connection, namespace: str | None = None) -> list[Tombstone]:
    """Erasures that were begun and not finished, oldest first."""
    query = sa.select(tombstones).where(_RUNNING)
    if namespace is not None:
        query = query.where(tombstones.c.namespace == namespace)
    return [_tombstone(row) for row in connection.execute(query.order_by(tombstones.c.started_at, tombstones.c.id))]


def tombstones_in(connection: Connection, namespace: str) -> list[Tombstone]:
    """All erasures of a namespace, oldest first."""
    query = sa.select(tombstones).where(tombstones.c.namespace == namespace).order_by(tombstones.c.started_at, tombstones.c.id)
    return [_tombstone(row) for row in connection.execute(query)]


def tombstone_ids(connection: Connection, *, whole: bool = False) -> set[str]:
    """The ids of all erasures that this ledger knows; *whole*: but for those whose replay did not come to its end."""
    query = sa.select(tombstones.c.id)
    return set(connection.execute(query.where(_NOT_REPLAYING) if whole else query).scalars())


def _tombstone(row: Any) -> Tombstone:
    return Tombstone(**row._mapping)
