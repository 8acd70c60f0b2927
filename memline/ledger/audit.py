"""Questions that must have no answer: each finds rows that contradict the committed set. `memline verify` asks them all.

Each is one statement, and so one moment of the ledger: writers that go on meanwhile are never half seen. None is quadratic: tables are
read once, in key order or grouped, and looked up in others by an index. The databases sort and group in bounded memory, and only what
is found, at most a limit, comes to this process. What has to be computed anew from a row's content is in `audit_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.audit_of_jobs import JOB_CHECKS
from memline.ledger.audit_parts import Check, either, is_one_of, none_of
from memline.ledger.erase_rows import ERASED
from memline.ledger.schema import (
    changes,
    entities,
    entity_links,
    entity_names,
    history,
    jobs,
    lanes,
    ledger_meta,
    memories,
    memory_links,
    next_entity_vectors,
    next_vectors,
    outbox,
    owners,
    postings,
    vectors,
)
from memline.ledger.vectors import (
    current_entity_model,
    current_entity_vector,
    current_model,
    current_vector,
    current_vectors,
    entities_with_vectors,
    own_embedder,
)

__all__ = ["CHECKS", "Found", "violations"]


@dataclass(frozen=True, slots=True)
class Found:
    """Something that contradicts the committed set: where, what is wrong with it, and the id of what it is."""

    store: str
    problem: str
    id: str


_LIVE = is_one_of(memories.c.state, "live")
_IN_INDEX = is_one_of(memories.c.state, "live", "superseded")
_DELETED = is_one_of(memories.c.state, "deleted")
_NO_MEMORY = memories.c.no.is_(None)
_NOT_THERE = "of a memory that is not in the ledger"


def _id_or_number(number: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    return sa.func.coalesce(memories.c.id, sa.literal("number ") + sa.cast(number, sa.Text))


def _told(model: sa.ColumnElement[str], vector: sa.ColumnElement[bytes]) -> sa.ColumnElement[str]:
    """An embedder as the ledger tells its own."""
    return model + "|" + sa.cast(sa.func.length(vector) // 4, sa.Text)


def _other_ids(table: Any) -> sa.ColumnElement[bool]:
    """A row's ids are not those of its lane."""
    pairs = [(table.c[name], lanes.c[name]) for name in ("namespace", "owner_no") if name in table.c]
    pairs += [(table.c[name], lanes.c[name]) for name in ("user_id", "agent_id", "run_id") if name in table.c]
    return sa.or_(*(one.is_distinct_from(other) for one, other in pairs))


_twice = sa.select(sa.func.min(memories.c.id)).where(_LIVE).group_by(memories.c.lane, memories.c.content_hash).having(sa.func.count() > 1)

_memory_and_job = sa.select(
    memories.c.id,
    either(
        (jobs.c.id.is_(None), "its job is not in the ledger"),
        (~is_one_of(jobs.c.state, "committed", "searchable"), "its job is not committed"),
        (jobs.c.lane != memories.c.lane, "its job is of another scope"),
    ),
).select_from(memories.outerjoin(jobs, jobs.c.id == memories.c.job_id))

_memory_and_lane = sa.select(
    memories.c.id,
    either((lanes.c.key.is_(None), "its scope is not in the ledger"), (_other_ids(memories), "its ids are not those of its scope")),
).select_from(memories.outerjoin(lanes, lanes.c.key == memories.c.lane))

_newer = memories.alias("newer")
_superseded_by_nothing = sa.select(memories.c.id).where(
    is_one_of(memories.c.state, "superseded"),
    memories.c.superseded_by != ERASED,
    none_of(_newer, _newer.c.id == memories.c.superseded_by, _newer.c.owner_no == memories.c.owner_no),
)

_linked = memories.alias("linked")
_memory_links = sa.select(
    _id_or_number(memory_links.c.memory_no),
    either(
        (sa.or_(_NO_MEMORY, _linked.c.no.is_(None)), "it links memories that are not in the ledger"),
        (_linked.c.owner_no != memories.c.owner_no, "it links to a memory of another owner"),
    ),
).select_from(
    memory_links.outerjoin(memories, memories.c.no == memory_links.c.memory_no).outerjoin(_linked, _linked.c.no == memory_links.c.to_no)
)

_grouped_history = (
    sa.select(history.c.memory_id, sa.func.count().label("rows"), sa.func.max(history.c.version).label("version"))
    .group_by(history.c.memory_id)
    .subquery("grouped")
)
_history_rows = sa.select(
    _grouped_history.c.memory_id,
    either(
        (_NO_MEMORY, _NOT_THERE),
        (sa.or_(_grouped_history.c.rows != memories.c.version, _grouped_history.c.version != memories.c.version), "versions are missing"),
    ),
).select_from(_grouped_history.outerjoin(memories, memories.c.id == _grouped_history.c.memory_id))

