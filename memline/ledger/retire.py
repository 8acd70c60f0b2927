"""Taking a memory out of the committed set: its row stays, without its text; everything made from the text goes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import MemoryNotFound
from memline.contracts.receipt import Event
from memline.contracts.scope import Scope
from memline.ledger.history import write_history
from memline.ledger.locks import lock_owners, lock_subjects
from memline.ledger.memories import MemoryRow, load_memory
from memline.ledger.outbox import enqueue
from memline.ledger.schema import entities, entity_links, memories, memory_links, owners, postings, vectors
from memline.ledger.session import Ledger

__all__ = ["delete_memories", "delete_memory", "drop_postings"]


def delete_memory(ledger: Ledger, namespace: str, memory_id: str, *, now: datetime) -> None:
    """Deletes one memory; raises MemoryNotFound for an unknown id and for one of another namespace."""
    with ledger.write() as tx:
        row = load_memory(tx, namespace, memory_id)
        if row is not None:
            scope = Scope(row.namespace, row.user_id, row.agent_id, row.run_id)
            lock_subjects(tx, scope.subjects)
            lock_owners(tx, [scope.owner.key])
            row = load_memory(tx, namespace, memory_id)  # as it is now that nobody else changes it
        if row is None:
            raise MemoryNotFound(memory_id)
        delete_memories(tx, [row], actor=None, reason=None, now=now)


def delete_memories(tx: Connection, rows: Sequence[MemoryRow], *, actor: str | None, reason: str | None, now: datetime) -> None:
    """Deletes memories with their postings, vectors, links and the entities that nothing names any more; tells the index.

    The caller holds the subjects' locks and the owners'.
    """
    nos = [row.no for row in rows]
    for row in rows:
        tx.execute(
            sa.update(memories)
            .where(memories.c.no == row.no)
            .values(state="deleted", text="", metadata={}, slot=None, superseded_by=None, length=0, version=row.version + 1, updated_at=now)
        )
        if row.state == "live":
            tx.execute(
                sa.update(owners).where(owners.c.no == row.owner_no).values(live=owners.c.live - 1, length=owners.c.length - row.length)
            )
    drop_postings(tx, nos)
    tx.execute(sa.delete(vectors).where(vectors.c.memory_no.in_(nos)))
    tx.execute(sa.delete(memory_links).where(sa.or_(memory_links.c.memory_no.in_(nos), memory_links.c.to_no.in_(nos))))
    _unlink_entities(tx, nos, now=now)
    write_history(
        tx,
        [
            {
                "memory_id": row.id,
                "namespace": row.namespace,
                "version": row.version + 1,
                "event": Event.DELETE.value,
                "old_text": row.text,
                "new_text": None,
                "job_id": None,
                "actor_id": actor,
                "role": row.role,
                "reason": reason,
                "at": now,
            }
            for row in rows
        ],
    )
    enqueue(tx, "memory", {row.id: (row.namespace, row.version + 1) for row in rows}, now=now)


def drop_postings(tx: Connection, nos: Sequence[int]) -> None:
    """Removes the terms of memories."""
    if nos:
        tx.execute(sa.delete(postings).where(postings.c.memory_no.in_(list(nos))))


def _unlink_entities(tx: Connection, nos: Sequence[int], *, now: datetime) -> None:
    touched = list(
        tx.execute(sa.delete(entity_links).where(entity_links.c.memory_no.in_(list(nos))).returning(entity_links.c.entity_no)).scalars()
    )
    if not touched:
        return
    empty = sa.and_(entities.c.no.in_(set(touched)), ~sa.exists().where(entity_links.c.entity_no == entities.c.no))
    gone = tx.execute(sa.delete(entities).where(empty).returning(entities.c.id, entities.c.namespace, entities.c.version)).all()
    enqueue(tx, "entity", {row.id: (row.namespace, row.version + 1) for row in gone}, now=now)
