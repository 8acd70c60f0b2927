"""What all tables share: names of constraints, and the kinds of columns and indexes that several have."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Index, text

from memline.ledger.types import UtcTime

__all__ = ["metadata", "now_or_null", "where_set"]

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def now_or_null(name: str) -> Column[object]:
    return Column(name, UtcTime, nullable=True)


def where_set(table: str, column: str, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Index:
    """An index over the rows that have a value in *column*: `column = x` finds it, `column IS NULL` is not led into it."""
    condition = text(f"{column} IS NOT NULL")
    return Index(f"ix_{table}_{column}", *before, column, *after, sqlite_where=condition, postgresql_where=condition)
