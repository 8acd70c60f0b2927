"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

__all__ = ["BigId", "IdText", "UtcTime"]

#: 64-bit autoincrementing key; SQLite autoincrements INTEGER only.
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


#: An id: compared and ordered by its bytes in both databases, as an index orders it, whatever the database's locale is.
IdText = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


class UtcTime(TypeDecorator[datetime]):
    """An aware time in UTC: `timestamptz` on PostgreSQL, fixed-width ISO-8601 text (which sorts by time) on SQLite."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.Text())
        return dialect.type_descriptor(sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        value = value.astimezone(UTC)
        return value.isoformat(timespec="microseconds") if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return datetime.fromisoformat(value) if isinstance(value, str) else value.astimezone(UTC)
