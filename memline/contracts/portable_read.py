"""Reads the lines of an export, and says of each that is wrong which field it is; never what it holds."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from memline.contracts.content_hash import text_md5
from memline.contracts.errors import InvalidInput
from memline.contracts.fact import Relation
from memline.contracts.portable import FORMAT, FORMAT_VERSION, ExportHeader, PortableEvent, PortableLink, PortableMemory, PortableSighting
from memline.contracts.receipt import Event
from memline.contracts.scope import ID_KEYS, Scope
from memline.contracts.turn import check_expiration, check_metadata, check_text

__all__ = ["check_uuid", "is_header", "read_header", "read_memory"]

_STATES = ("live", "superseded", "expired")
_EVENTS = tuple(event.value for event in Event if event is not Event.DUPLICATE)
_MD5 = re.compile(r"[0-9a-f]{32}", re.ASCII)

#: Longest value of a small field (a role, a reason, a slot), in characters.
_LONGEST = 1024

#: Versions, ordinals and lengths are 32-bit numbers in the ledger.
_MOST = 2**31 - 1

_KNOWN = frozenset(
    {
        "id", *ID_KEYS, "text", "hash", "state", "version", "created_at", "updated_at", "occurred_at", "valid_from", "valid_to",
        "superseded_by", "expires_on", "verbatim", "attributed_to", "role", "actor_id", "memory_type", "slot", "turn", "metadata", "links",
        "sightings", "history", "vector",
    }
)  # fmt: skip


def is_header(line: object) -> bool:
    """A parsed first line says that this is an export of memline's."""
    return isinstance(line, dict) and line.get("format") == FORMAT


def read_header(line: Mapping[str, Any]) -> ExportHeader:
    """The header behind a parsed first line. Raises InvalidInput."""
    version = _number(line, "version", least=1)
    if version > FORMAT_VERSION:
        raise InvalidInput(f"version is {version}, this memline reads exports up to version {FORMAT_VERSION}: upgrade it.")
    embedder = line.get("embedder")
    if embedder is not None and not isinstance(embedder, dict):
        raise InvalidInput(f"embedder must be an object, not {type(embedder).__name__}.")
    scope = line.get("scope") or {}
    return ExportHeader(
        memline=_text(line, "memline") or "",
        namespace=_text(line, "namespace") or "",
        scope=scope if isinstance(scope, dict) else {},
        memories=_number(line, "memories", least=0),
        embedder=None if embedder is None else (_needed(embedder, "model"), _number(embedder, "dimension", least=1)),
        vectors=_flag(line, "vectors"),
        history=_flag(line, "history"),
        exported_at=_time(line, "exported_at"),
    )


def read_memory(line: Mapping[str, Any], namespace: str, header: ExportHeader, *, ignore: Collection[str] = ()) -> PortableMemory:
    """The memory behind a parsed line, as one of *namespace*. Raises InvalidInput that names the field."""
    unknown = sorted(line.keys() - _KNOWN - set(ignore))
    if unknown:
        raise InvalidInput(f"unknown field {', '.join(name[:40] for name in unknown[:5])}: pass it over with --ignore.")
    text = _needed(line, "text", longest=None)
    hashed = _text(line, "hash")
    if hashed is not None and hashed != text_md5(text):
        raise InvalidInput("hash is not that of the text: one of the two was changed. Leave hash out if the text is meant.")
    state = _one_of(line, "state", _STATES)
    superseded_by = _id(line, "superseded_by")
    memory_id = check_uuid("id", line.get("id"))
    if (state == "superseded") != (superseded_by is not None):
        raise InvalidInput("superseded_by belongs to a memory whose state is superseded, and to no other.")
    if superseded_by == memory_id:
        raise InvalidInput("superseded_by is its own id.")
    version = _number(line, "version", least=1)
    created_at = _time(line, "created_at")
    occurred_at = _time(line, "occurred_at", created_at)
    return PortableMemory(
        id=memory_id,
        scope=Scope.of(namespace, **{name: line.get(name) for name in ID_KEYS}),
        text=text,
        state=state,
        created_at=created_at,
        updated_at=_time(line, "updated_at", created_at),
        occurred_at=occurred_at,
        valid_from=_time(line, "valid_from", occurred_at),
        valid_to=None if line.get("valid_to") is None else _time(line, "valid_to"),
        superseded_by=superseded_by,
        expires_on=_date(line, "expires_on"),
        version=version,
        verbatim=_flag(line, "verbatim"),
        metadata=check_metadata(line.get("metadata")),
        attributed_to=_text(line, "attributed_to"),
        role=_text(line, "role"),
        actor_id=_text(line, "actor_id", longest=None),
        memory_type=_text(line, "memory_type"),
        slot=_text(line, "slot"),
        turn=_text(line, "turn") or memory_id,
        links=_links(line),
        sightings=_sightings(line),
        history=_history(line, text, state, version),
        vector=_vector(line, header),
    )


def check_uuid(path: str, value: object) -> str:
    """*value* as a UUID in its usual form, which the index needs as an id. Raises InvalidInput."""
    if isinstance(value, str):
        try:
            return str(UUID(value))
        except ValueError:
            pass
    raise InvalidInput(f"{path} must be a UUID{'' if value is not None else ', and it is missing'}.")


def _links(line: Mapping[str, Any]) -> tuple[PortableLink, ...]:
    found = []
    for index, raw in enumerate(_list(line, "links")):
        path = f"links[{index}]"
        relation = _one_of(raw, "relation", tuple(Relation), path)
        found.append(PortableLink(check_uuid(f"{path}.to", raw.get("to")), Relation(relation)))
    return tuple(found)


