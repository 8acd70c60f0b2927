"""Removing the rows of a subject, whole, a page at a time: what is made from a memory before the memory, what is made from a job before it.

A subject is one id of one kind. What belongs to it is every lane that has the id, whatever others it has, with all that is in it. Of other
lanes a memory loses its link to a removed one, and the id of the one that superseded it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.ids import derived_id
from memline.contracts.index_object import Kind
from memline.contracts.receipt import Status
from memline.contracts.scope import SubjectKind
from memline.ledger.changes import tell_erased
from memline.ledger.outbox import enqueue
from memline.ledger.schema import (
    entities,
    entity_links,
    entity_names,
    erased_turns,
    erasure_objects,
    history,
    idempotency_keys,
    jobs,
    lane_numbers,
    lane_producers,
    lanes,
    memories,
    memory_links,
    messages,
    next_entity_vectors,
    next_vectors,
    owners,
    postings,
    repeats,
    sightings,
    stage_results,
    vectors,
)
from memline.ledger.session import insert
from memline.ledger.tombstones import keep_numbers

__all__ = ["ERASED", "PAGE", "Whose", "erase_jobs", "erase_lanes", "erase_memories"]

#: What stands where the id of an erased memory stood: `superseded_by` of others. No memory has it.
ERASED = derived_id("erased")

#: Rows a page.
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Whose:
    """The rows of a subject. *before*: only what was committed until then; None: all of it."""

    namespace: str
    kind: SubjectKind
    value: str
    before: datetime | None = None

    @property
    def column(self) -> str:
        return f"{self.kind}_id"

    def of(self, table: sa.Table) -> sa.ColumnElement[bool]:
        """The rows of a table that has scope ids."""
        return sa.and_(table.c.namespace == self.namespace, table.c[self.column] == self.value)

    @property
    def lane_keys(self) -> sa.Select[tuple[str]]:
        return sa.select(lanes.c.key).where(self.of(lanes))

    @property
    def jobs(self) -> sa.ColumnElement[bool]:
        mine = jobs.c.lane.in_(self.lane_keys)
        return mine if self.before is None else sa.and_(mine, jobs.c.accepted_at <= self.before)

    @property
    def memories(self) -> sa.ColumnElement[bool]:
        mine = self.of(memories)
        if self.before is None:
            return mine
        early_jobs = sa.select(jobs.c.id).where(self.jobs)
        return sa.and_(mine, sa.or_(memories.c.created_at <= self.before, memories.c.job_id.in_(early_jobs)))

    @property
    def whole(self) -> bool:
        return self.before is None


def erase_memories(tx: Connection, whose: Whose, erasure: str, *, now: datetime) -> Counter[str]:
    """Removes a page of memories with what is made from them; by store, how many rows went. Empty: there is none left.

    Tells the index (`outbox.write_enqueued`), and remembers what it is told. The caller holds the subject's lock, and its owners',
    exclusively.
    """
    removed: Counter[str] = Counter()
    page = tx.execute(
        sa.select(memories.c.no, memories.c.id, memories.c.owner_no, memories.c.version)
        .where(whose.memories)
        .order_by(memories.c.no)
        .limit(PAGE)
    ).all()
    if not page:
        return removed
    nos, ids = [row.no for row in page], [row.id for row in page]
    owner_nos = sorted({row.owner_no for row in page})
    _tell_index(tx, erasure, "memory", whose.namespace, [(row.id, row.version) for row in page], now=now)
    tell_erased(tx, whose.namespace, [(row.id, row.version) for row in page], now=now)
    _forget_in_others(tx, owner_nos, ids)
    links = sa.delete(entity_links).where(entity_links.c.memory_no.in_(nos)).returning(entity_links.c.entity_no)
    linked = tx.execute(links).scalars().all()
    removed["entity_links"] += len(linked)
    removed += _erase_entities(tx, erasure, whose.namespace, sorted(set(linked)), now=now)
    for name, column in (
        ("postings", postings.c.memory_no),
        ("vectors", vectors.c.memory_no),
        ("next_vectors", next_vectors.c.memory_no),
        ("sightings", sightings.c.memory_no),
        ("memory_links", memory_links.c.memory_no),
        ("memory_links", memory_links.c.to_no),
    ):
        removed[name] += tx.execute(sa.delete(column.table).where(column.in_(nos))).rowcount
    removed["history"] += tx.execute(sa.delete(history).where(history.c.memory_id.in_(ids))).rowcount
    removed["memories"] += tx.execute(sa.delete(memories).where(memories.c.no.in_(nos))).rowcount
    _recount(tx, owner_nos)
    return removed


def erase_jobs(tx: Connection, whose: Whose, *, now: datetime) -> Counter[str]:
    """Removes a page of jobs with everything that hangs on them; id and state stay, elsewhere. Empty: there is none left.

    To be called when there is no memory of theirs any more.
    """
    removed: Counter[str] = Counter()
    page = tx.execute(
        sa.select(jobs.c.no, jobs.c.id, jobs.c.namespace, jobs.c.state).where(whose.jobs).order_by(jobs.c.no).limit(PAGE).with_for_update()
    ).all()
    if not page:
        return removed
    ids = [row.id for row in page]
    named = tx.execute(sa.select(repeats.c.turn_id, repeats.c.job_id, repeats.c.conflict).where(repeats.c.job_id.in_(ids))).all()
    states = {row.id: _state_left(row.state) for row in page}
    kept = [{"turn_id": row.id, "namespace": row.namespace, "state": states[row.id], "at": now} for row in page]
    kept += [
        {
            "turn_id": row.turn_id,
            "namespace": whose.namespace,
            "state": Status.CONFLICT.value if row.conflict else states[row.job_id],
            "at": now,
        }
        for row in named
    ]
    tx.execute(insert(tx, erased_turns).on_conflict_do_nothing(index_elements=["turn_id"]), kept)
    for name, column in (
        ("stage_results", stage_results.c.job_id),
        ("messages", messages.c.job_id),
        ("sightings", sightings.c.job_id),
        ("repeats", repeats.c.job_id),
    ):
        removed[name] += tx.execute(sa.delete(column.table).where(column.in_(ids))).rowcount
    of_jobs = sa.and_(idempotency_keys.c.lane.in_(whose.lane_keys), idempotency_keys.c.job_id.in_(ids))
    removed["idempotency_keys"] += tx.execute(sa.delete(idempotency_keys).where(of_jobs)).rowcount
    removed["jobs"] += tx.execute(sa.delete(jobs).where(jobs.c.no.in_([row.no for row in page]))).rowcount
    return removed


def erase_lanes(tx: Connection, whose: Whose, erasure: str, *, now: datetime) -> Counter[str]:
    """Removes the lanes of the subject of which nothing is left, what hangs on them, and owners that have no lane any more.

    To be called when there is no job and no memory any more.
    """
    removed: Counter[str] = Counter()
    before = whose.before
    empty = sa.select(lanes.c.key, lanes.c.owner_no).where(whose.of(lanes))
    if before is not None:
        empty = empty.where(~sa.exists().where(jobs.c.lane == lanes.c.key), ~sa.exists().where(memories.c.lane == lanes.c.key))
        old_keys = sa.and_(idempotency_keys.c.lane.in_(whose.lane_keys), idempotency_keys.c.created_at <= before)
        removed["idempotency_keys"] += tx.execute(sa.delete(idempotency_keys).where(old_keys)).rowcount
    rows = tx.execute(empty.order_by(lanes.c.key).limit(PAGE)).all()
    if not rows:
        return removed
    keys, owner_nos = [row.key for row in rows], sorted({row.owner_no for row in rows})
    left = tx.execute(sa.select(entities.c.no).where(entities.c.lane.in_(keys))).scalars().all()
    removed += _erase_entities(tx, erasure, whose.namespace, sorted(left), now=now)
    _keep_expectations(tx, keys, now=now)
    for name, column in (
        ("messages", messages.c.lane),
        ("idempotency_keys", idempotency_keys.c.lane),
        ("entity_names", entity_names.c.lane),
        ("lane_numbers", lane_numbers.c.lane),
        ("lane_producers", lane_producers.c.lane),
        ("lanes", lanes.c.key),
    ):
        removed[name] += tx.execute(sa.delete(column.table).where(column.in_(keys))).rowcount
    used = [
        sa.exists().where(lanes.c.owner_no == owners.c.no),
        sa.exists().where(memories.c.owner_no == owners.c.no),
        sa.exists().where(entities.c.owner_no == owners.c.no),
        sa.exists().where(postings.c.owner_no == owners.c.no),
    ]
    removed["owners"] += tx.execute(sa.delete(owners).where(owners.c.no.in_(owner_nos), *(sa.not_(use) for use in used))).rowcount
    return removed


def _state_left(state: str) -> str:
    """What a job's state is when nothing else of it is left: of one that was on its way, or not searchable yet, cancelled."""
    return state if state in (Status.SEARCHABLE, Status.FAILED, Status.CONFLICT) else Status.CANCELLED.value


