"""Taking memories out of the committed set: their rows stay, without their text; everything made from the text goes.

Set-based: one memory, a scope or a namespace goes by the same few statements, each over all of it, in the caller's transaction.

What a deleted memory had superseded stays superseded: whoever deletes "lives in Porto" did not say that "lives in Berlin" is true again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import failpoints, tracing
from memline.contracts.errors import MemoryNotFound
from memline.contracts.filters import ScopeIds
from memline.contracts.receipt import Event
from memline.contracts.scope import Scope
from memline.ledger.bounds import bounded
from memline.ledger.changes import tell_retired
from memline.ledger.history import HistoryMode, redact_history
from memline.ledger.locks import lock_owners, lock_subjects
from memline.ledger.memories import MemoryRow, load_memory
from memline.ledger.messages import forget_sources, sources_of
from memline.ledger.outbox import enqueue, requeue
from memline.ledger.schema import (
    entities,
    entity_links,
    history,
    memories,
    memory_links,
    next_vectors,
    outbox,
    owners,
    postings,
    sightings,
    vectors,
)
from memline.ledger.session import Ledger, insert

__all__ = ["delete_memories", "delete_memory", "drop_postings", "drop_unnamed", "retire"]

_CHUNK = 1000


def delete_memory(
    ledger: Ledger,
    namespace: str,
    memory_id: str,
    *,
    now: datetime,
    redact: bool = False,
    actor: str | None = None,
    reason: str | None = None,
    keep: HistoryMode = HistoryMode.FULL,
    within: ScopeIds | None = None,
) -> None:
    """Deletes one memory; its source messages leave the window of its lane. *redact*: its history loses every text, too.

    A memory that is deleted already may be redacted. Raises MemoryNotFound for an unknown id, for one of another namespace, and for one
    outside *within*.
    """
    with ledger.write() as tx:
        row = load_memory(tx, namespace, memory_id, within)
        if row is not None:
            scope = Scope(row.namespace, row.user_id, row.agent_id, row.run_id)
            lock_subjects(tx, scope.subjects)
            lock_owners(tx, [scope.owner.key])
            row = load_memory(tx, namespace, memory_id, within)  # as it is now that nobody else changes it
        if row is not None:
            delete_memories(tx, [row], actor=actor, reason=reason, now=now, redact=redact, keep=keep)
        elif not (redact and _redact_deleted(tx, namespace, memory_id, within)):
            raise MemoryNotFound(memory_id)
        failpoints.hit("delete.before_commit")
    failpoints.hit("delete.after_commit")


def delete_memories(
    tx: Connection,
    rows: Sequence[MemoryRow],
    *,
    actor: str | None,
    reason: str | None,
    now: datetime,
    redact: bool = False,
    keep: HistoryMode = HistoryMode.FULL,
) -> None:
    """Deletes memories, and takes the messages that they came from out of later windows.

    The caller holds the subjects' locks and the owners'.
    """
    sources = sources_of(tx, rows)
    for start in range(0, len(rows), _CHUNK):
        which = memories.c.no.in_([row.no for row in rows[start : start + _CHUNK]])
        retire(tx, which, actor=actor, reason=reason, now=now, redact=redact, keep=keep)
    forget_sources(tx, sources, redact=redact)


def retire(
    tx: Connection,
    which: sa.ColumnElement[bool],
    *,
    actor: str | None,
    reason: str | None,
    now: datetime,
    redact: bool = False,
    keep: HistoryMode = HistoryMode.FULL,
    whole_owners: sa.Select[tuple[int]] | None = None,
) -> int:
    """Deletes the memories that *which* (a condition on the memories) holds for, with their postings, vectors, links and the entities
    that nothing names any more; tells the index. Returns how many. *whole_owners*: owners of whom it is all; their terms lie together, and
    go in half the time (measured: 500,000 postings on SQLite).

    The caller holds locks under which nobody else changes them.
    """
    which = sa.and_(which, memories.c.state != "deleted")
    picked = sa.select(memories.c.no).where(which)
    _count_out(tx, which)
    if redact:
        redact_history(tx, sa.select(memories.c.id).where(which))
    _tell_history(tx, which, actor=actor, reason=reason, now=now, redact=redact, keep=keep)
    tell_retired(tx, which, now=now)
    _tell_index(tx, which, now=now)
    if whole_owners is not None:
        tx.execute(sa.delete(postings).where(postings.c.owner_no.in_(whole_owners)))
    made = (postings, vectors, next_vectors, sightings, memory_links)
    for column in (*(table.c.memory_no for table in made), memory_links.c.to_no):
        tx.execute(sa.delete(column.table).where(column.in_(picked)))
    links = sa.delete(entity_links).where(entity_links.c.memory_no.in_(picked)).returning(entity_links.c.entity_no)
    drop_unnamed(tx, set(tx.execute(links).scalars()), now=now)
    gone: dict[str, Any] = {"state": "deleted", "text": "", "metadata": {}, "slot": None, "superseded_by": None, "length": 0}
    gone |= {"span_start": None, "span_end": None}
    if redact:
        gone |= {"md5": "", "content_hash": "", "digest": ""}
    return tx.execute(sa.update(memories).where(which).values(**gone, version=memories.c.version + 1, updated_at=now)).rowcount


def drop_postings(tx: Connection, nos: Sequence[int]) -> None:
    """Removes the terms of memories."""
    if nos:
        tx.execute(sa.delete(postings).where(postings.c.memory_no.in_(list(nos))))


def drop_unnamed(tx: Connection, entity_nos: set[int], *, now: datetime) -> None:
    """Removes those of the entities that no memory names any more; tells the index."""
    nos = sorted(entity_nos)
    for start in range(0, len(nos), _CHUNK):
        empty = sa.and_(entities.c.no.in_(nos[start : start + _CHUNK]), ~sa.exists().where(entity_links.c.entity_no == entities.c.no))
        # their links, names and next vectors go with them, by foreign keys
        gone = tx.execute(sa.delete(entities).where(empty).returning(entities.c.id, entities.c.namespace, entities.c.version))
        rows = gone.all()
        if rows:
            enqueue(tx, "entity", {row.id: (row.namespace, row.version + 1) for row in rows}, now=now)


def _redact_deleted(tx: Connection, namespace: str, memory_id: str, within: ScopeIds | None) -> bool:
    """Redacts a memory that is deleted already; False where there is none."""
    deleted = (memories.c.id == memory_id, memories.c.namespace == namespace, memories.c.state == "deleted", *bounded(memories, within))
    scope = tx.execute(sa.select(memories.c.user_id, memories.c.agent_id, memories.c.run_id).where(*deleted)).one_or_none()
    if scope is None:
        return False
    lock_subjects(tx, Scope(namespace, *scope).subjects)
    hashes = {"md5": "", "content_hash": "", "digest": ""}
    done = tx.execute(
        sa.update(memories).where(*deleted).values(hashes).returning(memories.c.id, memories.c.lane, memories.c.job_id)
    ).one_or_none()
    if done is None:
        return False
    redact_history(tx, [memory_id])
    forget_sources(tx, sources_of(tx, [done]), redact=True, hidden_only=True)
    return True


def _count_out(tx: Connection, which: sa.ColumnElement[bool]) -> None:
    """The owners have fewer live memories, and fewer terms in them."""
    counted = (
        sa.select(memories.c.owner_no, sa.func.count().label("live"), sa.func.sum(memories.c.length).label("length"))
        .where(which, memories.c.state == "live")
        .group_by(memories.c.owner_no)
    )
    rows = sorted(tx.execute(counted).all())
    if rows:
        tx.execute(
            sa.update(owners)
            .where(owners.c.no == sa.bindparam("owner"))
            .values(live=owners.c.live - sa.bindparam("fewer"), length=owners.c.length - sa.bindparam("shorter")),
            [{"owner": row.owner_no, "fewer": row.live, "shorter": int(row.length)} for row in rows],
        )


def _tell_history(
    tx: Connection,
    which: sa.ColumnElement[bool],
    *,
    actor: str | None,
    reason: str | None,
    now: datetime,
    redact: bool,
    keep: HistoryMode,
) -> None:
    told: dict[str, sa.ColumnElement[Any]] = {
        "memory_id": memories.c.id,
        "namespace": memories.c.namespace,
        "version": memories.c.version + 1,
        "event": sa.literal(Event.DELETE.value),
        "actor_id": sa.literal(actor, sa.Text),
        "role": memories.c.role,
        "reason": sa.literal(reason, sa.Text),
        "at": sa.literal(now, history.c.at.type),
    }
    if not redact and keep is HistoryMode.FULL:
        told["old_text"] = memories.c.text
    elif not redact:
        told |= {"old_hash": memories.c.md5, "old_length": sa.func.length(memories.c.text)}
    rows = sa.select(*(column.label(name) for name, column in told.items())).where(which).order_by(memories.c.no)
    tx.execute(sa.insert(history).from_select(list(told), rows))


def _tell_index(tx: Connection, which: sa.ColumnElement[bool], *, now: datetime) -> None:
    """`outbox.enqueue`, for all of them in one statement, and in the order in which it takes them."""
    at = sa.literal(now, outbox.c.next_at.type)
    columns = ("kind", "object_id", "namespace", "version", "queued_at", "next_at", "attempts", "parked", "trace")
    trace = sa.literal(tracing.current(), sa.Text)
    told = (sa.literal("memory"), memories.c.id, memories.c.namespace, memories.c.version + 1, at, at, sa.literal(0), sa.false(), trace)
    rows = sa.select(*told).where(which).order_by(memories.c.id)
    statement = insert(tx, outbox).from_select(columns, rows)
    tx.execute(requeue(statement))
