"""A turn: the messages handed over by one `add`, checked and in one form."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, cast

from memline.contracts.errors import InvalidDate, InvalidInput, InvalidScopeId, ScopeRequired, UnknownWireVersion
from memline.contracts.ids import digest_of
from memline.contracts.message import ROLES, Message, check_messages, check_text
from memline.contracts.scope import ID_KEYS, Scope

__all__ = [
    "MAX_KEY_LENGTH",
    "PROCEDURAL",
    "ROLES",
    "WIRE_VERSION",
    "Message",
    "Turn",
    "check_expiration",
    "check_idempotency_key",
    "check_memory_type",
    "check_messages",
    "check_metadata",
    "check_text",
    "check_timestamp",
]

#: Version of the stream entry that this memline reads; a worker leaves entries of a newer one to a newer worker. An entry is written in
#: the oldest version that says all of it, so that workers of the release before go on during an upgrade: 2 for a turn with images or a
#: memory type, else 1.
WIRE_VERSION = 2

#: The one other `memory_type` than none: what an agent did, step by step, as one memory.
PROCEDURAL = "procedural_memory"

#: Longest idempotency key, in characters.
MAX_KEY_LENGTH = 255

_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Turn:
    """What is handed over: content, options, and the marks that keep it one turn on its way."""

    id: str
    scope: Scope
    messages: tuple[Message, ...]
    handed_at: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)
    infer: bool = True
    prompt: str | None = None
    expires_on: date | None = None
    #: When it was said, where that is not when it was handed over.
    occurred_at: datetime | None = None
    idempotency_key: str | None = None
    #: The producer instance, and this turn's number in its lane there (from 1).
    producer: str = ""
    number: int = 0
    #: It lay in a spool before it reached the stream.
    spooled: bool = False
    #: `PROCEDURAL`, or None for facts.
    memory_type: str | None = None
    #: The `traceparent` of the span that handed it over, where one is recorded (`contracts.tracing`).
    trace: str | None = None
    #: What the write policy masked in it, by kind. It is no content: the fingerprint is that of the masked text.
    masked: Mapping[str, int] = field(default_factory=dict)

    @property
    def said_at(self) -> datetime:
        return self.occurred_at or self.handed_at

    @property
    def fingerprint(self) -> str:
        """What "the same content" means for an idempotency key: messages and options as the caller gave them."""
        return digest_of("turn", json.dumps(self._content(), ensure_ascii=False, sort_keys=True, separators=(",", ":")))

    def _content(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "messages": [message.to_json() for message in self.messages],
            "metadata": dict(self.metadata),
            "infer": self.infer,
            "prompt": self.prompt,
            "expires_on": self.expires_on.isoformat() if self.expires_on else None,
            "occurred_at": self.occurred_at.isoformat() if self.occurred_at else None,
        }
        # only where it is set: without it a turn's fingerprint is what it always was
        return found if self.memory_type is None else found | {"memory_type": self.memory_type}

    def as_spooled(self) -> Turn:
        return replace(self, spooled=True)

    @property
    def _wire_version(self) -> int:
        return 2 if self.memory_type is not None or any(message.images for message in self.messages) else 1

    def to_wire(self) -> str:
        """One line of JSON, for the stream and the spool."""
        scope = self.scope
        return json.dumps(
            {
                "v": self._wire_version,
                "id": self.id,
                "namespace": scope.namespace,
                **scope.ids(),
                **self._content(),
                "handed_at": self.handed_at.isoformat(),
                "key": self.idempotency_key,
                "producer": self.producer,
                "number": self.number,
                "spooled": self.spooled,
                # only where it is traced; a reader that knows of no traces passes over it
                **({} if self.trace is None else {"trace": self.trace}),
                **({"masked": dict(self.masked)} if self.masked else {}),
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )

    @classmethod
    def from_wire(cls, line: str | bytes) -> Turn:
        """The turn behind a stream entry; raises UnknownWireVersion for one that a newer memline wrote."""
        raw = json.loads(line)
        version = raw["v"]
        if version > WIRE_VERSION:
            raise UnknownWireVersion(
                f"The entry has schema version {version}, this memline reads up to {WIRE_VERSION}: upgrade this worker."
            )
        return cls(
            id=raw["id"],
            scope=Scope(raw["namespace"], *(raw.get(key) for key in ID_KEYS)),
            messages=tuple(Message.from_json(message) for message in raw["messages"]),
            handed_at=datetime.fromisoformat(raw["handed_at"]),
            metadata=raw["metadata"],
            infer=raw["infer"],
            prompt=raw["prompt"],
            expires_on=date.fromisoformat(raw["expires_on"]) if raw["expires_on"] else None,
            occurred_at=datetime.fromisoformat(raw["occurred_at"]) if raw["occurred_at"] else None,
            idempotency_key=raw["key"],
            producer=raw["producer"],
            number=raw["number"],
            spooled=raw["spooled"],
            memory_type=raw.get("memory_type"),
            trace=_trace(raw.get("trace")),
            masked=raw.get("masked", {}),
        )


def _trace(value: object) -> str | None:
    """A `traceparent`, or None for what is none: a trace is worth no turn."""
    return value if isinstance(value, str) and _TRACE.fullmatch(value) else None


def check_metadata(metadata: object) -> dict[str, Any]:
    """Metadata as plain JSON with string keys; scope ids do not belong in it (G11)."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata must be a dict, not {type(metadata).__name__}.")
    for key in (*ID_KEYS, "actor_id"):
        if key in metadata:
            raise InvalidScopeId(
                f"metadata must not contain {key}: identity comes from the arguments only. Pass {key}= to the call instead."
            )
    found = cast("dict[str, Any]", _check_json("metadata", metadata, depth=0))
    size = len(json.dumps(found, ensure_ascii=False).encode("utf-8"))
    if size > 65536:
        raise InvalidInput(f"metadata has {size} bytes as JSON, 65536 are allowed: keep large things elsewhere and store their id.")
    return found


