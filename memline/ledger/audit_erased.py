"""The check of erased subjects: what was committed before a tombstone is gone. A tombstone has a digest of the id, so this is no SQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.erase import value_of
from memline.ledger.erase_rows import Whose
from memline.ledger.schema import jobs, memories, tombstones

__all__ = ["erased_and_there"]

#: Two machines' clocks may differ by so much: what was added right after an erasure may look a little older than it.
_MARGIN = timedelta(seconds=60)


def erased_and_there(connection: Connection, *, limit: int) -> Iterator[tuple[str, str, str]]:
    """Store, problem and id of each memory and turn that is older than an erasure of its subject, at most *limit* of each."""
    newest = sa.select(tombstones.c.subject, tombstones.c.namespace, tombstones.c.kind, sa.func.max(tombstones.c.at).label("at"))
    ended = newest.where(tombstones.c.finished_at.is_not(None)).group_by(tombstones.c.subject, tombstones.c.namespace, tombstones.c.kind)
    for stone in connection.execute(ended).all():
        kind: Any = stone.kind
        value = value_of(connection, stone.namespace, kind, stone.subject)
        if value is None:
            continue
        whose = Whose(stone.namespace, kind, value)
        until = stone.at - _MARGIN
        for name, query in (
            ("memories", sa.select(memories.c.id).where(whose.of(memories), memories.c.created_at <= until).order_by(memories.c.no)),
            ("jobs", sa.select(jobs.c.id).where(whose.jobs, jobs.c.accepted_at <= until).order_by(jobs.c.no)),
        ):
            for found in connection.execute(query.limit(limit)).scalars():
                yield name, "older than the erasure of its subject", found
