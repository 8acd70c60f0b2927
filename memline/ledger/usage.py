"""What calls of models used: added up by day, namespace, kind of call and model, and, as long as its replies are kept, by job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import InvalidInput
from memline.ledger.results import keep_replies
from memline.ledger.schema import stage_results, usage
from memline.ledger.session import insert

__all__ = ["GROUPS", "Used", "add_usage", "answered_since", "keep_usage_of_job", "usage_by", "usage_of_job"]

#: What `usage_by` groups by.
GROUPS = ("namespace", "day", "model", "call")

_SUMS = ("calls", "repeated", "tokens_in", "tokens_cached", "tokens_out", "nanodollars", "unpriced")
#: Before the kind of a call: the name under which a job's own usage lies among its results.
_OF_JOB = "usage:"


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


def add_usage(tx: Connection, found: Sequence[Used], *, now: datetime) -> None:
    """Adds to the rows of the day of *now*. To be called last in a transaction: many write the same rows."""
    for used in sorted(found, key=lambda each: (each.namespace, each.call, each.model)):
        statement = insert(tx, usage).values(day=now.date(), last_at=now, **asdict(used))
        sums = {name: usage.c[name] + statement.excluded[name] for name in _SUMS}
        tx.execute(
            statement.on_conflict_do_update(
                index_elements=["day", "namespace", "call", "model"], set_={**sums, "last_at": statement.excluded.last_at}
            )
        )


def answered_since(connection: Connection, call: str, since: datetime) -> bool:
    """Whether a call of this kind was answered after *since*, whoever made it."""
    query = sa.select(sa.literal(1)).where(usage.c.day >= since.date(), usage.c.call == call, usage.c.last_at > since)
    return connection.execute(query.limit(1)).one_or_none() is not None


def keep_usage_of_job(tx: Connection, job_id: str, used: Sequence[Used], *, now: datetime) -> None:
    """Keeps what a job's own calls used, each beside the earlier ones; it goes with the job's replies."""
    for each in used:
        stage = _OF_JOB + each.call
        rows = sa.select(sa.func.count()).select_from(stage_results).where(stage_results.c.job_id == job_id, stage_results.c.stage == stage)
        body = json.dumps(asdict(each), ensure_ascii=False)
        keep_replies(tx, stage, {job_id: (tx.execute(rows).scalar_one(), body)}, now=now)


def usage_of_job(connection: Connection, job_id: str) -> list[dict[str, Any]]:
    """What the calls of a job used, by kind and model; empty where it made none, or where they are no longer kept."""
    query = sa.select(stage_results.c.body).where(stage_results.c.job_id == job_id, stage_results.c.stage.startswith(_OF_JOB))
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for body in connection.execute(query.order_by(stage_results.c.stage, stage_results.c.ask)).scalars():
        raw = json.loads(body)
        row = sums.setdefault((raw["call"], raw["model"]), {"call": raw["call"], "model": raw["model"], **dict.fromkeys(_SUMS, 0)})
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