def _check_json(path: str, value: object, depth: int) -> Any:
    if depth > 16:
        raise InvalidInput(f"{path} is nested more than 16 deep: flatten it.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > 1024:  # Python refuses to write out much longer ones
            raise InvalidInput(f"{path} is a number of {value.bit_length()} bits, 1024 are allowed: store it as a string.")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{path} is not a finite number, which JSON can't carry.")
        return value
    if isinstance(value, str):
        return check_text(path, value)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InvalidInput(f"A key in {path} is of type {type(key).__name__}: keys must be strings.")
        return {check_text(path, key): _check_json(f"{path}.{key[:64]}", item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_check_json(f"{path}[{index}]", item, depth + 1) for index, item in enumerate(value)]
    raise InvalidInput(f"{path} is of type {type(value).__name__}, which JSON can't carry: use strings, numbers, lists and dicts.")


def check_expiration(value: object) -> date | None:
    """An expiration date (inclusive, UTC) from YYYY-MM-DD, a date, or a datetime (an aware one is taken to UTC first)."""
    if value is None:
        return None
    if isinstance(value, datetime):
        try:
            return (value.astimezone(UTC) if value.tzinfo else value).date()
        except OverflowError:  # in UTC it is before the year 1, or after 9999
            raise InvalidDate("expiration_date must lie between the years 1 and 9999 in UTC.") from None
    if isinstance(value, date):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:  # the 31st of February
            pass
    raise InvalidDate("expiration_date must be a valid date in YYYY-MM-DD format.")


def check_timestamp(value: object) -> datetime | None:
    """When it was said, in UTC, from a datetime, an ISO-8601 string, or Unix seconds; a time without a zone is UTC."""
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, tz=UTC)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        pass
    raise InvalidDate("timestamp must be a datetime, an ISO-8601 time such as 2026-05-01T09:30:00Z, or Unix seconds.")


def check_idempotency_key(value: object) -> str | None:
    """An idempotency key: 1 to 255 printable characters, or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"idempotency_key must be a string, not {type(value).__name__}.")
    if not value.strip() or len(value) > MAX_KEY_LENGTH or not value.isprintable():
        raise InvalidInput(f"idempotency_key must be 1 to {MAX_KEY_LENGTH} printable characters, not blank; it has {len(value)}.")
    return value


def check_memory_type(value: object, scope: Scope) -> str | None:
    """*value* as a kind of memory: None for facts, or "procedural_memory", which an agent has. Raises InvalidInput and ScopeRequired."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"memory_type must be a string, not {type(value).__name__}.")
    if value != PROCEDURAL:
        raise InvalidInput(f"memory_type (a string of length {len(value)}) must be {PROCEDURAL!r}, or left out for facts.")
    if scope.agent_id is None:
        raise ScopeRequired(f"memory_type={PROCEDURAL!r} needs agent_id: it says what an agent did.")
    return PROCEDURAL
