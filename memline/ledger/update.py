"""Changing a memory: its text, metadata or expiration date, under a version that is compared in the transaction that writes.

Whose memory it is, who said it and when (scope ids, actor, role, `attributed_to`, `occurred_at`, `valid_from`) is not changed by an update.
A superseded memory stays superseded. One that expired is live again when its new date allows it, or superseded where a newer answer of
its slot was given meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.content_hash import content_hash, text_md5
from memline.contracts.errors import DuplicateMemory, MemoryNotFound
from memline.contracts.filters import ScopeIds
from memline.contracts.ids import digest_of
from memline.contracts.receipt import Event
from memline.contracts.scope import Scope
from memline.ledger.entities import Named, known_names, link_entities
from memline.ledger.expire import expire_memory
from memline.ledger.history import HistoryMode, changes_between, write_history
from memline.ledger.locks import lock_owners, lock_subjects
from memline.ledger.memories import MemoryRow, load_memories, load_memory
from memline.ledger.outbox import enqueue
from memline.ledger.retire import drop_postings, drop_unnamed
from memline.ledger.schema import entity_links, memories, next_vectors, owners, postings, vectors

__all__ = ["Edit", "NewText", "lock_memory", "update_memory"]


@dataclass(frozen=True, slots=True)
class NewText:
    """What is made of a new text, outside the transaction."""

    vector: bytes
    slot: str | None
    #: Normalised names that it mentions, and those of them that are new in the scope.
    mentions: Sequence[str]
    new_names: Sequence[Named]


@dataclass(frozen=True, slots=True)
class Edit:
    """A memory as it shall be; made from the version that the caller read."""

    text: str
    metadata: Mapping[str, Any]
    expires_on: date | None
    #: Term -> how often, where they must be written: with a new text, or since an expired memory lost its own.
    terms: Mapping[str, int] | None = None
    #: None: the text stays.
    new: NewText | None = None
    actor: str | None = None
    reason: str | None = None


def lock_memory(tx: Connection, row: MemoryRow, within: ScopeIds | None = None) -> MemoryRow:
    """The memory as it is now that nobody else changes it.

    Raises MemoryNotFound where it was deleted since *row* was read, or lies outside *within*.
    """
    scope = Scope(row.namespace, row.user_id, row.agent_id, row.run_id)
    lock_subjects(tx, scope.subjects)
    lock_owners(tx, [scope.owner.key])
    found = load_memory(tx, row.namespace, row.id, within)
    if found is None:
        raise MemoryNotFound(row.id)
    return found


def update_memory(tx: Connection, row: MemoryRow, edit: Edit, *, model: str, now: datetime, keep: HistoryMode = HistoryMode.FULL) -> int:
    """Writes *edit* over *row*, locked by `lock_memory`; returns its new version.

    Raises DuplicateMemory where another live memory of the scope says the same.
    """
    version = row.version + 1
    state, ended = _state_after(tx, row, edit, now.date())
    hashed = content_hash(edit.text)
    if state == "live":
        _make_room(tx, row, hashed, now=now, keep=keep)
    length = row.length if edit.terms is None else sum(edit.terms.values())
    values: dict[str, Any] = {
        "text": edit.text,
        "content_hash": hashed,
        "md5": text_md5(edit.text),
        "digest": digest_of(edit.text, hashed),
        "length": length,
        "metadata": dict(edit.metadata),
        "expires_on": edit.expires_on,
        "state": state,
        "version": version,
        "updated_at": now,
        **ended,
    }
    if edit.new is not None:
        values["slot"] = _free_slot(tx, row, edit.new.slot)
    tx.execute(sa.update(memories).where(memories.c.no == row.no).values(values))
    _count(tx, row, state=state, length=length)
    if edit.terms is not None:
        drop_postings(tx, [row.no])
        if state in ("live", "superseded"):
            _write_terms(tx, row, edit.terms, length=length, live=state == "live")
    if edit.new is not None:
        made = {"vector": edit.new.vector, "model": model, "dimension": len(edit.new.vector) // 4}
        tx.execute(sa.update(vectors).where(vectors.c.memory_no == row.no).values(made))
        tx.execute(sa.delete(next_vectors).where(next_vectors.c.memory_no == row.no))
        _relink(tx, row, edit.new, model=model, now=now)
    write_history(tx, [_told(row, edit, version, now)], keep=keep)
    enqueue(tx, "memory", {row.id: (row.namespace, version)}, now=now)
    return version


def _state_after(tx: Connection, row: MemoryRow, edit: Edit, today: date) -> tuple[str, dict[str, Any]]:
    """The state, and how it ended where a newer answer is there. An expired memory that is past its new day, too, stays expired."""
    if row.state != "expired" or (edit.expires_on is not None and edit.expires_on < today):
        return row.state, {}
    if row.slot is None or edit.new is not None:
        return "live", {}
    newer = tx.execute(
        sa.select(memories.c.id, memories.c.valid_from)
        .where(
            memories.c.owner_no == row.owner_no,
            memories.c.slot == row.slot,
            memories.c.valid_from > row.valid_from,
            memories.c.state != "deleted",
            memories.c.id != row.id,
        )
        .order_by(memories.c.valid_from, memories.c.no)
        .limit(1)
    ).one_or_none()
    return ("live", {}) if newer is None else ("superseded", {"superseded_by": newer.id, "valid_to": newer.valid_from})


def _make_room(tx: Connection, row: MemoryRow, hashed: str, *, now: datetime, keep: HistoryMode) -> None:
    """A live twin refuses the change, one that is past its day makes room."""
    twins = tx.execute(
        sa.select(memories.c.no).where(
            memories.c.lane == row.lane, memories.c.content_hash == hashed, memories.c.state == "live", memories.c.no != row.no
        )
    ).scalars()
    for twin in load_memories(tx, row.namespace, nos=twins):
        if not twin.is_expired(now.date()):
            raise DuplicateMemory(
                f"Memory {twin.id} of the same scope says the same already: {row.id} was not changed. Keep that one and delete this, or "
                "the other way round.",
                memory_id=row.id,
                duplicate_of=twin.id,
            )
        expire_memory(tx, twin, now=now, reason=f"made room for {row.id}", keep=keep)


def _free_slot(tx: Connection, row: MemoryRow, slot: str | None) -> str | None:
    """The slot of a new text. Where others of the owner answer that question, it takes no part: an update puts nobody in the past."""
    if slot is None or slot == row.slot:
        return slot
    others = sa.select(memories.c.no).where(memories.c.owner_no == row.owner_no, memories.c.slot == slot, memories.c.no != row.no)
    return None if tx.execute(others.limit(1)).one_or_none() is not None else slot


def _count(tx: Connection, row: MemoryRow, *, state: str, length: int) -> None:
    before = (1, row.length) if row.state == "live" else (0, 0)
    after = (1, length) if state == "live" else (0, 0)
    if before != after:
        tx.execute(
            sa.update(owners)
            .where(owners.c.no == row.owner_no)
            .values(live=owners.c.live + after[0] - before[0], length=owners.c.length + after[1] - before[1])
        )


def _write_terms(tx: Connection, row: MemoryRow, terms: Mapping[str, int], *, length: int, live: bool) -> None:
    rows = [
        {"owner_no": row.owner_no, "term": term, "memory_no": row.no, "tf": tf, "length": length, "live": live}
        for term, tf in terms.items()
    ]
    if rows:
        tx.execute(sa.insert(postings), rows)


def _relink(tx: Connection, row: MemoryRow, new: NewText, *, model: str, now: datetime) -> None:
    """Links the memory to the names of its new text only; names that nothing has any more go."""
    pairs = [(row.lane, norm, row.no) for norm in new.mentions]
    link_entities(tx, {row.lane: (row.namespace, row.owner_no)}, new.new_names, pairs, model=model, now=now)
    named = set(known_names(tx, [(row.lane, norm) for norm in new.mentions]).values()) if pairs else set()
    old = sa.select(entity_links.c.entity_no).where(entity_links.c.memory_no == row.no)
    left = set(tx.execute(old).scalars()) - named
    if left:
        tx.execute(sa.delete(entity_links).where(entity_links.c.memory_no == row.no, entity_links.c.entity_no.in_(sorted(left))))
        drop_unnamed(tx, left, now=now)


def _told(row: MemoryRow, edit: Edit, version: int, now: datetime) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if metadata := changes_between(row.metadata, edit.metadata):
        changes["metadata"] = metadata
    if row.expires_on != edit.expires_on:
        days = {"old": row.expires_on, "new": edit.expires_on}
        changes["expiration_date"] = {side: day.isoformat() for side, day in days.items() if day is not None}
    return {
        "memory_id": row.id,
        "namespace": row.namespace,
        "version": version,
        "event": Event.UPDATE.value,
        "old_text": row.text,
        "new_text": edit.text,
        "job_id": None,
        "actor_id": edit.actor,
        "role": row.role,
        "reason": edit.reason,
        "at": now,
        "changes": changes or None,
    }
