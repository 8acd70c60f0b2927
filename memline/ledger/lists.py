"""Lists and small tables as one parameter each: a statement stays the same text, whatever their length, and is compiled once.

An expanding IN is written anew for each length, which takes longer than the look-ups themselves; here SQLite takes JSON, PostgreSQL arrays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import CursorResult, Dialect, Result
from sqlalchemy.types import TypeDecorator

__all__ = ["in_list", "table_of", "tuples", "with_table"]


class _Json(TypeDecorator[Any]):
    """Texts (without NUL, which SQLite would end at) and whole numbers as JSON."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def in_list(dialect: str, column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """*column* is one of the list (of texts or whole numbers) that is given as parameter *name*; nothing is in an empty one."""
    if dialect == "sqlite":
        each = sa.func.json_each(sa.bindparam(name, type_=_Json)).table_valued("value", name=f"{name}_given")
        return column.in_(sa.select(each.c.value).scalar_subquery())
    return column == sa.any_(sa.bindparam(name, type_=postgresql.ARRAY(column.type)))


def table_of(dialect: str, name: str, **types: Any) -> tuple[sa.FromClause, list[sa.ColumnElement[Any]]]:
    """A table that is given as parameters (see `with_table`), and its columns, of these *types*, in order."""
    if dialect == "sqlite":
        each = sa.func.json_each(sa.bindparam(name, type_=_Json)).table_valued("value", name=name)
        return each, [sa.func.json_extract(each.c.value, f"$[{index}]") for index in range(len(types))]
    arrays = [sa.cast(sa.bindparam(f"{name}_{column}"), postgresql.ARRAY(type_)) for column, type_ in types.items()]
    table = sa.func.unnest(*arrays).table_valued(*types, name=name).render_derived()
    return table, [table.c[column] for column in types]


def with_table(dialect: str, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The parameters that give *rows* to `table_of`."""
    if dialect == "sqlite":
        return {name: rows}
    return {f"{name}_{column}": [row[index] for row in rows] for index, column in enumerate(columns)}


def tuples(result: Result[Any]) -> list[tuple[Any, ...]]:
    """The rows of *result* as the driver gives them: without conversions, at a third of the time."""
    assert isinstance(result, CursorResult) and result.cursor is not None
    found = result.cursor.fetchall()
    result.close()
    return list(found)
