"""What mem0 stored of a memory, as Qdrant, Weaviate or mem0's own get_all gives it back, becomes a memory of memline's.

A payload has the text under `data` and its MD5 under `hash`, times, the scope ids, who said it, and beside these whatever metadata the
caller gave, at the top level; get_all has the text under `memory` and the metadata apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

from memline.contracts.content_hash import text_md5
from memline.contracts.errors import InvalidDate, InvalidInput
from memline.contracts.ids import derived_id
from memline.contracts.portable import PortableMemory
from memline.contracts.scope import ID_KEYS, Scope
from memline.contracts.turn import check_expiration, check_metadata, check_text, check_timestamp
from memline.pipeline.extractors.slots import slot_of

__all__ = ["NOTES", "memory_of"]

#: What is counted on the way, and what it means.
NOTES = {
    "empty": "without a text",
    "entities": "rows of mem0's entity store (entities are found anew)",
    "without_a_time": "without a time that can be read (they have the time of the import)",
    "times_without_zone": "with a time without a zone (read as UTC)",
    "unreadable_expirations": "with an expiration date that is none (they never expired in mem0, and don't here)",
    "hash_differs": "whose hash is not that of their text",
    "new_ids": "whose id is no UUID (they have another)",
}

_OWN = {
    "data", "hash", "text_lemmatized", "created_at", "updated_at", *ID_KEYS, "actor_id", "role", "attributed_to", "expiration_date",
    "memory_type",
}  # fmt: skip

#: What get_all and search show beside these.
_SHOWN = {"id", "memory", "metadata", "score", "score_details", "rerank_score"}


def memory_of(item: object, namespace: str, ids: Mapping[str, str], *, now: datetime, notes: Counter[str]) -> PortableMemory | None:
    """The memory in *item*; None for what is none, which is counted in *notes* by a name of `NOTES`.

    *ids*: scope ids for those that name none at all. Raises InvalidInput for what can't be a memory here.
    """
    stored, raw_id = _stored(item)
    if "linked_memory_ids" in stored or "entity_type" in stored:
        notes["entities"] += 1
        return None
    text = stored.get("data")
    if text is None or (isinstance(text, str) and not text.strip()):
        notes["empty"] += 1
        return None
    if not isinstance(text, str):
        raise InvalidInput(f"data must be a string, not {type(text).__name__}.")
    check_text("data", text)
    if stored.get("hash") and stored["hash"] != text_md5(text):
        notes["hash_differs"] += 1
    own_ids = {name: stored[name] for name in ID_KEYS if stored.get(name) not in (None, "")}
    scope = Scope.of(namespace, **(own_ids or ids))
    created_at = _time(stored, "created_at", notes) or _time(stored, "updated_at", notes)
    if created_at is None:
        notes["without_a_time"] += 1
        created_at = now
    updated_at = _time(stored, "updated_at", notes) or created_at
    attributed_to, role = _word(stored, "attributed_to"), _word(stored, "role")
    # mem0 writes a role where it kept the message as it stood, and who said it where it extracted
    verbatim = role is not None and attributed_to is None
    return PortableMemory(
        id=_id(raw_id, scope, text, notes),
        scope=scope,
        text=text,
        state="live",
        created_at=created_at,
        updated_at=max(created_at, updated_at),
        occurred_at=created_at,
        valid_from=created_at,
        expires_on=_expiration(stored, notes),
        verbatim=verbatim,
        metadata=check_metadata(_metadata(stored)),
        attributed_to=attributed_to,
        role=role,
        actor_id=_word(stored, "actor_id"),
        memory_type=_word(stored, "memory_type"),
        slot=None if verbatim else slot_of(text),
    )


def _stored(item: object) -> tuple[dict[str, Any], Any]:
    """The payload of an item, under the names of Qdrant's, and its id."""
    if not isinstance(item, dict):
        raise InvalidInput(f"must be an object, not {type(item).__name__}.")
    if isinstance(item.get("payload"), dict):
        return item["payload"], item.get("id")
    if isinstance(item.get("properties"), dict):
        # Weaviate shows what an object does not have as null
        return {name: value for name, value in item["properties"].items() if value is not None and name != "ids"}, item.get("id")
    if "memory" in item:
        known = {name: value for name, value in item.items() if name not in _SHOWN}
        metadata = item.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise InvalidInput(f"metadata must be an object, not {type(metadata).__name__}.")
        return {**metadata, **known, "data": item["memory"]}, item.get("id")
    if "data" in item:
        return {name: value for name, value in item.items() if name != "id"}, item.get("id")
    raise InvalidInput("neither a point of Qdrant (payload), nor an object of Weaviate (properties), nor an item of get_all (memory).")


def _metadata(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stored.items() if name not in _OWN}


def _id(raw: Any, scope: Scope, text: str, notes: Counter[str]) -> str:
    try:
        return str(UUID(raw))
    except (ValueError, AttributeError, TypeError):
        notes["new_ids"] += 1
        return derived_id("mem0", scope.lane, text if raw is None else str(raw))


def _time(stored: Mapping[str, Any], name: str, notes: Counter[str]) -> datetime | None:
    value = stored.get(name)
    try:
        found = check_timestamp(value)
    except InvalidDate:
        return None
    if isinstance(value, str) and datetime.fromisoformat(value).tzinfo is None:
        notes["times_without_zone"] += name == "created_at"
    return found


def _expiration(stored: Mapping[str, Any], notes: Counter[str]) -> date | None:
    try:
        return check_expiration(stored.get("expiration_date"))
    except InvalidDate:
        notes["unreadable_expirations"] += 1
        return None


def _word(stored: Mapping[str, Any], name: str) -> str | None:
    value = stored.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string, not {type(value).__name__}.")
    return check_text(name, value)