def _erase_entities(tx: Connection, erasure: str, namespace: str, nos: Sequence[int], *, now: datetime) -> Counter[str]:
    """Removes those entities that no memory names any more."""
    removed: Counter[str] = Counter()
    for start in range(0, len(nos), PAGE):
        unnamed = sa.and_(entities.c.no.in_(nos[start : start + PAGE]), ~sa.exists().where(entity_links.c.entity_no == entities.c.no))
        rows = tx.execute(sa.select(entities.c.no, entities.c.id, entities.c.version).where(unnamed)).all()
        if not rows:
            continue
        some = [row.no for row in rows]
        _tell_index(tx, erasure, "entity", namespace, [(row.id, row.version) for row in rows], now=now)
        for name, column in (
            ("entity_names", entity_names.c.entity_no),
            ("next_entity_vectors", next_entity_vectors.c.entity_no),
            ("entities", entities.c.no),
        ):
            removed[name] += tx.execute(sa.delete(column.table).where(column.in_(some))).rowcount
    return removed


def _tell_index(
    tx: Connection,
    erasure: str,
    kind: Kind,
    namespace: str,
    found: Sequence[tuple[str, int]],
    *,
    now: datetime,
) -> None:
    ids = sorted(object_id for object_id, _ in found)
    tx.execute(
        insert(tx, erasure_objects).on_conflict_do_nothing(),
        [{"erasure": erasure, "kind": kind, "object_id": object_id, "namespace": namespace} for object_id in ids],
    )
    enqueue(tx, kind, {object_id: (namespace, version + 1) for object_id, version in found}, now=now, traces={})


