"""What one namespace wants otherwise than the settings say: JSON values by name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import namespace_options
from memline.ledger.session import insert

__all__ = ["WEIGHTS", "Option", "clear_option", "option_of", "set_option"]

#: Name of the option that holds the weights of a namespace's search.
WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class Option:
    """A value, and when it was set."""

    value: Any
    set_at: datetime


def option_of(connection: Connection, namespace: str, name: str) -> Option | None:
    """What *namespace* has set under *name*; None where it has set nothing. One statement."""
    row = connection.execute(_BY_NAME, {"namespace": namespace, "name": name}).one_or_none()
    return None if row is None else Option(row.value, row.set_at)


def set_option(tx: Connection, namespace: str, name: str, value: Any, *, now: datetime) -> None:
    """Puts *value* (anything JSON holds, but no null) in place of what was there."""
    statement = insert(tx, namespace_options).values(namespace=namespace, name=name, value=value, set_at=now)
    tx.execute(statement.on_conflict_do_update(index_elements=["namespace", "name"], set_={"value": value, "set_at": now}))


def clear_option(tx: Connection, namespace: str, name: str) -> bool:
    """Removes what was set; False where nothing was."""
    columns = namespace_options.c
    return tx.execute(sa.delete(namespace_options).where(columns.namespace == namespace, columns.name == name)).rowcount > 0


_BY_NAME = sa.select(namespace_options.c.value, namespace_options.c.set_at).where(
    namespace_options.c.namespace == sa.bindparam("namespace"), namespace_options.c.name == sa.bindparam("name")
)
