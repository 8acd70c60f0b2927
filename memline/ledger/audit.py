"""Questions that must have no answer: each finds rows that contradict the committed set. `memline verify` asks them all.

Every one is a single statement that pages by key, so that a million memories are checked in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import (
    entities,
    entity_links,
    entity_names,
    history,
    jobs,
    lanes,
    leases,
    memories,
    messages,
    outbox,
    owners,
    postings,
    vectors,
)

__all__ = ["CHECKS", "Check", "violations"]

_IN_INDEX = memories.c.state.in_(("live", "superseded"))


@dataclass(frozen=True, slots=True)
class Check:
    """A store, what is wrong with what is found, and the statement that finds it: its first column is the id shown."""

    store: str
    problem: str
    statement: sa.Select[tuple[object, ...]]


def _none_of(table: sa.FromClause, *where: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return ~sa.exists(sa.select(sa.literal(1)).select_from(table).where(*where))


def _some_of(table: sa.FromClause, *where: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists(sa.select(sa.literal(1)).select_from(table).where(*where))


_versions = sa.select(sa.func.count()).select_from(history).where(history.c.memory_id == memories.c.id).scalar_subquery()
_term_sum = sa.select(sa.func.coalesce(sa.func.sum(postings.c.tf), 0)).where(postings.c.memory_no == memories.c.no).scalar_subquery()
_live = (
    sa.select(sa.func.count()).select_from(memories).where(memories.c.owner_no == owners.c.no, memories.c.state == "live").scalar_subquery()
)
_length = (
    sa.select(sa.func.coalesce(sa.func.sum(memories.c.length), 0))
    .where(memories.c.owner_no == owners.c.no, memories.c.state == "live")
    .scalar_subquery()
)
#: A turn in which somebody other than the system speaks: a quote inside a text is escaped in JSON, so only a role matches.
_spoken = sa.or_(*(sa.cast(jobs.c.messages, sa.Text).like(f'%"role": "{role}"%') for role in ("user", "assistant", "tool", "function")))
_saved = sa.select(sa.func.count()).select_from(messages).where(messages.c.job_id == jobs.c.id).scalar_subquery()

CHECKS: tuple[Check, ...] = (
    Check(
        "memories",
        "two live memories of a scope have one content hash",
        sa.select(sa.func.min(memories.c.id))
        .where(memories.c.state == "live")
        .group_by(memories.c.lane, memories.c.content_hash)
        .having(sa.func.count() > 1),
    ),
    Check("memories", "its job is not in the ledger", sa.select(memories.c.id).where(_none_of(jobs, jobs.c.id == memories.c.job_id))),
    Check(
        "memories",
        "its job is not committed",
        sa.select(memories.c.id).join(jobs, jobs.c.id == memories.c.job_id).where(jobs.c.state.not_in(("committed", "searchable"))),
    ),
    Check("history", "versions are missing", sa.select(memories.c.id).where(_versions != memories.c.version)),
    Check(
        "history", "it refers to no memory", sa.select(history.c.memory_id).where(_none_of(memories, memories.c.id == history.c.memory_id))
    ),
    Check("vectors", "missing", sa.select(memories.c.id).where(_IN_INDEX, _none_of(vectors, vectors.c.memory_no == memories.c.no))),
    Check(
        "vectors",
        "still there although the memory is deleted",
        sa.select(memories.c.id).join(vectors, vectors.c.memory_no == memories.c.no).where(memories.c.state == "deleted"),
    ),
    Check("postings", "term counts do not add up to the length", sa.select(memories.c.id).where(_IN_INDEX, _term_sum != memories.c.length)),
    Check(
        "postings",
        "still there although the memory is gone",
        sa.select(memories.c.id).where(~_IN_INDEX, _some_of(postings, postings.c.memory_no == memories.c.no)),
    ),
    Check(
        "postings",
        "live although the memory is not, or the other way round",
        sa.select(memories.c.id).where(
            _IN_INDEX, _some_of(postings, postings.c.memory_no == memories.c.no, postings.c.live != (memories.c.state == "live"))
        ),
    ),
    Check(
        "owners",
        "its counts differ from its memories",
        sa.select(owners.c.key).where(sa.or_(owners.c.live != _live, owners.c.length != _length)),
    ),
    Check(
        "entities",
        "linked to a deleted memory",
        sa.select(entities.c.id)
        .join(entity_links, entity_links.c.entity_no == entities.c.no)
        .join(memories, memories.c.no == entity_links.c.memory_no)
        .where(memories.c.state == "deleted"),
    ),
    Check(
        "entities", "nothing names it", sa.select(entities.c.id).where(_none_of(entity_links, entity_links.c.entity_no == entities.c.no))
    ),
    Check(
        "entities",
        "its own name does not lead to it",
        sa.select(entities.c.id).where(
            _none_of(
                entity_names,
                entity_names.c.entity_no == entities.c.no,
                entity_names.c.lane == entities.c.lane,
                entity_names.c.norm == entities.c.norm,
            )
        ),
    ),
    Check("messages", "its job is not in the ledger", sa.select(messages.c.job_id).where(_none_of(jobs, jobs.c.id == messages.c.job_id))),
    Check(
        "messages",
        "a finished turn was not saved",
        sa.select(jobs.c.id).where(
            jobs.c.finished_at.is_not(None),
            jobs.c.state.in_(("committed", "searchable")),
            jobs.c.stage == "done",
            jobs.c.messages.is_not(None),
            _spoken,
            _saved == 0,
        ),
    ),
    Check(
        "jobs",
        "finished in no end state",
        sa.select(jobs.c.id).where(jobs.c.finished_at.is_not(None), jobs.c.stage == "done", jobs.c.state == "accepted"),
    ),
    Check(
        "jobs",
        "under a lease that is gone",
        sa.select(jobs.c.id).where(jobs.c.lease_id.is_not(None), _none_of(leases, leases.c.id == jobs.c.lease_id)),
    ),
    Check(
        "lanes",
        "leased although none of its jobs runs",
        sa.select(lanes.c.key).where(
            lanes.c.lease_id.is_not(None), _none_of(jobs, jobs.c.lane == lanes.c.key, jobs.c.lease_id == lanes.c.lease_id)
        ),
    ),
    Check(
        "outbox",
        "it waits for a version that the memory does not have",
        sa.select(outbox.c.object_id)
        .join(memories, sa.and_(outbox.c.kind == "memory", memories.c.id == outbox.c.object_id))
        .where(outbox.c.version > memories.c.version),
    ),
)


def violations(connection: Connection, check: Check, *, limit: int) -> Iterator[str]:
    """The ids that *check* finds, at most *limit*."""
    for row in connection.execute(check.statement.limit(limit)):
        yield str(row[0])
