"""Rows by pairs of values, as index look-ups on both databases: for `(a, b) IN (…)` SQLite reads the whole table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

__all__ = ["has_pair"]


def has_pair(
    query: sa.Select[Any], first: sa.ColumnElement[Any], second: sa.ColumnElement[Any], pairs: Collection[tuple[Any, Any]]
) -> sa.Select[Any]:
    """*query* over rows whose (*first*, *second*) is one of *pairs*, which are at least one."""
    table = sa.values(sa.column("one", first.type), sa.column("two", second.type), name="pairs").data(sorted(set(pairs)))
    wanted = table.cte("wanted")
    return query.join(wanted, sa.and_(first == wanted.c.one, second == wanted.c.two))