def _sightings(line: Mapping[str, Any]) -> tuple[PortableSighting, ...]:
    found = [(f"sightings[{index}]", raw) for index, raw in enumerate(_list(line, "sightings"))]
    return tuple(PortableSighting(_needed(raw, "turn", path), _time(raw, "at", path=path)) for path, raw in found)


def _history(line: Mapping[str, Any], text: str, state: str, version: int) -> tuple[PortableEvent, ...] | None:
    if line.get("history") is None:
        return None
    found = tuple(_event(f"history[{index}]", raw) for index, raw in enumerate(_list(line, "history")))
    if [event.version for event in found] != list(range(1, version + 1)):
        raise InvalidInput(f"history must have one event a version, from 1 to {version}, in order.")
    last = found[-1]
    if state == "expired":
        told = last.event in (Event.EXPIRE, Event.UPDATE)
    else:
        told = last.new_text == text or (last.new_text is None and last.new_hash == text_md5(text))
    if not told:
        raise InvalidInput(f"history[{len(found) - 1}] does not tell the memory as it is.")
    return found


def _event(path: str, raw: Mapping[str, Any]) -> PortableEvent:
    changes = raw.get("changes")
    if changes is not None:
        changes = check_metadata({"changes": changes})["changes"]
        if not isinstance(changes, dict):
            raise InvalidInput(f"{path}.changes must be an object, not {type(changes).__name__}.")
    hashes = {name: _text(raw, name, path) for name in ("old_hash", "new_hash")}
    for name, value in hashes.items():
        if value is not None and not _MD5.fullmatch(value):
            raise InvalidInput(f"{path}.{name} must be an MD5, 32 hex digits.")
    lengths = {name: None if raw.get(name) is None else _number(raw, name, path, least=0) for name in ("old_length", "new_length")}
    return PortableEvent(
        version=_number(raw, "version", path, least=1),
        event=_one_of(raw, "event", _EVENTS, path),
        at=_time(raw, "at", path=path),
        old_text=_text(raw, "old_text", path, longest=None),
        new_text=_text(raw, "new_text", path, longest=None),
        job_id=_text(raw, "job_id", path),
        actor_id=_text(raw, "actor_id", path, longest=None),
        role=_text(raw, "role", path),
        reason=_text(raw, "reason", path),
        old_hash=hashes["old_hash"],
        new_hash=hashes["new_hash"],
        old_length=lengths["old_length"],
        new_length=lengths["new_length"],
        changes=changes,
    )


def _vector(line: Mapping[str, Any], header: ExportHeader) -> bytes | None:
    raw = line.get("vector")
    if raw is None:
        return None
    if not isinstance(raw, str) or header.embedder is None:
        raise InvalidInput("vector must be base64 of float32, under a header that names its embedder.")
    try:
        found = base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("vector is not base64.") from None
    if len(found) != 4 * header.embedder[1]:
        raise InvalidInput(f"vector has {len(found)} bytes, the header's dimension needs {4 * header.embedder[1]}.")
    return found


def _list(line: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = line.get(name) or []
    if not isinstance(found, list):
        raise InvalidInput(f"{name} must be a list, not {type(found).__name__}.")
    for index, each in enumerate(found):
        if not isinstance(each, dict):
            raise InvalidInput(f"{name}[{index}] must be an object, not {type(each).__name__}.")
    return found


def _path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _text(line: Mapping[str, Any], name: str, path: str = "", *, longest: int | None = _LONGEST) -> str | None:
    value = line.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{_path(path, name)} must be a string, not {type(value).__name__}.")
    if longest is not None and len(value) > longest:
        raise InvalidInput(f"{_path(path, name)} has {len(value)} characters, the longest has {longest}.")
    return check_text(_path(path, name), value)


def _needed(line: Mapping[str, Any], name: str, path: str = "", *, longest: int | None = _LONGEST) -> str:
    value = _text(line, name, path, longest=longest)
    if value is None or not value.strip():
        raise InvalidInput(f"{_path(path, name)} is {'missing' if value is None else 'blank'}.")
    return value


def _one_of(line: Mapping[str, Any], name: str, known: Collection[str], path: str = "") -> str:
    value = line.get(name)
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(f"{_path(path, name)} must be one of {', '.join(known)}.")
    return value


def _number(line: Mapping[str, Any], name: str, path: str = "", *, least: int) -> int:
    value = line.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InvalidInput(f"{_path(path, name)} must be a whole number from {least} on.")
    return value


def _flag(line: Mapping[str, Any], name: str) -> bool:
    value = line.get(name, False)
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false, not {type(value).__name__}.")
    return value


def _id(line: Mapping[str, Any], name: str) -> str | None:
    return None if line.get(name) is None else check_uuid(name, line[name])


def _date(line: Mapping[str, Any], name: str) -> date | None:
    try:
        return check_expiration(line.get(name))
    except InvalidInput:
        raise InvalidInput(f"{name} must be a date as YYYY-MM-DD.") from None


def _time(line: Mapping[str, Any], name: str, default: datetime | None = None, path: str = "") -> datetime:
    value = line.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
            if found.tzinfo is not None:
                return found.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise InvalidInput(f"{_path(path, name)} must be an ISO-8601 time with its offset, such as 2026-05-01T09:30:00+00:00.")
