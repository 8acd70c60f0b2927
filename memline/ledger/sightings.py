"""When a memory was said again: a duplicate makes no second memory, it leaves its time with the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import memories, sightings
from memline.ledger.session import insert

__all__ = ["SHOWN", "Sightings", "record_sightings", "sightings_of"]

#: Times of one memory that a read tells, the newest.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Sightings:
    """How often a memory was said again, and the newest `SHOWN` times of it, oldest first."""

    number: int
    said_at: tuple[datetime, ...]


def record_sightings(tx: Connection, found: Sequence[tuple[str, str, datetime]]) -> None:
    """Keeps (memory id, id of the turn that said it again, when); one a memory and turn, a second time changes nothing."""
    wanted = {(memory_id, job_id): said_at for memory_id, job_id, said_at in found}
    ids = sorted({memory_id for memory_id, _ in wanted})
    numbers: dict[str, int] = {}
    for start in range(0, len(ids), 500):
        query = sa.select(memories.c.id, memories.c.no).where(memories.c.id.in_(ids[start : start + 500]), memories.c.state != "deleted")
        numbers |= {memory_id: no for memory_id, no in tx.execute(query)}
    rows: list[dict[str, Any]] = [
        {"memory_no": numbers[memory_id], "job_id": job_id, "said_at": said_at}
        for (memory_id, job_id), said_at in sorted(wanted.items())
        if memory_id in numbers
    ]
    if rows:
        tx.execute(insert(tx, sightings).on_conflict_do_nothing(index_elements=["memory_no", "job_id"]), rows)


def sightings_of(connection: Connection, memory_no: int) -> Sightings:
    """Of one memory."""
    mine = sightings.c.memory_no == memory_no
    number = connection.execute(sa.select(sa.func.count()).select_from(sightings).where(mine)).scalar_one()
    if not number:
        return Sightings(0, ())
    newest = sa.select(sightings.c.said_at).where(mine).order_by(sightings.c.said_at.desc()).limit(SHOWN)
    return Sightings(number, tuple(reversed(connection.execute(newest).scalars().all())))
