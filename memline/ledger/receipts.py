"""What became of a turn, as the ledger knows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.contracts.receipt import Event, ReceiptState, Status
from memline.ledger.bounds import bounded
from memline.ledger.counters import count
from memline.ledger.schema import erased_turns, jobs, lanes, lost_turns, memories, repeats
from memline.ledger.session import insert
from memline.ledger.tombstones import REASON

__all__ = ["note_lost", "receipt_state"]


def receipt_state(
    connection: Connection, turn_id: str, *, namespace: str | None = None, within: ScopeIds | None = None
) -> ReceiptState | None:
    """The state of a turn; None where the ledger has not seen it, it belongs to another namespace, or lies outside *within*."""
    repeat = connection.execute(sa.select(repeats.c.job_id, repeats.c.conflict).where(repeats.c.turn_id == turn_id)).one_or_none()
    job_id = turn_id if repeat is None else repeat.job_id
    columns = (jobs.c.id, jobs.c.state, jobs.c.stage, jobs.c.outcome, jobs.c.reason, jobs.c.finished_at, jobs.c.masked, jobs.c.notes)
    query = sa.select(*columns).where(jobs.c.id == job_id)
    if namespace is not None:
        query = query.where(jobs.c.namespace == namespace)
    if within is not None:
        query = query.where(jobs.c.lane.in_(sa.select(lanes.c.key).where(*bounded(lanes, within))))
    job = connection.execute(query).one_or_none()
    if job is None:
        # of an erased turn nobody knows any more whose it was
        return _of_erased(connection, turn_id, namespace) if within is None else None
    if repeat is not None and repeat.conflict:
        reason = f"Its idempotency key was used before, by {job_id}, for another content."
        return ReceiptState(turn_id, Status.CONFLICT, reason=reason, same_as=job_id, finished=True)
    notes = dict(job.notes or {})
    return ReceiptState(
        id=turn_id,
        status=Status(job.state),
        results=tuple(_results(connection, job.outcome or [], notes.pop("near", {}))),
        reason=job.reason,
        same_as=None if repeat is None else job_id,
        stage=job.stage,
        finished=job.finished_at is not None,
        masked=job.masked or {},
        notes=notes,
    )


def note_lost(tx: Connection, turn_id: str, *, now: datetime) -> None:
    """Records, and counts once, that a turn was asked for after `order_wait` and found nowhere; not one that another namespace has."""
    if any(tx.execute(sa.select(column).where(column == turn_id)).first() for column in (jobs.c.id, repeats.c.turn_id)):
        return
    noting = insert(tx, lost_turns).values(turn_id=turn_id, noted_at=now).on_conflict_do_nothing(index_elements=["turn_id"])
    count(tx, "lost_turns", len(tx.execute(noting.returning(lost_turns.c.turn_id)).all()))


def _of_erased(connection: Connection, turn_id: str, namespace: str | None) -> ReceiptState | None:
    """Of a turn whose subject was erased there is its id and its state."""
    query = sa.select(erased_turns.c.state).where(erased_turns.c.turn_id == turn_id)
    if namespace is not None:
        query = query.where(erased_turns.c.namespace == namespace)
    state = connection.execute(query).scalar_one_or_none()
    return None if state is None else ReceiptState(turn_id, Status(state), reason=REASON, finished=True)


def _results(connection: Connection, outcome: list[list[str]], near: Mapping[str, list[list[Any]]]) -> list[dict[str, Any]]:
    # The outcome keeps ids only: a text that is deleted later is not shown by an old receipt.
    ids = [memory_id for memory_id, _ in outcome] + [memory_id for ones in near.values() for memory_id, _ in ones]
    columns = (memories.c.id, memories.c.text, memories.c.state, memories.c.role, memories.c.actor_id)
    rows = {row.id: row for row in connection.execute(sa.select(*columns).where(memories.c.id.in_(ids)))}
    results = []
    for number, (memory_id, event) in enumerate(outcome):
        row = rows.get(memory_id)
        text = None if row is None or row.state == "deleted" else row.text
        result = {"id": memory_id, "memory": text, "event": Event(event).value}
        if row is not None and text is not None and row.role is not None:  # verbatim: mem0 says here who said it
            result |= {"actor_id": row.actor_id, "role": row.role}
        close = [{"id": other, "similarity": value} for other, value in near.get(str(number), ()) if other in rows]
        results.append(result | {"near": close} if close else result)
    return results
