"""The tables of the embedded index: a projection, made when missing and made anew when its form has changed. Each space of vectors has
tables of its own, so that what was filled for another embedder is never compared with.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table, UniqueConstraint

from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.ledger.session import Ledger, insert
from memline.search.index.port import Space

__all__ = [
    "FORM",
    "Tables",
    "drop",
    "drop_others",
    "mark_rebuilt",
    "needs_rebuild",
    "object_of",
    "prepare",
    "stored_dimension",
    "tables_of",
]

#: Number of the tables' form; another one in the file means that they are dropped and filled again.
FORM = "1"

_OBJECTS = "index_objects"


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The tables of one space."""

    metadata: sa.MetaData
    #: The form of the tables, whether they must be filled anew, and the dimension of the vectors.
    meta: Table
    #: One row an object. `seq` only grows, also when an object is replaced: what lies beyond the last one seen is new.
    objects: Table
    #: How often objects of a kind and namespace were removed: a cache that saw another number looks which are left.
    deletions: Table


def tables_of(space: Space | None) -> Tables:
    """The tables of *space*, named by its key; None: of an index whose embedder never changes."""
    return _tables("" if space is None else f"_{space.key}")


@cache
def _tables(suffix: str) -> Tables:
    metadata = sa.MetaData()
    name = f"{_OBJECTS}{suffix}"
    meta = Table(f"index_meta{suffix}", metadata, Column("key", sa.Text, primary_key=True), Column("value", sa.Text, nullable=False))
    objects = Table(
        name,
        metadata,
        Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        Column("kind", sa.Text, nullable=False),
        Column("id", sa.Text, nullable=False),
        Column("namespace", sa.Text, nullable=False),
        Column("user_id", sa.Text),
        Column("agent_id", sa.Text),
        Column("run_id", sa.Text),
        Column("version", sa.Integer, nullable=False),
        Column("terms", sa.Text, nullable=False),
        Column("vector", sa.LargeBinary, nullable=False),
        UniqueConstraint("kind", "id"),
        Index(f"ix_{name}_walk", "kind", "namespace", "id"),
        Index(f"ix_{name}_all", "kind", "namespace", "seq"),
        Index(f"ix_{name}_user", "kind", "namespace", "user_id", "seq"),
        Index(f"ix_{name}_agent", "kind", "namespace", "agent_id", "seq"),
        Index(f"ix_{name}_run", "kind", "namespace", "run_id", "seq"),
        sqlite_autoincrement=True,
    )
    deletions = Table(
        f"index_deletions{suffix}",
        metadata,
        Column("kind", sa.Text, primary_key=True),
        Column("namespace", sa.Text, primary_key=True),
        Column("number", sa.Integer, nullable=False),
    )
    return Tables(metadata, meta, objects, deletions)


def prepare(store: Ledger, tables: Tables, *, filled_elsewhere: bool) -> None:
    """Makes the tables where they are missing or of another form. *filled_elsewhere*: new ones have to be filled from the ledger."""
    with store.read() as connection:
        if _form(connection, tables) == FORM:
            return
    with store.write() as tx:
        there = _form(tx, tables)
        if there == FORM:  # another process was faster
            return
        tables.metadata.drop_all(tx)
        tables.metadata.create_all(tx)
        tx.execute(sa.insert(tables.meta), [{"key": "form", "value": FORM}])
        if there is not None or filled_elsewhere:
            tx.execute(sa.insert(tables.meta), [{"key": "rebuild", "value": "1"}])


def drop(store: Ledger, tables: Tables) -> None:
    """Removes the tables of a space with all that is in them."""
    with store.write() as tx:
        tables.metadata.drop_all(tx)


def drop_others(store: Ledger, spaces: Collection[Space]) -> None:
    """Removes the tables of every space but *spaces*: they are left from an embedder that nobody has any more."""
    kept = {tables_of(space).objects.name for space in spaces}
    with store.read() as connection:
        others = [name for name in _names_of_objects(connection) if name not in kept]
    for name in others:
        drop(store, _tables(name.removeprefix(_OBJECTS)))


def needs_rebuild(connection: sa.Connection, tables: Tables) -> bool:
    """The tables were made empty beside a ledger that has memories, and nobody has filled them since."""
    return _value(connection, tables, "rebuild") is not None


def mark_rebuilt(tx: sa.Connection, tables: Tables) -> None:
    """What the ledger holds is in the tables, or in the outbox."""
    tx.execute(sa.delete(tables.meta).where(tables.meta.c.key == "rebuild"))


def stored_dimension(tx: sa.Connection, tables: Tables, dimension: int) -> int:
    """The dimension of the vectors here; *dimension* is taken where there is none yet."""
    tx.execute(insert(tx, tables.meta).values(key="dimension", value=str(dimension)).on_conflict_do_nothing(index_elements=["key"]))
    return int(_value(tx, tables, "dimension") or dimension)


def object_of(kind: Kind, row: sa.Row[*tuple[Any, ...]]) -> IndexObject:
    """The object in a row of `Tables.objects`.

    The terms come back as they were joined: the digest is over the joined form, and a name of two words stays one string.
    """
    key = ObjectKey(kind, row.namespace, row.id)
    return IndexObject(key, row.version, row.user_id, row.agent_id, row.run_id, (row.terms,), bytes(row.vector))


def _names_of_objects(connection: sa.Connection) -> list[str]:
    return [name for name in sa.inspect(connection).get_table_names() if name == _OBJECTS or name.startswith(f"{_OBJECTS}_")]


def _form(connection: sa.Connection, tables: Tables) -> str | None:
    """The form of the tables that are there; None where there are none, "" for one before forms were numbered."""
    if not sa.inspect(connection).has_table(tables.meta.name):
        return None
    return _value(connection, tables, "form") or ""


def _value(connection: sa.Connection, tables: Tables, key: str) -> str | None:
    found: str | None = connection.execute(sa.select(tables.meta.c.value).where(tables.meta.c.key == key)).scalar_one_or_none()
    return found