def _forget_in_others(tx: Connection, owner_nos: Sequence[int], ids: Sequence[str]) -> None:
    """Memories that one of *ids* had superseded stay superseded, by nothing that could be named."""
    pointing = sa.and_(memories.c.owner_no.in_(list(owner_nos)), memories.c.superseded_by.in_(list(ids)), memories.c.id.not_in(list(ids)))
    rows = tx.execute(sa.select(memories.c.id, memories.c.superseded_by).where(pointing)).all()
    for start in range(0, len(rows), 500):
        some = rows[start : start + 500]
        told = [f"superseded by {row.superseded_by}" for row in some]
        tx.execute(sa.update(memories).where(memories.c.id.in_([row.id for row in some])).values(superseded_by=ERASED))
        tx.execute(
            sa.update(history)
            .where(history.c.memory_id.in_([row.id for row in some]), history.c.reason.in_(told))
            .values(reason="superseded by a memory that was erased")
        )


def _recount(tx: Connection, owner_nos: Sequence[int]) -> None:
    """What BM25 needs to know of the owners that stay."""
    live = sa.and_(memories.c.owner_no == owners.c.no, memories.c.state == "live")
    number = sa.select(sa.func.count()).select_from(memories).where(live).correlate(owners).scalar_subquery()
    length = sa.select(sa.func.coalesce(sa.func.sum(memories.c.length), 0)).where(live).correlate(owners).scalar_subquery()
    tx.execute(sa.update(owners).where(owners.c.no.in_(list(owner_nos))).values(live=number, length=length))


def _keep_expectations(tx: Connection, lane_keys: Sequence[str], *, now: datetime) -> None:
    """What producers have used of their numbers, so that their next turns need not wait for those that are gone."""
    expected: dict[tuple[str, str], int] = {}
    table = lane_producers.c
    for row in tx.execute(sa.select(table.lane, table.producer, table.expected).where(table.lane.in_(list(lane_keys)))):
        expected[row.lane, row.producer] = row.expected
    numbers = lane_numbers.c
    query = sa.select(numbers.lane, numbers.producer, sa.func.max(numbers.number)).where(numbers.lane.in_(list(lane_keys)))
    for lane, producer, number in tx.execute(query.group_by(numbers.lane, numbers.producer)):
        expected[lane, producer] = max(expected.get((lane, producer), 1), number + 1)
    keep_numbers(tx, expected, now=now)
