"""What was said in a lane, in its order."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.turn import Message
from memline.ledger.jobs import Job
from memline.ledger.schema import messages
from memline.ledger.session import insert

__all__ = ["save_messages", "window_before"]


def save_messages(tx: Connection, found: Sequence[Job]) -> None:
    """Stores the messages of jobs at their places; a second time changes nothing. System and developer messages are no conversation."""
    rows = [
        {
            "lane": job.lane,
            "place": job.place,
            "ordinal": ordinal,
            "job_id": job.id,
            "role": message.role,
            "name": message.name,
            "text": message.text,
            "said_at": job.said_at,
        }
        for job in found
        for ordinal, message in enumerate(job.messages)
        if message.role not in ("system", "developer")
    ]
    if rows:
        tx.execute(insert(tx, messages).on_conflict_do_nothing(index_elements=["job_id", "ordinal"]), rows)


def window_before(connection: Connection, lane: str, place: int, *, size: int) -> list[Message]:
    """The last *size* messages of a lane before the turn at *place*, oldest first."""
    query = (
        sa.select(messages.c.role, messages.c.text, messages.c.name)
        .where(messages.c.lane == lane, messages.c.place < place)
        .order_by(messages.c.place.desc(), messages.c.ordinal.desc())
        .limit(size)
    )
    return [Message(role, text, name) for role, text, name in reversed(connection.execute(query).all())]
