"""Rows of the ledger as a search sees them: what may be read, what a filter is asked about, what a candidate is scored by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.ledger.memories import MemoryRow, within
from memline.ledger.schema import memories

__all__ = [
    "CandidateRow",
    "Reading",
    "candidates_between",
    "candidates_by_id",
    "candidates_by_no",
    "filter_rows",
    "filter_view",
    "month_of",
    "texts_of",
]

#: A memory in the columns that a candidate is scored by: a third of the work of a `MemoryRow`, which only results become.
#: `tail`: the last characters of its text. Neighbours come without namespace and scope ids: their lane says whose they are.
CandidateRow = sa.Row[*tuple[Any, ...]]

_NAMES = ("no", "id", "lane", "owner_no", "place", "ordinal", "state", "version", "content_hash", "length", "actor_id", "superseded_by")
_TAIL = sa.func.substr(memories.c.text, sa.func.length(memories.c.text) - 7).label("tail")
_TYPED = ("verbatim", "expires_on", "occurred_at", "valid_from", "valid_to")
_IDS = ("namespace", "user_id", "agent_id", "run_id")
_FILTERED = ("metadata", "created_at", "updated_at", "attributed_to", "role", "memory_type")
#: What SQLite holds of dates, times (text of fixed width, which sorts by time) and booleans: nobody needs it converted.
_PLAIN = (
    sa.type_coerce(memories.c.verbatim, sa.Integer).label("verbatim"),
    sa.type_coerce(memories.c.expires_on, sa.Text).label("expires_on"),
    sa.type_coerce(memories.c.occurred_at, sa.Text).label("occurred_at"),
)

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
    #: A filter asks about the rows, which are fetched with what `filter_view` needs.
    filtered: bool = False

    def visible(self, rows: Iterable[CandidateRow]) -> list[CandidateRow]:
        """Those of *rows* (not deleted) that may be seen, in their order."""
        if self.as_of is not None or self.show_expired or self.include_superseded:
            return [row for row in rows if self.shows(row)]
        today = self.today.isoformat()
        return [
            row
            for row in rows
            if (row.state == "live" or (row.verbatim and row.state == "superseded"))
            and (row.expires_on is None or str(row.expires_on) >= today)
        ]

    def shows(self, row: CandidateRow) -> bool:
        """Whether *row* (not deleted) may be seen. A verbatim memory is never hidden for being superseded."""
        if not self.show_expired and (
            row.state == "expired" or (row.expires_on is not None and str(row.expires_on) < self.today.isoformat())
        ):
            return False
        if self.as_of is not None and row.valid_from > self.as_of:
            return False
        return self.include_superseded or bool(row.verbatim) or not self.is_past(row)

    def is_past(self, row: CandidateRow) -> bool:
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


def month_of(occurred_at: datetime | str) -> tuple[int, int]:
    """Year and month (UTC) of a row's `occurred_at`."""
    if isinstance(occurred_at, str):
        return int(occurred_at[:4]), int(occurred_at[5:7])
    utc = occurred_at.astimezone(UTC)
    return utc.year, utc.month


def candidates_by_id(connection: Connection, namespace: str, ids: Sequence[str], reading: Reading) -> list[CandidateRow]:
    """The rows behind *ids* that are not deleted."""
    return _where(connection, namespace, "id", ids, reading)


def candidates_by_no(connection: Connection, namespace: str, nos: Sequence[int], reading: Reading) -> list[CandidateRow]:
    """The rows behind ledger numbers that are not deleted."""
    return _where(connection, namespace, "no", nos, reading)


def candidates_between(
    connection: Connection, ranges: Mapping[str, Iterable[tuple[int, int]]], reading: Reading, *, limit: int
) -> list[CandidateRow]:
    """Rows, not deleted, whose lane and place lie in *ranges* (lane -> first and last places), in the order of lane, place, ordinal.

    One statement, whatever the number of lanes.
    """
    flat = [[lane, low, high] for lane, spans in ranges.items() for low, high in spans]
    if not flat:
        return []
    if connection.dialect.name == "sqlite":
        given: dict[str, Any] = {"spans": json.dumps(flat)}
    else:
        given = dict(zip(("lanes", "lows", "highs"), map(list, zip(*flat, strict=True)), strict=True))
    statement = _between(connection.dialect.name, _form(connection, reading), reading.filtered)
    return list(connection.execute(statement, given | {"most": limit}).all())


