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
from memline.ledger.results import keep_replies
from memline.ledger.schema import stage_results

__all__ = ["Outages", "answered_calls", "begin_calls", "drop_calls", "note_outage"]

_UNDER_WAY, _OUTAGE = "call:", "outage:"


@dataclass(frozen=True, slots=True)
class Outages:
    """How many outages a job's calls met since one was answered, and when the last was."""

    number: int
    last_at: datetime


def begin_calls(tx: Connection, call: str, job_ids: Sequence[str], *, now: datetime) -> int:
    """Notes that a *call* of these jobs is about to be made; how many of them made one before whose answer was lost (counted)."""
    repeated = len(_noted(tx, _UNDER_WAY + call, job_ids))
    keep_replies(tx, _UNDER_WAY + call, {job_id: (0, "") for job_id in job_ids}, now=now)
    count(tx, "repeated_calls", repeated)
    return repeated


def drop_calls(tx: Connection, call: str, job_ids: Sequence[str]) -> None:
    """The calls have ended without an answer that could be lost."""
    _drop(tx, _UNDER_WAY + call, job_ids)


def answered_calls(tx: Connection, call: str, job_ids: Sequence[str]) -> None:
    """`drop_calls`, and the outages that they met before are forgotten: the answers are stored."""
    _drop(tx, _UNDER_WAY + call, job_ids)
    _drop(tx, _OUTAGE + call, job_ids)


def note_outage(tx: Connection, call: str, job_id: str, *, now: datetime) -> Outages | None:
    """Remembers that a call of a job met an outage, and returns what was remembered before; None: it is the first since an answer."""
    stage = _OUTAGE + call
    query = sa.select(stage_results.c.body, stage_results.c.stored_at).where(
        stage_results.c.stage == stage, stage_results.c.job_id == job_id
    )
    row = tx.execute(query).one_or_none()
    before = None if row is None else Outages(int(row.body), row.stored_at)
    _drop(tx, stage, [job_id])
    keep_replies(tx, stage, {job_id: (0, str(1 if before is None else before.number + 1))}, now=now)
    return before


def _noted(connection: Connection, stage: str, job_ids: Sequence[str]) -> Sequence[str]:
    table = stage_results.c
    return connection.execute(sa.select(table.job_id).where(table.stage == stage, table.job_id.in_(list(job_ids)))).scalars().all()


def _drop(tx: Connection, stage: str, job_ids: Sequence[str]) -> None:
    tx.execute(sa.delete(stage_results).where(stage_results.c.stage == stage, stage_results.c.job_id.in_(list(job_ids))))
