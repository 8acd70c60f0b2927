"""Rows of the ledger as a search sees them: what may be read, what a filter is asked about, what a candidate is scored by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from itertools import starmap
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.ledger.lists import in_list, table_of, tuples, with_table
from memline.ledger.memories import MemoryRow, within
from memline.ledger.schema import memories

__all__ = [
    "CandidateRow",
    "Reading",
    "candidate_columns",
    "candidates_between",
    "candidates_by_id",
    "columns_of",
    "date_of",
    "fetched",
    "filter_rows",
    "filter_view",
    "texts_of",
]

_TAIL = sa.func.substr(memories.c.text, sa.func.length(memories.c.text) - 7).label("tail")

#: Ids and numbers a statement; both databases take more.
_CHUNK = 5_000


class CandidateRow(NamedTuple):
    """A memory in the columns that a candidate is scored by: a tenth of the work of a `MemoryRow`, which only results become.

    Dates, times and booleans are as the driver gives them where nobody needs them converted (`Reading.plain`): SQLite's are text that
    sorts by time, and 0 or 1. A row that a filter is asked about, or that is read as of a time, has Python's, and what is asked about.
    """

    no: int
    id: str
    lane: str
    owner_no: int
    place: int
    ordinal: int
    state: str
    version: int
    content_hash: str
    #: Its terms.
    length: int
    actor_id: str | None
    superseded_by: str | None
    role: str | None
    #: The last characters of the text.
    tail: str
    verbatim: Any
    expires_on: Any
    occurred_at: Any
    # None in a plain neighbour, whose lane says whose it is
    namespace: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    # None in a plain row
    valid_from: Any = None
    valid_to: Any = None
    # None in a row that no filter is asked about
    metadata: dict[str, Any] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    attributed_to: str | None = None
    memory_type: str | None = None


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

    @property
    def plain(self) -> bool:
        """Nobody asks for more than scores need: rows are fetched as they lie there."""
        return not self.filtered and self.as_of is None

    @property
    def looks_at_expired(self) -> bool:
        """Some of what was marked as expired may be seen."""
        return self.show_expired or self.as_of is not None

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
            (row.state == "expired" and self.as_of is None)  # then it is past its day, too, but no date has to be compared for that
            or (row.expires_on is not None and str(row.expires_on) < self.today.isoformat())
        ):
            return False
        if self.as_of is not None and row.valid_from > self.as_of:
            return False
        return self.include_superseded or bool(row.verbatim) or not self.is_past(row)

    def is_past(self, row: CandidateRow | MemoryRow) -> bool:
        """A newer memory had taken *row*'s place at the time that is asked about."""
        if self.as_of is not None:
            return row.valid_to is not None and bool(row.valid_to <= self.as_of)
        return bool(row.state == "superseded")


def filter_view(row: CandidateRow | MemoryRow | sa.Row[*tuple[Any, ...]]) -> dict[str, Any]:
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


def date_of(occurred_at: datetime | str) -> date:
    """The day (UTC) of a row's `occurred_at`."""
    return date.fromisoformat(occurred_at[:10]) if isinstance(occurred_at, str) else occurred_at.astimezone(UTC).date()


def candidates_by_id(
    connection: Connection, namespace: str, ids: Sequence[str], reading: Reading, *, nos: Sequence[int] = ()
) -> list[CandidateRow]:
    """The rows behind *ids*, and behind ledger numbers, that are not deleted; one statement for each 5,000 of either."""
    found: list[CandidateRow] = []
    statement = _by(connection.dialect.name, reading.plain, reading.filtered)
    for start in range(0, max(len(ids), len(nos)), _CHUNK):
        given = {"ids": list(ids[start : start + _CHUNK]), "nos": list(nos[start : start + _CHUNK])}
        # asked of the rows and not of the database, whose planner would walk the namespace rather than look up the ids
        found += [
            row
            for row in _candidates(connection.execute(statement, given), reading)
            if row.namespace == namespace and row.state != "deleted"
        ]
    return found


