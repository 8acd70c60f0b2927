"""Where the reconciler stopped, so that a pass with a budget goes on there, in whichever process."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import ledger_meta
from memline.ledger.session import insert

__all__ = ["next_stop", "save_stop"]

_KEY = "reconcile"


def next_stop(connection: Connection) -> tuple[str, str]:
    """Place (kind:namespace) and id after which to go on; two empty strings for the beginning."""
    value = connection.execute(sa.select(ledger_meta.c.value).where(ledger_meta.c.key == _KEY)).scalar_one_or_none()
    if value is None:
        return "", ""
    place, after = json.loads(value)
    return place, after


def save_stop(tx: Connection, place: str, after: str) -> None:
    """Remembers where to go on."""
    statement = insert(tx, ledger_meta).values(key=_KEY, value=json.dumps([place, after]))
    tx.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value}))
