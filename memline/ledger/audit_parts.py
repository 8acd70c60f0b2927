"""What the checks of the ledger are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

__all__ = ["Check", "either", "is_one_of", "none_of"]


@dataclass(frozen=True, slots=True)
class Check:
    """A store and a statement that finds what is wrong in it: its first column is an id.

    Without `problem` the second column, made by `either`, says what is wrong, or is null where nothing is.
    """

    store: str
    statement: sa.Select[*tuple[Any, ...]]
    problem: str | None = None

    @property
    def problems(self) -> list[str]:
        """Everything that it may find."""
        if self.problem is not None:
            return [self.problem]
        case = self.statement.selected_columns[1]
        assert isinstance(case, sa.Case)
        return [str(told.value) for _, told in case.whens if isinstance(told, sa.BindParameter)]

    def query(self) -> sa.Select[*tuple[Any, ...]]:
        """The statement, over what is wrong only."""
        if self.problem is not None:
            return self.statement
        id_column, problem = self.statement.selected_columns
        return self.statement.with_only_columns(id_column, problem.label("problem")).where(problem.is_not(None))


def either(*cases: tuple[sa.ColumnElement[bool], str]) -> sa.ColumnElement[str | None]:
    """The problem of the first condition that holds; null where none does."""
    return sa.case(*((condition, sa.literal(problem, literal_execute=True)) for condition, problem in cases), else_=sa.null())


def is_one_of(column: sa.ColumnElement[Any], *values: str) -> sa.ColumnElement[bool]:
    """Written out and not bound: so both databases see that a partial index will do."""
    return column.in_([sa.literal_column(f"'{value}'") for value in values])


def none_of(table: sa.FromClause, *where: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """*table* has no such row."""
    return ~sa.exists(sa.select(sa.literal_column("1")).select_from(table).where(*where))