_newest_says = sa.select(
    memories.c.id,
    either(
        (history.c.namespace != memories.c.namespace, "in another namespace than the memory"),
        (
            sa.or_(
                sa.and_(_IN_INDEX, history.c.new_hash.is_(None), history.c.new_text.is_distinct_from(memories.c.text)),
                sa.and_(_IN_INDEX, history.c.new_hash.is_not(None), history.c.new_hash != memories.c.md5),
                sa.and_(_DELETED, ~is_one_of(history.c.event, "DELETE")),
                sa.and_(is_one_of(memories.c.state, "expired"), ~is_one_of(history.c.event, "EXPIRE", "UPDATE")),
            ),
            "its newest row does not tell what the memory is",
        ),
    ),
).select_from(memories.join(history, sa.and_(history.c.memory_id == memories.c.id, history.c.version == memories.c.version)))

_newest_told = sa.select(sa.func.max(changes.c.no).label("no")).group_by(changes.c.memory_id).subquery("newest")
_told_changes = sa.select(
    changes.c.memory_id,
    either(
        (sa.and_(_NO_MEMORY, ~is_one_of(changes.c.event, "ERASE")), _NOT_THERE),
        (memories.c.version != changes.c.version, "the newest one is not of the version that the memory has"),
    ),
).select_from(_newest_told.join(changes, changes.c.no == _newest_told.c.no).outerjoin(memories, memories.c.id == changes.c.memory_id))

_vector_rows = sa.select(
    _id_or_number(vectors.c.memory_no),
    either(
        (_NO_MEMORY, _NOT_THERE),
        (_DELETED, "still there although the memory is deleted"),
        (
            _told(current_model, current_vector) != own_embedder,
            "of another model than the ledger's embedder",
        ),
    ),
).select_from(current_vectors.outerjoin(memories, memories.c.no == vectors.c.memory_no))

_move = sa.select(ledger_meta.c.value).where(ledger_meta.c.key == "embedder.move").scalar_subquery()
_next_vector_rows = sa.select(
    _id_or_number(next_vectors.c.memory_no),
    either(
        (_NO_MEMORY, _NOT_THERE),
        (_DELETED, "still there although the memory is deleted"),
        (
            sa.and_(_move.is_(None), _told(next_vectors.c.model, next_vectors.c.vector) != own_embedder),
            "there although nothing moves to another embedder",
        ),
    ),
).select_from(next_vectors.outerjoin(memories, memories.c.no == next_vectors.c.memory_no))

_next_entity_rows = sa.select(sa.literal("number ") + sa.cast(next_entity_vectors.c.entity_no, sa.Text)).where(
    none_of(entities, entities.c.no == next_entity_vectors.c.entity_no)
)

_live_number = sa.case((postings.c.live, 1), else_=0)
_grouped_postings = (
    sa.select(
        postings.c.memory_no,
        sa.func.sum(postings.c.tf).label("terms"),
        sa.func.min(postings.c.length).label("least"),
        sa.func.max(postings.c.length).label("most"),
        sa.func.min(_live_number).label("all_live"),
        sa.func.max(_live_number).label("some_live"),
        sa.func.min(postings.c.owner_no).label("owner"),
        sa.func.max(postings.c.owner_no).label("last_owner"),
    )
    .group_by(postings.c.memory_no)
    .subquery("grouped")
)
_is_live = sa.case((_LIVE, 1), else_=0)
_sums = _grouped_postings.c
_posting_rows = sa.select(
    _id_or_number(_sums.memory_no),
    either(
        (_NO_MEMORY, _NOT_THERE),
        (~_IN_INDEX, "still there although the memory is gone"),
        (sa.or_(_sums.owner != memories.c.owner_no, _sums.last_owner != memories.c.owner_no), "under another owner than the memory's"),
        (
            sa.or_(*(number != memories.c.length for number in (_sums.terms, _sums.least, _sums.most))),
            "term counts do not add up to the length",
        ),
        (sa.or_(_sums.all_live != _is_live, _sums.some_live != _is_live), "live although the memory is not, or the other way round"),
    ),
).select_from(_grouped_postings.outerjoin(memories, memories.c.no == _sums.memory_no))

