"""What became of a turn, as the ledger knows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.receipt import Event, ReceiptState, Status
from memline.ledger.counters import count
from memline.ledger.schema import erased_turns, jobs, lost_turns, memories, repeats
from memline.ledger.session import insert
from memline.ledger.tombstones import REASON

__all__ = ["note_lost", "receipt_state"]


def receipt_state(connection: Connection, turn_id: str, *, namespace: str | None = None) -> ReceiptState | None:
    """The state of a turn; None where the ledger has not seen it (or it belongs to another namespace)."""
    repeat = connection.execute(sa.select(repeats.c.job_id, repeats.c.conflict).where(repeats.c.turn_id == turn_id)).one_or_none()
    job_id = turn_id if repeat is None else repeat.job_id
    query = sa.select(jobs.c.id, jobs.c.state, jobs.c.stage, jobs.c.outcome, jobs.c.reason, jobs.c.finished_at).where(jobs.c.id == job_id)
    if namespace is not None:
        query = query.where(jobs.c.namespace == namespace)
    job = connection.execute(query).one_or_none()
    if job is None:
        return _of_erased(connection, turn_id, namespace)
    if repeat is not None and repeat.conflict:
        reason = f"Its idempotency key was used before, by {job_id}, for another content."
        return ReceiptState(turn_id, Status.CONFLICT, reason=reason, same_as=job_id, finished=True)
    return ReceiptState(
        id=turn_id,
        status=Status(job.state),
        results=tuple(_results(connection, job.outcome or [])),
        reason=job.reason,
        same_as=None if repeat is None else job_id,
        stage=job.stage,
        finished=job.finished_at is not None,
    )


def note_lost(tx: Connection, turn_id: str, *, now: datetime) -> None:
    """Records, and counts once, that a turn was asked for after `order_wait` and found nowhere."""
    noting = insert(tx, lost_turns).values(turn_id=turn_id, noted_at=now).on_conflict_do_nothing(index_elements=["turn_id"])
    count(tx, "lost_turns", len(tx.execute(noting.returning(lost_turns.c.turn_id)).all()))


def _of_erased(connection: Connection, turn_id: str, namespace: str | None) -> ReceiptState | None:
    """Of a turn whose subject was erased there is its id and its state."""
    query = sa.select(erased_turns.c.state).where(erased_turns.c.turn_id == turn_id)
    if namespace is not None:
        query = query.where(erased_turns.c.namespace == namespace)
    state = connection.execute(query).scalar_one_or_none()
    return None if state is None else ReceiptState(turn_id, Status(state), reason=REASON, finished=True)


def _results(connection: Connection, outcome: list[list[str]]) -> list[dict[str, Any]]:
    # The outcome keeps ids only: a text that is deleted later is not shown by an old receipt.
    ids = [memory_id for memory_id, _ in outcome]
    rows = connection.execute(sa.select(memories.c.id, memories.c.text, memories.c.state).where(memories.c.id.in_(ids)))
    texts = {memory_id: None if state == "deleted" else text for memory_id, text, state in rows}
    return [{"id": memory_id, "memory": texts.get(memory_id), "event": Event(event).value} for memory_id, event in outcome]
