"""What stages leave for a job: raw replies by the number of the ask, and what was made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from memline.contracts.receipt import Status
from memline.ledger.schema import jobs, stage_results
from memline.ledger.session import insert

__all__ = [
    "FACTS",
    "NOTES",
    "hold_jobs",
    "insert_new",
    "keep_replies",
    "keep_results",
    "load_replies",
    "load_results",
    "open_jobs",
    "store_replies",
    "store_results",
]

#: Name of the results that hold a job's facts, in the order of its outcome.
FACTS = "facts"

#: Name of those that hold what else its receipt tells: counts, and the ids of memories.
NOTES = "notes"


def keep_replies(tx: Connection, stage: str, replies: Mapping[str, tuple[int, str]], *, now: datetime) -> None:
    """`store_replies` for who holds no lock on the jobs: a job that was cancelled meanwhile keeps nothing of what was said."""
    there = set(tx.execute(_THERE, {"ids": list(replies)}).scalars())
    store_replies(tx, stage, {job_id: reply for job_id, reply in replies.items() if job_id in there}, now=now)


def hold_jobs(tx: Connection, job_ids: Sequence[str]) -> None:
    """For who writes results of several jobs in several steps and holds no lock on them: keeps all of them from being erased, locked in the
    order in which everybody locks jobs. To be called first in the transaction.
    """
    if job_ids and tx.dialect.name != "sqlite":
        tx.execute(_THERE, {"ids": list(job_ids)}).all()


def open_jobs(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """A query of *columns* over the jobs of the parameter `ids` that were not cancelled; it keeps them from being erased until the
    transaction ends.
    """
    mine = jobs.c.id.in_(sa.bindparam("ids", expanding=True))
    return sa.select(*columns).where(mine, jobs.c.state != Status.CANCELLED.value).order_by(jobs.c.no).with_for_update(read=True)


def store_replies(tx: Connection, stage: str, replies: Mapping[str, tuple[int, str]], *, now: datetime) -> None:
    """Keeps raw replies (job id -> number of the ask, reply). The first one stored under a number stands."""
    rows = [{"job_id": job_id, "stage": stage, "ask": ask, "body": body, "stored_at": now} for job_id, (ask, body) in replies.items()]
    if rows:
        tx.execute(insert(tx, stage_results).on_conflict_do_nothing(), rows)


def insert_new(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Inserts the *rows* (one a job, in the order of the jobs) whose place is free; ids of their jobs.

    For a place that another transaction is about to take it waits until that one has ended.
    """
    return set(tx.execute(_inserting(tx.dialect.name), rows).scalars())


def load_replies(connection: Connection, stage: str, job_ids: Sequence[str]) -> dict[str, list[str]]:
    """The replies of each job at *stage*, in the order of the asks."""
    table = stage_results.c
    query = sa.select(table.job_id, table.body).where(table.stage == stage, table.job_id.in_(list(job_ids))).order_by(table.ask)
    found: dict[str, list[str]] = {}
    for job_id, body in connection.execute(query):
        found.setdefault(job_id, []).append(body)
    return found


def store_results(tx: Connection, stage: str, results: Mapping[str, Any], *, now: datetime) -> None:
    """Keeps one JSON value a job for the stages that follow."""
    store_replies(tx, stage, {job_id: (0, json.dumps(value, ensure_ascii=False)) for job_id, value in results.items()}, now=now)


def keep_results(tx: Connection, stage: str, results: Mapping[str, Any], *, now: datetime) -> None:
    """`store_results`, as `keep_replies` does it."""
    keep_replies(tx, stage, {job_id: (0, json.dumps(value, ensure_ascii=False)) for job_id, value in results.items()}, now=now)


def load_results(connection: Connection, stage: str, job_ids: Sequence[str]) -> dict[str, Any]:
    """What `store_results` kept."""
    return {job_id: json.loads(bodies[0]) for job_id, bodies in load_replies(connection, stage, job_ids).items()}


_THERE = open_jobs(jobs.c.id)


@cache
def _inserting(dialect: str) -> Any:
    """Built once: it runs for every call."""
    statement = (postgresql if dialect == "postgresql" else sqlite).insert(stage_results)
    return statement.on_conflict_do_nothing().returning(stage_results.c.job_id)
