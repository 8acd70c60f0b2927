"""Rows of the ledger as a search sees them: what may be read, what a filter is asked about, what a candidate is scored by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.ledger.memories import MemoryRow, within
from memline.ledger.schema import memories

__all__ = ["CandidateRow", "Reading", "candidates_between", "candidates_by_id", "candidates_by_no", "filter_rows", "filter_view"]

#: A memory in the columns of `_COLUMNS`: a third less to fetch and parse than a `MemoryRow`, which only results become.
CandidateRow = sa.Row[*tuple[Any, ...]]

_NAMES = (
    "no",
    "id",
    "namespace",
    "lane",
    "owner_no",
    "user_id",
    "agent_id",
    "run_id",
    "place",
    "ordinal",
    "state",
    "text",
    "content_hash",
    "length",
    "role",
    "actor_id",
    "verbatim",
    "expires_on",
    "occurred_at",
    "valid_from",
    "valid_to",
    "superseded_by",
)
_COLUMNS = [memories.c[name] for name in _NAMES]
_FILTERED = [memories.c[name] for name in ("metadata", "created_at", "updated_at", "attributed_to", "memory_type")]

#: Ids and numbers a statement; both databases take more.
_CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Reading:
    """Which rows a read may show."""

    today: date
    show_expired: bool = False
    include_superseded: bool = False
    #: What was current then, instead of now.
    as_of: datetime | None = None

    def shows(self, row: CandidateRow | MemoryRow) -> bool:
        """Whether *row* (not deleted) may be seen. A verbatim memory is never hidden for being superseded."""
        if not self.show_expired and (row.state == "expired" or (row.expires_on is not None and row.expires_on < self.today)):
            return False
        if self.as_of is not None and row.valid_from > self.as_of:
            return False
        return self.include_superseded or bool(row.verbatim) or not self.is_past(row)

    def is_past(self, row: CandidateRow | MemoryRow) -> bool:
        """A newer memory had taken *row*'s place at the time that is asked about."""
        if self.as_of is not None:
            return row.valid_to is not None and bool(row.valid_to <= self.as_of)
        return bool(row.state == "superseded")


def filter_view(row: CandidateRow | MemoryRow) -> dict[str, Any]:
    """*row* flat, as `Filter.matches` reads it: metadata keys and, laid over them, memline's own."""
    view: dict[str, Any] = dict(row.metadata or {})
    for name in ("role", "actor_id", "attributed_to", "memory_type"):
        if (value := getattr(row, name)) is not None:
            view[name] = value
    if row.expires_on is not None:
        view["expiration_date"] = row.expires_on
    return view | {
        "user_id": row.user_id,
        "agent_id": row.agent_id,
        "run_id": row.run_id,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "occurred_at": row.occurred_at,
    }


def candidates_by_id(connection: Connection, namespace: str, ids: Sequence[str], *, filtered: bool) -> list[CandidateRow]:
    """The rows behind *ids* that are not deleted. *filtered*: with what `filter_view` needs."""
    return _where(connection, namespace, memories.c.id, ids, filtered=filtered)


def candidates_by_no(connection: Connection, namespace: str, nos: Sequence[int], *, filtered: bool) -> list[CandidateRow]:
    """The rows behind ledger numbers that are not deleted."""
    return _where(connection, namespace, memories.c.no, nos, filtered=filtered)


def candidates_between(
    connection: Connection, namespace: str, ranges: Mapping[str, Iterable[tuple[int, int]]], *, filtered: bool, limit: int
) -> list[CandidateRow]:
    """Rows, not deleted, whose lane and place lie in *ranges* (lane -> first and last place), in the order of lane, place and ordinal.

    One statement, whatever the number of lanes.
    """
    flat = [(lane, low, high) for lane, spans in ranges.items() for low, high in spans]
    if not flat:
        return []
    lanes, lows, highs = zip(*flat, strict=True)
    if connection.dialect.name == "sqlite":
        each = sa.func.json_each(sa.bindparam("spans", [list(span) for span in flat], type_=sa.JSON)).table_valued("value", name="span")
        bounds: list[sa.ColumnElement[Any]] = [sa.func.json_extract(each.c.value, f"$[{index}]") for index in range(3)]
    else:
        from sqlalchemy.dialects.postgresql import ARRAY

        each = sa.func.unnest(
            sa.cast(list(lanes), ARRAY(sa.Text)), sa.cast(list(lows), ARRAY(sa.BigInteger)), sa.cast(list(highs), ARRAY(sa.BigInteger))
        ).table_valued("lane", "low", "high", name="span").render_derived()
        bounds = [each.c.lane, each.c.low, each.c.high]
    lane, low, high = bounds
    query = (
        sa.select(*_columns(filtered))
        .select_from(each.join(memories, sa.and_(memories.c.lane == lane, memories.c.place.between(low, high))))
        .where(memories.c.namespace == namespace, memories.c.state != "deleted")
        .order_by(memories.c.lane, memories.c.place, memories.c.ordinal)
        .limit(limit)
    )
    return list(connection.execute(query).all())


def filter_rows(connection: Connection, namespace: str, scopes: Sequence[ScopeIds], *, limit: int) -> list[CandidateRow]:
    """Rows in *scopes*, not deleted, newest first, in the columns of a candidate and of `filter_view`."""
    query = (
        sa.select(*_columns(True))
        .where(within(namespace, scopes), memories.c.state != "deleted")
        .order_by(memories.c.no.desc())
        .limit(limit)
    )
    return list(connection.execute(query).all())


def _columns(filtered: bool) -> list[sa.Column[Any]]:
    return [*_COLUMNS, *_FILTERED] if filtered else _COLUMNS


def _where(connection: Connection, namespace: str, column: sa.Column[Any], wanted: Sequence[Any], *, filtered: bool) -> list[CandidateRow]:
    found: list[CandidateRow] = []
    for start in range(0, len(wanted), _CHUNK):
        query = sa.select(*_columns(filtered)).where(
            column.in_(list(wanted[start : start + _CHUNK])), memories.c.namespace == namespace, memories.c.state != "deleted"
        )
        found += connection.execute(query).all()
    return found
