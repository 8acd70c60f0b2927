"""Removing what a namespace has left behind that nobody will use again: receipts' states, history without texts, marks, the feed.

`reset` keeps these, since a caller may still ask; of a throwaway namespace nobody will. Tombstones stay: they also lie outside the ledger,
which is held against them at each start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import InvalidInput
from memline.contracts.scope import Scope, Subject
from memline.ledger.locks import lock_one_of
from memline.ledger.pending import pending_work
from memline.ledger.schema import jobs, lanes, memories, metadata, owners, subjects, tombstones

__all__ = ["forget_namespace", "rows_of_namespace"]

#: Columns by which a row without a namespace belongs to one, and what they name.
_BY: dict[str, sa.Column[Any]] = {
    "lane": lanes.c.key,
    "owner_no": owners.c.no,
    "job_id": jobs.c.id,
    "memory_no": memories.c.no,
    "memory_id": memories.c.id,
}

_CHUNK = 500


def forget_namespace(tx: Connection, namespace: str, scopes: Sequence[Scope] = ()) -> int:
    """Removes every row of *namespace* but its tombstones; how many. *scopes*: those it had, for what is kept under their digests alone.

    Raises InvalidInput where a memory lives in it or something is on its way: reset it first, and wait until the index shows it.
    """
    lock_one_of(tx, Subject(namespace, "namespace", namespace), ())
    live = sa.select(sa.func.count()).select_from(memories).where(memories.c.namespace == namespace, memories.c.state == "live")
    if tx.execute(live).scalar_one() or any(pending_work(tx, namespace)):
        raise InvalidInput(f"Namespace {namespace} still has memories, or something is on its way: reset it first. Nothing was removed.")
    named = _named(tx, namespace)
    named["lane"] = [*named["lane"], *(scope.lane for scope in scopes)]
    removed = 0
    for table in reversed(metadata.sorted_tables):  # children before what they name
        if table is tombstones:
            continue
        for condition in _belongs(table, namespace, named):
            removed += tx.execute(sa.delete(table).where(condition)).rowcount
    keys = {subject.key for scope in scopes for subject in scope.subjects} | {Subject(namespace, "namespace", namespace).key}
    return removed + tx.execute(sa.delete(subjects).where(subjects.c.key.in_(keys))).rowcount


def rows_of_namespace(connection: Connection, namespace: str) -> dict[str, int]:
    """How many rows each table has of a namespace, where it has any."""
    named = _named(connection, namespace)
    found: dict[str, int] = {}
    for table in metadata.sorted_tables:
        number = sum(
            connection.execute(sa.select(sa.func.count()).select_from(table).where(condition)).scalar_one()
            for condition in _belongs(table, namespace, named)
        )
        if number:
            found[table.name] = number
    return found


def _named(connection: Connection, namespace: str) -> dict[str, list[Any]]:
    """What rows of other tables name, by the column that does."""
    return {
        name: list(connection.execute(sa.select(column).where(column.table.c.namespace == namespace)).scalars())
        for name, column in _BY.items()
    }


def _belongs(table: sa.Table, namespace: str, named: dict[str, list[Any]]) -> list[sa.ColumnElement[bool]]:
    """The conditions under which a row of *table* belongs to the namespace; together they name each once."""
    if "namespace" in table.c:
        return [table.c.namespace == namespace]
    for column, values in named.items():
        if column in table.c:
            return [table.c[column].in_(values[start : start + _CHUNK]) for start in range(0, len(values), _CHUNK)]
    return []
