"""The tables of the embedded index: a projection, made when missing and made anew when its form has changed."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table, UniqueConstraint

from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.ledger.session import Ledger, insert

__all__ = [
    "FORM",
    "index_deletions",
    "index_meta",
    "index_objects",
    "mark_rebuilt",
    "needs_rebuild",
    "object_of",
    "prepare",
    "stored_dimension",
]

#: Number of the tables' form; another one in the file means that they are dropped and filled again.
FORM = "1"

_metadata = sa.MetaData()

#: The form of the tables, whether they must be filled anew, and the dimension of the vectors.
index_meta = Table("index_meta", _metadata, Column("key", sa.Text, primary_key=True), Column("value", sa.Text, nullable=False))

#: One row an object. `seq` only grows, also when an object is replaced: what lies beyond the last one seen is new.
index_objects = Table(
    "index_objects",
    _metadata,
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
    Index("ix_index_objects_walk", "kind", "namespace", "id"),
    Index("ix_index_objects_all", "kind", "namespace", "seq"),
    Index("ix_index_objects_user", "kind", "namespace", "user_id", "seq"),
    Index("ix_index_objects_agent", "kind", "namespace", "agent_id", "seq"),
    Index("ix_index_objects_run", "kind", "namespace", "run_id", "seq"),
    sqlite_autoincrement=True,
)

#: How often objects of a kind and namespace were removed: a cache that saw another number looks which are left.
index_deletions = Table(
    "index_deletions",
    _metadata,
    Column("kind", sa.Text, primary_key=True),
    Column("namespace", sa.Text, primary_key=True),
    Column("number", sa.Integer, nullable=False),
)


def prepare(store: Ledger, *, filled_elsewhere: bool) -> None:
    """Makes the tables where they are missing or of another form. *filled_elsewhere*: new ones have to be filled from the ledger."""
    with store.read() as connection:
        there = sa.inspect(connection).has_table(index_meta.name)
        if there and _value(connection, "form") == FORM:
            return
    with store.write() as tx:
        there = sa.inspect(tx).has_table(index_meta.name)
        if there and _value(tx, "form") == FORM:  # another process was faster
            return
        _metadata.drop_all(tx)
        _metadata.create_all(tx)
        tx.execute(sa.insert(index_meta), [{"key": "form", "value": FORM}])
        if there or filled_elsewhere:
            tx.execute(sa.insert(index_meta), [{"key": "rebuild", "value": "1"}])


def needs_rebuild(connection: sa.Connection) -> bool:
    """The tables were made empty beside a ledger that has memories, and nobody has filled them since."""
    return _value(connection, "rebuild") is not None


def mark_rebuilt(tx: sa.Connection) -> None:
    """What the ledger holds is in the tables, or in the outbox."""
    tx.execute(sa.delete(index_meta).where(index_meta.c.key == "rebuild"))


def stored_dimension(tx: sa.Connection, dimension: int) -> int:
    """The dimension of the vectors here; *dimension* is taken where there is none yet."""
    tx.execute(insert(tx, index_meta).values(key="dimension", value=str(dimension)).on_conflict_do_nothing(index_elements=["key"]))
    return int(_value(tx, "dimension") or dimension)


def object_of(kind: Kind, row: sa.Row[*tuple[Any, ...]]) -> IndexObject:
    """The object in a row of `index_objects`.

    The terms come back as they were joined: the digest is over the joined form, and a name of two words stays one string.
    """
    key = ObjectKey(kind, row.namespace, row.id)
    return IndexObject(key, row.version, row.user_id, row.agent_id, row.run_id, (row.terms,), bytes(row.vector))


def _value(connection: sa.Connection, key: str) -> str | None:
    found: str | None = connection.execute(sa.select(index_meta.c.value).where(index_meta.c.key == key)).scalar_one_or_none()
    return found
