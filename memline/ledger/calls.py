"""Calls of a job that are under way, and its provider's outages: notes in the ledger that outlive the process which made the call.

A call is noted before it is made and the note goes in the transaction that stores the answer. A note that is still there when the call is
made again means that an answer, which may have been paid, was lost: that is counted (G10). The notes lie among the job's results, so they
go wherever those go, with erase and by age; they hold no text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.counters import count
from memline.ledger.results import keep_replies
from memline.ledger.schema import stage_results

__all__ = ["begin_calls", "drop_calls", "last_outages", "note_outage"]

_UNDER_WAY, _OUTAGE = "call:", "outage:"


def begin_calls(tx: Connection, call: str, job_ids: Sequence[str], *, now: datetime) -> int:
    """Notes that a *call* of these jobs is about to be made; how many of them made one before whose answer was lost (counted)."""
    repeated = len(_noted(tx, _UNDER_WAY + call, job_ids))
    keep_replies(tx, _UNDER_WAY + call, {job_id: (0, "") for job_id in job_ids}, now=now)
    count(tx, "repeated_calls", repeated)
    return repeated


def drop_calls(tx: Connection, call: str, job_ids: Sequence[str]) -> None:
    """The calls have ended, with an answer that is stored or without one that could be lost."""
    _drop(tx, _UNDER_WAY + call, job_ids)


def note_outage(tx: Connection, call: str, job_ids: Sequence[str], *, now: datetime) -> None:
    """Remembers when a call of these jobs last met an outage."""
    _drop(tx, _OUTAGE + call, job_ids)
    keep_replies(tx, _OUTAGE + call, {job_id: (0, "") for job_id in job_ids}, now=now)


def last_outages(connection: Connection, call: str, job_ids: Sequence[str]) -> Mapping[str, datetime]:
    """When a call of each job last met an outage; only those that met one."""
    return _noted(connection, _OUTAGE + call, job_ids)


def _noted(connection: Connection, stage: str, job_ids: Sequence[str]) -> dict[str, datetime]:
    table = stage_results.c
    query = sa.select(table.job_id, table.stored_at).where(table.stage == stage, table.job_id.in_(list(job_ids)))
    return {row.job_id: row.stored_at for row in connection.execute(query)}


def _drop(tx: Connection, stage: str, job_ids: Sequence[str]) -> None:
    tx.execute(sa.delete(stage_results).where(stage_results.c.stage == stage, stage_results.c.job_id.in_(list(job_ids))))
