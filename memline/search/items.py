"""Memories as callers see them: mem0's shapes, with memline's own fields beside them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memline.ledger.memories import MemoryRow
from memline.ledger.sightings import Sightings
from memline.search.entity_listing import EntityItem

__all__ = ["entity_item", "history_item", "memory_item", "sightings_item", "source_item"]

_CHANGED = ("changes", "old_hash", "new_hash", "old_length", "new_length")
_PRESENT = ("user_id", "agent_id", "run_id", "actor_id", "role", "attributed_to")


def memory_item(row: MemoryRow, score: float | None = None) -> dict[str, Any]:
    """One memory: mem0's keys, then `version`, `occurred_at`, and `valid_to` and `superseded_by` of one that is no longer current.

    `hash` is the MD5 of the exact text, `metadata` what the caller gave (None for nothing), `score` None outside a search. Times are
    ISO-8601 with their offset. Of the scope ids and of role, actor_id, attributed_to, expiration_date and memory_type those that are set.
    """
    item: dict[str, Any] = {
        "id": row.id,
        "memory": row.text,
        "hash": row.md5,
        "metadata": dict(row.metadata) if row.metadata else None,
        "score": score,
        "created_at": _time(row.created_at),
        "updated_at": _time(row.updated_at),
        "version": row.version,
    }
    item |= {name: value for name in _PRESENT if (value := getattr(row, name)) is not None}
    if row.expires_on is not None:
        item["expiration_date"] = row.expires_on.isoformat()
    if row.memory_type is not None:
        item["memory_type"] = row.memory_type
    item["occurred_at"] = _time(row.occurred_at)
    if row.valid_to is not None:
        item["valid_to"] = _time(row.valid_to)
    if row.superseded_by is not None:
        item["superseded_by"] = row.superseded_by
    return item


def source_item(row: MemoryRow) -> dict[str, Any]:
    """`source`: the turn that a memory came from, the number of its message there and the span in it, as far as they are known."""
    source: dict[str, Any] = {"job_id": row.job_id}
    if row.message is not None:
        source["message"] = row.message
    if row.span_start is not None and row.span_end is not None:
        source["span"] = [row.span_start, row.span_end]
    return {"source": source}


def sightings_item(found: Sightings) -> dict[str, Any]:
    """`sightings` of a memory that was said again: how often, and the newest times, oldest first; nothing where it was said once."""
    if not found.number:
        return {}
    return {"sightings": {"count": found.number, "said_at": [_time(at) for at in found.said_at]}}


def entity_item(item: EntityItem) -> dict[str, Any]:
    """One entity: its name and type, how many memories name it, the ids of the first of them, and the ids of its owner."""
    return {"name": item.name, "type": item.type, "count": item.count, "memory_ids": list(item.memory_ids), **item.owner}


def history_item(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row of a memory's history (`ledger.history.history_of`): mem0's keys, then `version`, `reason` and `job_id` (the turn, where one
    did it), `changes` (of metadata and expiration date) where there are any; and where MEMLINE_HISTORY keeps no texts, `old_hash` and
    `new_hash` (a memory's `hash`) with their lengths in characters.

    The id is made of the memory's and the version, since there is one row a version.
    """
    event = str(row["event"])
    at = _time(row["at"])
    item = {
        "id": f"{row['memory_id']}:{row['version']}",
        "memory_id": row["memory_id"],
        "old_memory": row["old_text"],
        "new_memory": row["new_text"],
        "event": event,
        "created_at": at,
        "updated_at": at,
        "is_deleted": event == "DELETE",
        "actor_id": row["actor_id"],
        "role": row["role"],
        "version": row["version"],
        "reason": row["reason"],
        "job_id": row.get("job_id"),
    }
    return item | {name: value for name in _CHANGED if (value := row.get(name)) is not None}


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat()