def filter_rows(connection: Connection, namespace: str, scopes: Sequence[ScopeIds], reading: Reading, *, limit: int) -> list[CandidateRow]:
    """Rows in *scopes*, not deleted, newest first."""
    query = (
        sa.select(*_columns(_form(connection, reading), filtered=reading.filtered, ids=True))
        .where(within(namespace, scopes), memories.c.state != "deleted")
        .order_by(memories.c.no.desc())
        .limit(limit)
    )
    return list(connection.execute(query).all())


def texts_of(connection: Connection, nos: Sequence[int], *, most: int) -> dict[int, str]:
    """The first *most* characters of memories, by ledger number."""
    found: dict[int, str] = {}
    for start in range(0, len(nos), _CHUNK):
        read = connection.execute(_TEXTS, {"nos": nos[start : start + _CHUNK], "most": most}).all()
        found |= {no: text for no, text in read}
    return found


_TEXTS = sa.select(memories.c.no, sa.func.substr(memories.c.text, 1, sa.bindparam("most", type_=sa.Integer))).where(
    memories.c.no.in_(sa.bindparam("nos", expanding=True))
)


def _form(connection: Connection, reading: Reading) -> str:
    """Whether dates and times are fetched as they lie there ("plain") or as Python's ("typed")."""
    return "typed" if reading.filtered or reading.as_of is not None or connection.dialect.name != "sqlite" else "plain"


def _columns(form: str, *, filtered: bool, ids: bool) -> list[sa.ColumnElement[Any]]:
    names = _NAMES + (_TYPED if form == "typed" else ()) + (_FILTERED if filtered else ()) + (_IDS if ids or filtered else ())
    return [*(memories.c[name] for name in names), _TAIL, *(_PLAIN if form == "plain" else ())]


# Statements are made once: to make one takes longer than to run it.


@cache
def _by(column: str, form: str, filtered: bool) -> sa.Select[Any]:
    return sa.select(*_columns(form, filtered=filtered, ids=True)).where(memories.c[column].in_(sa.bindparam("wanted", expanding=True)))


@cache
def _between(dialect: str, form: str, filtered: bool) -> sa.Select[Any]:
    if dialect == "sqlite":
        each = sa.func.json_each(sa.bindparam("spans", type_=sa.Text)).table_valued("value", name="span")
        bounds: list[sa.ColumnElement[Any]] = [sa.func.json_extract(each.c.value, f"$[{index}]") for index in range(3)]
    else:
        from sqlalchemy.dialects.postgresql import ARRAY

        arrays: list[sa.ColumnElement[Any]] = [
            sa.cast(sa.bindparam(name), ARRAY(type_))
            for name, type_ in (("lanes", sa.Text), ("lows", sa.BigInteger), ("highs", sa.BigInteger))
        ]
        each = sa.func.unnest(*arrays).table_valued("lane", "low", "high", name="span").render_derived()
        bounds = [each.c.lane, each.c.low, each.c.high]
    lane, low, high = bounds
    return (
        sa.select(*_columns(form, filtered=filtered, ids=False))
        .select_from(each.join(memories, sa.and_(memories.c.lane == lane, memories.c.place.between(low, high))))
        .where(memories.c.state != "deleted")
        .order_by(memories.c.lane, memories.c.place, memories.c.ordinal)
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


def _where(connection: Connection, namespace: str, column: str, wanted: Sequence[Any], reading: Reading) -> list[CandidateRow]:
    found: list[CandidateRow] = []
    statement = _by(column, _form(connection, reading), reading.filtered)
    for start in range(0, len(wanted), _CHUNK):
        read = connection.execute(statement, {"wanted": list(wanted[start : start + _CHUNK])}).all()
        # asked of the rows and not of the database, whose planner would walk the namespace rather than look up the ids
        found += [row for row in read if row.namespace == namespace and row.state != "deleted"]
    return found
