"""What an erasure looks for byte by byte at its end: texts of the subject, read before they are removed, and held in memory only."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.erase_rows import Whose
from memline.ledger.schema import entities, history, jobs, memories, messages, stage_results

__all__ = ["needles_of"]

#: Bytes from which a text is looked for: shorter ones stand in any file.
_SHORTEST = 8
_EACH = 60


def needles_of(connection: Connection, whose: Whose) -> list[str]:
    """The subject's id (of 4 bytes and more) and texts of all kinds, the newest of each."""
    lanes, ids = whose.lane_keys, sa.select(memories.c.id).where(whose.of(memories))
    of_jobs = sa.select(jobs.c.id).where(jobs.c.lane.in_(lanes))
    texts: list[str] = []
    for query in (
        sa.select(memories.c.text).where(whose.of(memories)).order_by(memories.c.no.desc()),
        sa.select(messages.c.text).where(messages.c.lane.in_(lanes)).order_by(messages.c.no.desc()),
        sa.select(history.c.old_text).where(history.c.memory_id.in_(ids), history.c.old_text.is_not(None)).order_by(history.c.no.desc()),
        sa.select(entities.c.name).where(entities.c.lane.in_(lanes)).order_by(entities.c.no.desc()),
        sa.select(jobs.c.key).where(jobs.c.lane.in_(lanes), jobs.c.key.is_not(None)).order_by(jobs.c.no.desc()),
        sa.select(jobs.c.prompt).where(jobs.c.lane.in_(lanes), jobs.c.prompt.is_not(None)).order_by(jobs.c.no.desc()),
        sa.select(sa.func.substr(stage_results.c.body, 1, 400)).where(stage_results.c.job_id.in_(of_jobs)),
    ):
        texts += connection.execute(query.limit(_EACH)).scalars()
    for query in (
        sa.select(memories.c.metadata).where(whose.of(memories)).order_by(memories.c.no.desc()),
        sa.select(jobs.c.metadata).where(jobs.c.lane.in_(lanes), jobs.c.metadata.is_not(None)).order_by(jobs.c.no.desc()),
    ):
        for metadata in connection.execute(query.limit(_EACH)).scalars():
            texts += [value for value in (metadata or {}).values() if isinstance(value, str)]
    for said in connection.execute(
        sa.select(jobs.c.messages).where(jobs.c.lane.in_(lanes), jobs.c.messages.is_not(None)).order_by(jobs.c.no.desc()).limit(_EACH)
    ).scalars():
        texts += [str(message.get("text", "")) for message in said or []]
    wanted = [text for text in texts if text and len(text.encode("utf-8", "surrogatepass")) >= _SHORTEST]
    own = [whose.value] if len(whose.value.encode("utf-8")) >= 4 else []
    return list(dict.fromkeys([*own, *wanted]))
