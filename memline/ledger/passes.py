"""Whose turn a regular pass is: of all processes on a ledger, the first that looks after the time has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import ledger_meta
from memline.ledger.session import insert

__all__ = ["claim_pass", "reopen_pass"]


def claim_pass(tx: Connection, name: str, *, now: datetime, every: timedelta) -> bool:
    """Claims the pass *name*; False where some process began one less than *every* ago."""
    claim = insert(tx, ledger_meta).values(key=_key(name), value=_moment(now))
    claim = claim.on_conflict_do_update(
        index_elements=["key"], set_={"value": claim.excluded.value}, where=ledger_meta.c.value <= _moment(now - every)
    )
    return tx.execute(claim.returning(ledger_meta.c.key)).one_or_none() is not None


def reopen_pass(tx: Connection, name: str) -> None:
    """The pass ended before its work did: the next one may begin at once."""
    tx.execute(sa.delete(ledger_meta).where(ledger_meta.c.key == _key(name)))


def _key(name: str) -> str:
    return f"{name}.started"


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")