def candidates_between(
    connection: Connection, ranges: Mapping[str, Iterable[tuple[int, int]]], reading: Reading, *, limit: int
) -> list[CandidateRow]:
    """Rows, not deleted, whose lane and place lie in *ranges* (lane -> first and last places), in the order of lane, place, ordinal.

    One statement, whatever the number of lanes.
    """
    spans = [(lane, low, high) for lane, spans in ranges.items() for low, high in spans]
    if not spans:
        return []
    dialect = connection.dialect.name
    given = with_table(dialect, "spans", ("lane", "low", "high"), spans) | {"most": limit}
    return _candidates(connection.execute(_between(dialect, reading.plain, reading.filtered), given), reading)


def filter_rows(connection: Connection, namespace: str, scopes: Sequence[ScopeIds], reading: Reading, *, limit: int) -> list[CandidateRow]:
    """Rows in *scopes*, not deleted, newest first."""
    query = (
        sa.select(*candidate_columns(reading.plain, filtered=reading.filtered))
        .where(within(namespace, scopes), memories.c.state != "deleted")
        .order_by(memories.c.no.desc())
        .limit(limit)
    )
    return _candidates(connection.execute(query), reading)


def texts_of(connection: Connection, nos: Sequence[int], *, most: int) -> dict[int, str]:
    """The first *most* characters of memories, by ledger number."""
    statement, found = _texts(connection.dialect.name), dict[int, str]()
    for start in range(0, len(nos), _CHUNK):
        found |= dict(tuples(connection.execute(statement, {"nos": list(nos[start : start + _CHUNK]), "most": most})))
    return found


def columns_of(rows: Sequence[CandidateRow]) -> Any:
    """*rows* column by column: under each name what they have there, in order."""
    return CandidateRow._make(zip(*rows, strict=True) if rows else [()] * len(CandidateRow._fields))


def candidate_columns(plain: bool, *, filtered: bool, ids: bool = True) -> list[sa.ColumnElement[Any]]:
    """The first columns of a `CandidateRow`, as many as are asked for."""
    last = "memory_type" if filtered else "valid_to" if not plain else "run_id" if ids else "occurred_at"
    names = CandidateRow._fields[: CandidateRow._fields.index(last) + 1]
    return [_TAIL if name == "tail" else memories.c[name] for name in names]


def fetched(result: sa.CursorResult[Any], reading: Reading) -> Sequence[Sequence[Any]]:
    """Rows of `candidate_columns`, and of what is selected with them."""
    return tuples(result) if reading.plain else result.all()


def _candidates(result: sa.CursorResult[Any], reading: Reading) -> list[CandidateRow]:
    return list(starmap(CandidateRow, fetched(result, reading)))


# Statements are made once: to make one takes longer than to run it.


@cache
def _by(dialect: str, plain: bool, filtered: bool) -> sa.Select[Any]:
    wanted = sa.or_(in_list(dialect, memories.c.id, "ids"), in_list(dialect, memories.c.no, "nos"))
    return sa.select(*candidate_columns(plain, filtered=filtered)).where(wanted)


@cache
def _between(dialect: str, plain: bool, filtered: bool) -> sa.Select[Any]:
    each, (lane, low, high) = table_of(dialect, "spans", lane=sa.Text(), low=sa.BigInteger(), high=sa.BigInteger())
    columns = candidate_columns(plain, filtered=filtered, ids=not plain)
    inside, most = sa.and_(memories.c.lane == lane, memories.c.place.between(low, high)), sa.bindparam("most", type_=sa.Integer)
    if dialect == "sqlite":
        near: sa.FromClause = memories
        query = sa.select(*columns).select_from(each.join(memories, inside)).where(memories.c.state != "deleted")
    else:  # one look into the index for each span: left to itself the planner reads the table once it knows that one lane is much of it
        near = sa.select(*columns).where(inside, memories.c.state != "deleted").limit(most).lateral("near")
        query = sa.select(*near.c).select_from(each.join(near, sa.true()))
    return query.order_by(near.c.lane, near.c.place, near.c.ordinal).limit(most)


@cache
def _texts(dialect: str) -> sa.Select[Any]:
    start = sa.func.substr(memories.c.text, 1, sa.bindparam("most", type_=sa.Integer))
    return sa.select(memories.c.no, start).where(in_list(dialect, memories.c.no, "nos"))
