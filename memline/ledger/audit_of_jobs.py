"""The checks of turns: jobs, lanes, and the messages that were saved of them."""

from __future__ import annotations

import sqlalchemy as sa

from memline.ledger.audit_parts import Check, either, is_one_of, none_of
from memline.ledger.schema import jobs, lanes, leases, memories, messages, outbox

__all__ = ["COMMITTED_AND_SHOWN", "JOB_CHECKS"]

_names_it = sa.and_(
    memories.c.job_id == messages.c.job_id,
    ~is_one_of(memories.c.state, "deleted"),
    sa.or_(memories.c.message.is_(None), memories.c.message == messages.c.ordinal),
)

_message_rows = sa.select(
    messages.c.job_id,
    either(
        (jobs.c.id.is_(None), "its job is not in the ledger"),
        (sa.or_(jobs.c.lane != messages.c.lane, jobs.c.place.is_distinct_from(messages.c.place)), "not at the place of its turn"),
        (sa.and_(messages.c.withheld.is_(True), none_of(memories, _names_it)), "hidden, and no memory names it"),
    ),
).select_from(messages.outerjoin(jobs, jobs.c.id == messages.c.job_id))

_spans = (
    sa.select(memories.c.id)
    .select_from(memories.outerjoin(messages, sa.and_(messages.c.job_id == memories.c.job_id, messages.c.ordinal == memories.c.message)))
    .where(
        sa.or_(memories.c.span_start.is_not(None), memories.c.span_end.is_not(None)),
        sa.or_(
            is_one_of(memories.c.state, "deleted"),
            memories.c.message.is_(None),
            memories.c.span_start.is_(None),
            memories.c.span_end.is_(None),
            memories.c.span_start < 0,
            memories.c.span_start >= memories.c.span_end,
            memories.c.span_end > sa.func.length(messages.c.text),
        ),
    )
)

_unseen = sa.exists(
    sa.select(sa.literal_column("1"))
    .select_from(memories.join(outbox, sa.and_(is_one_of(outbox.c.kind, "memory"), outbox.c.object_id == memories.c.id)))
    .where(memories.c.job_id == jobs.c.id)
)

#: A job that should be searchable: nothing that it committed waits for the index.
COMMITTED_AND_SHOWN = sa.and_(is_one_of(jobs.c.state, "committed"), ~_unseen)

JOB_CHECKS: tuple[Check, ...] = (
    Check("messages", _message_rows),
    Check("memories", _spans, "its span is no place in its message"),
    Check(
        "jobs",
        sa.select(jobs.c.id).where(jobs.c.finished_at.is_not(None), jobs.c.stage == "done", is_one_of(jobs.c.state, "accepted")),
        "finished in no end state",
    ),
    Check(
        "jobs",
        sa.select(jobs.c.id).where(jobs.c.lease_id.is_not(None), none_of(leases, leases.c.id == jobs.c.lease_id)),
        "under a lease that is gone",
    ),
    Check(
        "jobs",
        sa.select(jobs.c.id).where(COMMITTED_AND_SHOWN),
        "not searchable although nothing of it waits for the index",
    ),
    Check(
        "jobs",
        sa.select(jobs.c.id)
        .join(lanes, lanes.c.key == jobs.c.lane)
        .where(jobs.c.finished_at.is_(None), jobs.c.position.is_not(None), jobs.c.position <= lanes.c.done_position),
        "unfinished, and its lane has passed it",
    ),
    Check(
        "lanes",
        sa.select(lanes.c.key).where(
            lanes.c.lease_id.is_not(None), none_of(jobs, jobs.c.lane == lanes.c.key, jobs.c.lease_id == lanes.c.lease_id)
        ),
        "leased although none of its jobs runs",
    ),
)
