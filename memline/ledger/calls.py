"""Calls of a job that are under way, and its provider's outages: notes in the ledger that outlive the process which made the call.

A call is noted before it is made and the note goes in the transaction that stores the answer. A note that is still there when the call is
made again means that an answer, which may have been paid, was lost: that is counted (G10). The notes lie among the job's results, so they
go wherever those go, with erase and by age; they hold no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.counters import count
from memline.ledger.results import insert_new, keep_replies, open_jobs
from memline.ledger.schema import jobs, stage_results

__all__ = ["Outages", "begin_calls", "drop_calls", "note_outage"]

_UNDER_WAY, _OUTAGE = "call:", "outage:"


@dataclass(frozen=True, slots=True)
class Outages:
    """How many outages a job's calls met since one was answered, and when the last was."""

    number: int
    last_at: datetime


def begin_calls(tx: Connection, call: str, job_ids: Sequence[str], *, now: datetime) -> int:
    """Notes that a *call* of these jobs is about to be made; how many of them made one before whose answer was lost (counted)."""
    stage = _UNDER_WAY + call
    found = tx.execute(_NOTED, {"ids": list(job_ids), "stage": stage}).all()
    rows = [{"job_id": row.id, "stage": stage, "ask": 0, "body": "", "stored_at": now} for row in found if not row.noted]
    new: set[str] = set()
    if rows:
        # a worker whose lease ran out may note the same call at the same time: the later of the two repeats it
        new = insert_new(tx, rows)
    repeated = sum(1 for row in found if row.id not in new)
    count(tx, "repeated_calls", repeated)
    return repeated


def drop_calls(tx: Connection, call: str, job_ids: Sequence[str], *, answered: Sequence[str] = ()) -> None:
    """The calls have ended without an answer that could be lost. *answered*: jobs whose answers are stored, their outages forgotten."""
    if set(answered) == set(job_ids):
        _drop(tx, [_UNDER_WAY + call, _OUTAGE + call], job_ids)
        return
    _drop(tx, [_UNDER_WAY + call], job_ids)
    _drop(tx, [_OUTAGE + call], answered)


def note_outage(tx: Connection, call: str, job_id: str, *, now: datetime) -> Outages | None:
    """Remembers that a call of a job met an outage, and returns what was remembered before; None: it is the first since an answer."""
    stage = _OUTAGE + call
    query = sa.select(stage_results.c.body, stage_results.c.stored_at).where(
        stage_results.c.stage == stage, stage_results.c.job_id == job_id
    )
    row = tx.execute(query).one_or_none()
    before = None if row is None else Outages(int(row.body), row.stored_at)
    _drop(tx, [stage], [job_id])
    keep_replies(tx, stage, {job_id: (0, str(1 if before is None else before.number + 1))}, now=now)
    return before


def _drop(tx: Connection, stages: Sequence[str], job_ids: Sequence[str]) -> None:
    if job_ids:
        tx.execute(_DROP, {"stages": list(stages), "ids": list(job_ids)})


# built once: these run for every call
_NOTED = open_jobs(
    jobs.c.id, sa.exists().where(stage_results.c.job_id == jobs.c.id, stage_results.c.stage == sa.bindparam("stage")).label("noted")
)
_DROP = sa.delete(stage_results).where(
    stage_results.c.stage.in_(sa.bindparam("stages", expanding=True)), stage_results.c.job_id.in_(sa.bindparam("ids", expanding=True))
)
