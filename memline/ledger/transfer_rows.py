"""The rows of an imported memory: its own, and those of its history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memline.contracts.content_hash import content_hash
from memline.contracts.ids import digest_of
from memline.contracts.portable import PortableEvent, PortableMemory
from memline.contracts.receipt import Event

__all__ = ["arrival", "history_rows", "memory_row", "placeholder_history", "placeholder_row"]

#: What a memory that is no longer live went through, where its history did not come along.
_ENDED = {"superseded": Event.SUPERSEDE, "expired": Event.EXPIRE}


def memory_row(memory: PortableMemory, *, length: int, restored: int, now: datetime) -> dict[str, Any]:
    """The columns of *memory* but for its seat and owner. *restored*: the version of the deleted row it comes back to; 0: it is new."""
    hashed = content_hash(memory.text)
    scope = memory.scope
    counted = memory.version if memory.history is not None else 1 + (memory.state in _ENDED)
    return {
        "id": memory.id,
        "namespace": scope.namespace,
        "lane": scope.lane,
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "run_id": scope.run_id,
        "state": memory.state,
        "version": restored + 1 + (memory.state in _ENDED) if restored else counted,
        "text": memory.text,
        "content_hash": hashed,
        "md5": memory.md5,
        "digest": digest_of(memory.text, hashed),
        "length": length,
        "metadata": dict(memory.metadata),
        "attributed_to": memory.attributed_to,
        "role": memory.role,
        "actor_id": memory.actor_id,
        "memory_type": memory.memory_type,
        "verbatim": memory.verbatim,
        "slot": memory.slot,
        "message": None,
        "expires_on": memory.expires_on,
        "occurred_at": memory.occurred_at,
        "created_at": memory.created_at,
        "updated_at": now if restored else memory.updated_at,
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "superseded_by": memory.superseded_by,
    }


def history_rows(memory: PortableMemory, row: Mapping[str, Any], *, restored: int, now: datetime) -> list[dict[str, Any]]:
    """The history that *row* gets: the source's own, or how it came here."""
    if memory.history is not None and not restored:
        return [_row(row, event) for event in memory.history]
    told = [
        PortableEvent(
            restored + 1,
            Event.ADD.value,
            now if restored else memory.created_at,
            new_text=memory.text,
            actor_id=memory.actor_id,
            role=memory.role,
            reason="restored by an import" if restored else "imported without its history",
        )
    ]
    if memory.state in _ENDED:
        expired = memory.state == "expired"
        reason = "expired" if expired else f"superseded by {row['superseded_by']}"
        at = now if restored else memory.updated_at
        new_text = None if expired else memory.text
        told.append(PortableEvent(restored + 2, _ENDED[memory.state].value, at, old_text=memory.text, new_text=new_text, reason=reason))
    return [_row(row, event) for event in told]


def placeholder_row(memory: PortableMemory, placeholder_id: str, *, now: datetime) -> dict[str, Any]:
    """A deleted row, without content, for what superseded *memory* and is not here; but for its seat and owner."""
    row = memory_row(memory, length=0, restored=0, now=now)
    empty = dict.fromkeys(("attributed_to", "role", "actor_id", "memory_type", "slot", "expires_on", "superseded_by", "valid_to"))
    gone = {"id": placeholder_id, "state": "deleted", "version": 1, "text": "", "content_hash": "", "md5": "", "digest": "", "metadata": {}}
    times = {"created_at": now, "updated_at": now, "valid_from": memory.valid_to or memory.valid_from}
    return row | empty | gone | times


def placeholder_history(row: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """Its history: it was never here."""
    return _row(row, PortableEvent(1, Event.DELETE.value, now, reason="not imported"))


def arrival(row: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """What the feed of changes tells of *row*: that it is there, or what state it came in."""
    told = _ENDED.get(row["state"], Event.ADD).value
    return {"namespace": row["namespace"], "memory_id": row["id"], "version": row["version"], "event": told, "at": now}


def _row(row: Mapping[str, Any], event: PortableEvent) -> dict[str, Any]:
    told = {name: getattr(event, name) for name in PortableEvent.__dataclass_fields__}
    changes = None if event.changes is None else dict(event.changes)
    return told | {"memory_id": row["id"], "namespace": row["namespace"], "changes": changes}
