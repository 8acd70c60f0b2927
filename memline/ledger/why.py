"""Why a memory is there: the turn that it came from, what was decided about it, and what it is linked to, as the ledger has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.ledger.history import history_of
from memline.ledger.memories import MemoryRow, load_memory
from memline.ledger.schema import jobs, memories, memory_links, messages, sightings
from memline.ledger.usage import usage_of_job

__all__ = ["Near", "Provenance", "SaidMessage", "provenance_of"]


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message of the turn, by its number there. `source`: the memory came from it, as far as the extractor told."""

    number: int
    role: str
    name: str | None
    text: str
    source: bool


@dataclass(frozen=True, slots=True)
class Near:
    """A memory that was close in meaning when this one was committed, and how close (cosine)."""

    id: str
    similarity: float
    text: str | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the ledger knows of how a memory came to be."""

    memory: MemoryRow
    #: The row of its job, without messages; None for a memory that was imported without a turn.
    job: Mapping[str, Any] | None
    messages: Sequence[SaidMessage]
    #: Where in its message it was said: [start, end) in characters.
    span: tuple[int, int] | None
    near: Sequence[Near]
    #: Turns that said it again: (job id, when).
    repeated: Sequence[tuple[str, datetime]]
    #: Memories that it closed.
    supersedes: Sequence[str]
    #: (memory id, relation) of its links to others, and of links of others to it.
    links_to: Sequence[tuple[str, str]]
    links_from: Sequence[tuple[str, str]]
    history: Sequence[Mapping[str, Any]]
    #: What the calls of its job used, as long as its replies are kept.
    usage: Sequence[Mapping[str, Any]]


_JOB = (
    "id", "state", "stage", "extractor", "infer", "prompt", "prompt_source", "prompt_hash", "memory_type", "said_at", "handed_at",
    "accepted_at", "committed_at", "reason", "masked", "notes", "messages",
)  # fmt: skip


def provenance_of(connection: Connection, namespace: str, memory_id: str, within: ScopeIds | None = None) -> Provenance | None:
    """Of a memory that is not deleted; None for an unknown id, one of another namespace, and one outside *within*."""
    memory = load_memory(connection, namespace, memory_id, within)
    if memory is None:
        return None
    found = connection.execute(sa.select(*(jobs.c[name] for name in _JOB)).where(jobs.c.id == memory.job_id)).one_or_none()
    job = None if found is None else dict(found._mapping)
    carried = job.pop("messages") if job is not None else None
    notes = (job or {}).get("notes") or {}
    span = None if memory.span_start is None or memory.span_end is None else (memory.span_start, memory.span_end)
    return Provenance(
        memory=memory,
        job=job,
        messages=_messages(connection, memory, carried),
        span=span,
        near=_near(connection, notes.get("near", {}).get(str(memory.ordinal), ())),
        repeated=[
            (row.job_id, row.said_at)
            for row in connection.execute(
                sa.select(sightings.c.job_id, sightings.c.said_at)
                .where(sightings.c.memory_no == memory.no)
                .order_by(sightings.c.said_at, sightings.c.job_id)
            )
        ],
        supersedes=_ids(
            connection,
            sa.select(memories.c.id).where(
                memories.c.owner_no == memory.owner_no, memories.c.superseded_by == memory.id, memories.c.state != "deleted"
            ),
        ),
        links_to=_links(connection, memory_links.c.memory_no, memory_links.c.to_no, memory.no),
        links_from=_links(connection, memory_links.c.to_no, memory_links.c.memory_no, memory.no),
        history=history_of(connection, namespace, memory_id, within),
        usage=usage_of_job(connection, memory.job_id),
    )


def _messages(connection: Connection, memory: MemoryRow, carried: Sequence[Mapping[str, Any]] | None) -> list[SaidMessage]:
    """The messages that were saved, or those that the job still carries where it was not saved yet."""
    query = sa.select(messages.c.ordinal, messages.c.role, messages.c.name, messages.c.text).where(messages.c.job_id == memory.job_id)
    if memory.message is not None:  # one that is hidden is kept for those that came from it
        query = query.where(sa.or_(messages.c.withheld.is_not(True), messages.c.ordinal == memory.message))
    rows = [tuple(row) for row in connection.execute(query.order_by(messages.c.ordinal))]
    if not rows:
        rows = [(number, raw["role"], raw.get("name"), raw["text"]) for number, raw in enumerate(carried or ())]
    return [SaidMessage(number, role, name, text, memory.message == number) for number, role, name, text in rows]


def _near(connection: Connection, told: Sequence[Sequence[Any]]) -> list[Near]:
    """Those that are still there; the text of one that is not deleted."""
    ids = [memory_id for memory_id, _ in told]
    query = sa.select(memories.c.id, memories.c.text, memories.c.state).where(memories.c.id.in_(ids))
    rows = {row.id: row for row in connection.execute(query)} if ids else {}
    return [
        Near(memory_id, similarity, None if rows[memory_id].state == "deleted" else rows[memory_id].text)
        for memory_id, similarity in told
        if memory_id in rows
    ]


def _links(connection: Connection, mine: sa.Column[Any], other: sa.Column[Any], no: int) -> list[tuple[str, str]]:
    query = sa.select(memories.c.id, memory_links.c.relation).join(memories, memories.c.no == other).where(mine == no)
    return [(row.id, row.relation) for row in connection.execute(query.where(memories.c.state != "deleted").order_by(memories.c.no))]


def _ids(connection: Connection, query: sa.Select[Any]) -> list[str]:
    return [row.id for row in connection.execute(query.order_by(memories.c.no))]
