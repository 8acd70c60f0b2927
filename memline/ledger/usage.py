"""What calls of models used: added up by day, namespace, kind of call and model, and, as long as its replies are kept, by job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from memline.contracts.errors import InvalidInput
from memline.ledger.results import insert_new, open_jobs
from memline.ledger.schema import jobs, stage_results, usage

__all__ = ["GROUPS", "Used", "add_usage", "answered_since", "keep_usage_of_jobs", "usage_by", "usage_of_job"]

#: What `usage_by` groups by.
GROUPS = ("namespace", "day", "model", "call")

_SUMS = ("calls", "repeated", "tokens_in", "tokens_cached", "tokens_out", "nanodollars", "unpriced")
#: The name under which a job's own usage lies among its results.
_OF_JOB = "usage"
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Used:
    """What calls of one kind to one model used in a namespace. `tokens_cached` is a part of `tokens_in`; `unpriced`: calls of unknown
    price.
    """

    namespace: str
    call: str
    model: str
    calls: int
    repeated: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    nanodollars: int
    unpriced: int
    #: Kept by job alone: also who bears a part of a call, and not the call itself, knows whether its price is known.
    priced: bool = True


def add_usage(tx: Connection, found: Sequence[Used], *, now: datetime) -> None:
    """Adds to the rows of the day of *now*. To be called last in a transaction: many write the same rows."""
    ordered = sorted(found, key=lambda each: (each.namespace, each.call, each.model))
    # a row that only counts repetitions tells of no answer
    rows = [{"day": now.date(), "last_at": now if used.calls else _NEVER, **_columns(used)} for used in ordered]
    if rows:
        tx.execute(_adding(tx.dialect.name), rows)


def answered_since(connection: Connection, call: str, since: datetime) -> bool:
    """Whether a call of this kind was answered after *since*, whoever made it."""
    query = sa.select(sa.literal(1)).where(usage.c.day >= since.date(), usage.c.call == call, usage.c.last_at > since)
    return connection.execute(query.limit(1)).one_or_none() is not None


def keep_usage_of_jobs(tx: Connection, used: Mapping[str, Sequence[Used]], *, now: datetime) -> None:
    """Keeps what calls of jobs used (by job id), beside the earlier ones; it goes with their replies. A cancelled job keeps none."""
    ids = [job_id for job_id, some in used.items() if some]
    if not ids:
        return
    rows: list[dict[str, Any]] = []
    for job_id, number in tx.execute(_EARLIER, {"ids": ids}):
        body = json.dumps([_columns(each) | ({} if each.priced else {"priced": False}) for each in used[job_id]], ensure_ascii=False)
        rows.append({"job_id": job_id, "stage": _OF_JOB, "ask": number, "body": body, "stored_at": now})
    while rows:
        # a worker whose lease ran out may keep what its call used at the same time: both are kept, one after the other
        kept = insert_new(tx, rows)
        rows = [row | {"ask": row["ask"] + 1} for row in rows if row["job_id"] not in kept]


def usage_of_job(connection: Connection, job_id: str) -> list[dict[str, Any]]:
    """What the calls of a job used, by kind and model; empty where it made none, or where they are no longer kept.

    Of several jobs asked in one call the first has the call, all have their part of the tokens; `priced`: the price of all of it is known.
    """
    query = sa.select(stage_results.c.body).where(stage_results.c.job_id == job_id, stage_results.c.stage == _OF_JOB)
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    bodies = connection.execute(query.order_by(stage_results.c.ask)).scalars()
    for raw in (each for body in bodies for each in json.loads(body)):
        nothing = {"call": raw["call"], "model": raw["model"], **dict.fromkeys(_SUMS, 0), "priced": True}
        row = sums.setdefault((raw["call"], raw["model"]), nothing)
        row["priced"] &= raw.get("priced", True)
        for name in _SUMS:
            row[name] += raw[name]
    return list(sums.values())


def usage_by(connection: Connection, by: Sequence[str], *, since: date | None = None, namespace: str | None = None) -> list[dict[str, Any]]:
    """Sums by some of `GROUPS` (a row a combination, in their order); *since*: from this day (UTC) on; *namespace*: of this one alone."""
    if unknown := [name for name in by if name not in GROUPS]:
        raise InvalidInput(f"Costs can be grouped by {', '.join(GROUPS)}, not by {', '.join(unknown)}.")
    columns = [usage.c[name] for name in by]
    query = sa.select(*columns, *(sa.func.coalesce(sa.func.sum(usage.c[name]), 0).label(name) for name in _SUMS)).group_by(*columns)
    if since is not None:
        query = query.where(usage.c.day >= since)
    if namespace is not None:
        query = query.where(usage.c.namespace == namespace)
    rows = connection.execute(query.order_by(*columns)).mappings()
    return [{name: int(value) if name in _SUMS else value for name, value in row.items()} for row in rows]


def _columns(used: Used) -> dict[str, Any]:
    return {name: getattr(used, name) for name in ("namespace", "call", "model", *_SUMS)}


# built once: these run for every call
_EARLIER = open_jobs(
    jobs.c.id,
    sa.select(sa.func.count()).where(stage_results.c.job_id == jobs.c.id, stage_results.c.stage == _OF_JOB).scalar_subquery().label("n"),
)


@cache
def _adding(dialect: str) -> Any:
    statement = (postgresql if dialect == "postgresql" else sqlite).insert(usage)
    sums = {name: usage.c[name] + statement.excluded[name] for name in _SUMS}
    later = sa.case((statement.excluded.last_at > usage.c.last_at, statement.excluded.last_at), else_=usage.c.last_at)
    return statement.on_conflict_do_update(index_elements=["day", "namespace", "call", "model"], set_={**sums, "last_at": later})
