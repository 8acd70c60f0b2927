"""Marks: up to where turns end cancelled that reach the ledger after their scope was deleted.

delete_all and reset cancel in their own transaction what the ledger has. A turn that was handed over before them and is still on its way
then, in the stream or in a spool, is held against their mark when it arrives. "Before" is Redis's order: an entry of the stream with a
smaller id than the mark's is before it. A spooled turn got its id long after it was handed over; it carries its producer's time, and is
before the mark up to `clock_margin` after it. A turn that goes straight into the ledger is ordered by the ledger, and meets no mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.ids import digest_of
from memline.contracts.scope import ID_KEYS, Scope
from memline.contracts.turn import Turn
from memline.ledger.schema import marks
from memline.ledger.session import insert

__all__ = ["cancelled_by_marks", "mark_key", "place_at", "place_of", "set_mark"]


def place_of(entry_id: str) -> str:
    """A stream entry's id (`milliseconds-sequence`, two numbers of 64 bits) in a form that sorts like it."""
    milliseconds, _, sequence = entry_id.partition("-")
    return f"{int(milliseconds):020}-{int(sequence or 0):020}"


def place_at(at: datetime) -> str:
    """The place that an entry of that time has, for who has no stream to ask: as exact as its clock and Redis's agree."""
    return place_of(str(int(at.astimezone(UTC).timestamp() * 1000)))


def mark_key(namespace: str, ids: Mapping[str, str]) -> str:
    """What stands for a set of ids (none: the whole namespace), so that no id lies in the table."""
    return digest_of("mark", namespace, *(ids.get(name) for name in ID_KEYS))


def set_mark(tx: Connection, namespace: str, ids: Mapping[str, str], *, place: str, at: datetime, reason: str) -> None:
    """Marks the turns of all scopes that have *ids*; a newer mark of the same ids covers the older one.

    The caller holds the lock of one of its subjects exclusively, so that no turn is accepted between its mark and its commit.
    """
    if not ids:  # this one covers all of the namespace's
        tx.execute(sa.delete(marks).where(marks.c.namespace == namespace, marks.c.place <= place, marks.c.at <= at))
    statement = insert(tx, marks).values(key=mark_key(namespace, ids), namespace=namespace, place=place, at=at, reason=reason)
    new = statement.excluded
    # two clocks may disagree: each of the two bounds only rises
    later = {name: sa.case((new[name] > marks.c[name], new[name]), else_=marks.c[name]) for name in ("place", "at")}
    tx.execute(statement.on_conflict_do_update(index_elements=["key"], set_={**later, "reason": new.reason}))


def cancelled_by_marks(tx: Connection, arrived: Iterable[tuple[Turn, str | None]], *, margin: timedelta) -> dict[str, str]:
    """Which of the turns (with the id of their stream entry; None: straight from the caller) a mark lies behind: turn id -> reason."""
    places = [(turn, place_of(entry_id), _keys_over(turn.scope)) for turn, entry_id in arrived if entry_id is not None]
    wanted = sorted({key for _, _, keys in places for key in keys})
    found = {}
    for start in range(0, len(wanted), 500):
        for row in tx.execute(sa.select(marks).where(marks.c.key.in_(wanted[start : start + 500]))):
            found[row.key] = row
    cancelled: dict[str, str] = {}
    for turn, place, keys in places if found else ():
        for key in keys:
            mark = found.get(key)
            if mark is not None and (place < mark.place or (turn.spooled and turn.handed_at <= mark.at + margin)):
                cancelled[turn.id] = mark.reason
                break
    return cancelled


def _keys_over(scope: Scope) -> Sequence[str]:
    """The keys of all marks that would cover *scope*: of each subset of its ids, the empty one being the namespace."""
    ids = scope.ids()
    return [
        mark_key(scope.namespace, {name: ids[name] for name in names})
        for number in range(len(ids) + 1)
        for names in combinations(ids, number)
    ]