_grouped_live = (
    sa.select(memories.c.owner_no, sa.func.count().label("live"), sa.func.sum(memories.c.length).label("length"))
    .where(_LIVE)
    .group_by(memories.c.owner_no)
    .subquery("grouped")
)
_owner_counts = (
    sa.select(owners.c.key)
    .select_from(owners.outerjoin(_grouped_live, _grouped_live.c.owner_no == owners.c.no))
    .where(
        sa.or_(owners.c.live != sa.func.coalesce(_grouped_live.c.live, 0), owners.c.length != sa.func.coalesce(_grouped_live.c.length, 0))
    )
)

_entity_links = sa.select(
    sa.func.coalesce(entities.c.id, sa.literal("number ") + sa.cast(entity_links.c.entity_no, sa.Text)),
    either(
        (entities.c.no.is_(None), "a memory is linked to one that is not in the ledger"),
        (_NO_MEMORY, "linked to a memory that is not in the ledger"),
        (_DELETED, "linked to a deleted memory"),
        (memories.c.lane != entities.c.lane, "linked to a memory of another scope"),
    ),
).select_from(
    entity_links.outerjoin(entities, entities.c.no == entity_links.c.entity_no).outerjoin(
        memories, memories.c.no == entity_links.c.memory_no
    )
)

_entity_rows = sa.select(
    entities.c.id,
    either(
        (lanes.c.key.is_(None), "its scope is not in the ledger"),
        (_other_ids(entities), "its ids are not those of its scope"),
        (
            _told(current_entity_model, current_entity_vector) != own_embedder,
            "its vector is of another model than the ledger's embedder",
        ),
    ),
).select_from(entities_with_vectors.outerjoin(lanes, lanes.c.key == entities.c.lane))

_entity_names = (
    sa.select(entity_names.c.norm)
    .select_from(entity_names.outerjoin(entities, entities.c.no == entity_names.c.entity_no))
    .where(sa.or_(entities.c.no.is_(None), entities.c.lane != entity_names.c.lane))
)

_outbox_rows = sa.select(
    outbox.c.object_id,
    either(
        (outbox.c.parked, "set aside after too many failures"),
        (memories.c.namespace != outbox.c.namespace, "in another namespace than the memory"),
        (outbox.c.version > memories.c.version, "it waits for a version that the memory does not have"),
    ),
).select_from(outbox.outerjoin(memories, sa.and_(is_one_of(outbox.c.kind, "memory"), memories.c.id == outbox.c.object_id)))

CHECKS: tuple[Check, ...] = (
    Check("memories", _twice, "two live memories of a scope have one content hash"),
    Check("memories", _memory_and_job),
    Check("memories", _memory_and_lane),
    Check("memories", _superseded_by_nothing, "superseded by a memory that is not in the ledger"),
    Check("memories", sa.select(memories.c.id).where(_DELETED, memories.c.text != ""), "deleted, and its text is still there"),
    Check("memories", _memory_links),
    Check("history", _history_rows),
    Check("history", sa.select(memories.c.id).where(none_of(history, history.c.memory_id == memories.c.id)), "missing"),
    Check("history", _newest_says),
    Check("changes", _told_changes),
    Check("vectors", _vector_rows),
    Check("vectors", sa.select(memories.c.id).where(_IN_INDEX, none_of(vectors, vectors.c.memory_no == memories.c.no)), "missing"),
    Check("next vectors", _next_vector_rows),
    Check("next vectors", _next_entity_rows, "of an entity that is not in the ledger"),
    Check("postings", _posting_rows),
    Check(
        "postings",
        sa.select(memories.c.id).where(_IN_INDEX, memories.c.length > 0, none_of(postings, postings.c.memory_no == memories.c.no)),
        "missing",
    ),
    Check("owners", _owner_counts, "its counts differ from its memories"),
    Check("entities", _entity_links),
    Check("entities", sa.select(entities.c.id).where(none_of(entity_links, entity_links.c.entity_no == entities.c.no)), "nothing names it"),
    Check(
        "entities",
        sa.select(entities.c.id).where(
            none_of(
                entity_names,
                entity_names.c.entity_no == entities.c.no,
                entity_names.c.lane == entities.c.lane,
                entity_names.c.norm == entities.c.norm,
            )
        ),
        "its own name does not lead to it",
    ),
    Check("entities", _entity_rows),
    Check("entities", _entity_names, "a name leads to no entity of its scope"),
    Check("outbox", _outbox_rows),
    *JOB_CHECKS,
)


def violations(connection: Connection, check: Check, *, limit: int) -> Iterator[Found]:
    """What *check* finds, at most *limit*."""
    for row in connection.execute(check.query().limit(limit)):
        yield Found(check.store, check.problem or str(row[1]), str(row[0]))
