"""The bound of a call (`within=`) as conditions of its statement."""

from __future__ import annotations

import sqlalchemy as sa

from memline.contracts.filters import ScopeIds

__all__ = ["bounded"]


def bounded(table: sa.Table, within: ScopeIds | None) -> list[sa.ColumnElement[bool]]:
    """Conditions that a row of *table*, which has the three scope ids, has all those of *within*; none without a bound."""
    return [] if within is None else [table.c[name] == value for name, value in within.ids().items()]
