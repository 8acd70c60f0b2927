"""What reconcilers of several processes share: whose turn it is, where the last one stopped, when a pass last came to its end."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.receipt import Status
from memline.ledger.audit_of_jobs import COMMITTED_AND_SHOWN
from memline.ledger.schema import jobs, ledger_meta, outbox
from memline.ledger.session import insert

__all__ = [
    "end_turn",
    "is_turn_due",
    "last_full_pass",
    "make_turn_due",
    "mark_shown",
    "next_stop",
    "revive_parked",
    "save_stop",
    "take_turn",
]

#: Characters of a moment as it is stored: text of one width, so that it sorts by time.
_WIDTH = 32

_STOP, _TURN, _FULL = "reconcile", "reconcile.turn", "reconcile.full"


def is_turn_due(connection: Connection, *, now: datetime) -> bool:
    """Whether `take_turn` may give one: a look that writes nothing."""
    value = _value(connection, _TURN)
    return value is None or value[:_WIDTH] <= _moment(now)


def take_turn(tx: Connection, holder: str, *, now: datetime, seconds: float) -> bool:
    """Gives *holder* the turn, where one is due and nobody has it; for *seconds*, should its process die.

    The row says when the next turn is due, or when a holder's ends, and who the holder is.
    """
    claim = insert(tx, ledger_meta).values(key=_TURN, value=f"{_moment(now + timedelta(seconds=seconds))} {holder}")
    due = sa.func.substr(ledger_meta.c.value, 1, _WIDTH) <= _moment(now)
    claim = claim.on_conflict_do_update(index_elements=["key"], set_={"value": claim.excluded.value}, where=due)
    return tx.execute(claim.returning(ledger_meta.c.key)).one_or_none() is not None


def end_turn(tx: Connection, holder: str, *, next_at: datetime) -> None:
    """Gives the turn back; the next one is due at *next_at*. Nothing where another process took it over."""
    held = sa.and_(ledger_meta.c.key == _TURN, sa.func.substr(ledger_meta.c.value, _WIDTH + 2) == holder)
    tx.execute(sa.update(ledger_meta).where(held).values(value=f"{_moment(next_at)} "))


def make_turn_due(tx: Connection) -> None:
    """The next turn is due at once and begins at the beginning: an index was found empty. One that is under way goes on."""
    tx.execute(sa.delete(ledger_meta).where(ledger_meta.c.key.in_((_STOP, _TURN))))


def next_stop(connection: Connection) -> tuple[str, str]:
    """Place (kind:namespace) and id after which to go on; two empty strings for the beginning."""
    place, after = json.loads(_value(connection, _STOP) or '["", ""]')
    return place, after


def save_stop(tx: Connection, place: str, after: str) -> None:
    """Remembers where to go on."""
    _save(tx, _STOP, json.dumps([place, after]))


def last_full_pass(connection: Connection) -> datetime | None:
    """When a pass last came to its end; None before the first."""
    value = _value(connection, _FULL)
    return None if value is None else datetime.fromisoformat(value)


def mark_shown(tx: Connection, *, now: datetime, limit: int = 10_000) -> int:
    """A pass came to its end. Jobs of which nothing waits for the index any more become searchable: somebody emptied the outbox by hand."""
    _save(tx, _FULL, _moment(now))
    query = sa.select(jobs.c.no).where(COMMITTED_AND_SHOWN).order_by(jobs.c.no).limit(limit).with_for_update(skip_locked=True)
    nos = list(tx.execute(query).scalars())
    if nos:
        tx.execute(sa.update(jobs).where(jobs.c.no.in_(nos)).values(state=Status.SEARCHABLE.value, searchable_at=now))
    return len(nos)


def revive_parked(tx: Connection, *, now: datetime, limit: int = 10_000) -> int:
    """Rows that were set aside are tried again: what made the index refuse them may be over."""
    parked = sa.select(outbox.c.kind, outbox.c.object_id).where(outbox.c.parked).order_by(outbox.c.kind, outbox.c.object_id).limit(limit)
    rows = tx.execute(parked.with_for_update(skip_locked=True)).all()
    for kind, object_id in rows:
        which = sa.and_(outbox.c.kind == kind, outbox.c.object_id == object_id)
        tx.execute(sa.update(outbox).where(which).values(parked=sa.false(), attempts=0, next_at=now))
    return len(rows)


def _value(connection: Connection, key: str) -> str | None:
    found: str | None = connection.execute(sa.select(ledger_meta.c.value).where(ledger_meta.c.key == key)).scalar_one_or_none()
    return found


def _save(tx: Connection, key: str, value: str) -> None:
    statement: Any = insert(tx, ledger_meta).values(key=key, value=value)
    tx.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value}))


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")
