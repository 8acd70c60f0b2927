"""A memory outside a ledger: what an export writes, one JSON line each, and what an import reads (`portable_read`)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from memline.contracts.content_hash import text_md5
from memline.contracts.fact import Relation
from memline.contracts.scope import Scope

__all__ = ["FORMAT", "FORMAT_VERSION", "ExportHeader", "PortableEvent", "PortableLink", "PortableMemory", "PortableSighting"]

#: What the first line of a file says it is.
FORMAT = "memline-export"

#: Of the lines; an older memline refuses a newer file.
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ExportHeader:
    """The first line: what follows, and from where."""

    #: memline's own version, for who reads the file.
    memline: str
    namespace: str
    #: The ids that were asked for, under mem0's names; none: the whole namespace.
    scope: Mapping[str, str]
    #: How many memories follow: a file that holds fewer was cut off.
    memories: int
    #: Model and dimension of the vectors; None for a ledger that never had one.
    embedder: tuple[str, int] | None
    vectors: bool
    history: bool
    exported_at: datetime

    def to_json(self) -> dict[str, Any]:
        model = None if self.embedder is None else {"model": self.embedder[0], "dimension": self.embedder[1]}
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "memline": self.memline,
            "namespace": self.namespace,
            "scope": dict(self.scope),
            "memories": self.memories,
            "embedder": model,
            "vectors": self.vectors,
            "history": self.history,
            "exported_at": self.exported_at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class PortableLink:
    """A memory refers to an older one."""

    to: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class PortableSighting:
    """A memory was said again, in another turn."""

    turn: str
    at: datetime


@dataclass(frozen=True, slots=True)
class PortableEvent:
    """One row of a memory's history. Texts, or their MD5 and length where the ledger keeps no texts."""

    version: int
    event: str
    at: datetime
    old_text: str | None = None
    new_text: str | None = None
    job_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    reason: str | None = None
    old_hash: str | None = None
    new_hash: str | None = None
    old_length: int | None = None
    new_length: int | None = None
    changes: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Without what is not set."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: _plain(value) for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PortableMemory:
    """A memory with all that can't be made from its text again. Deleted ones have no such form."""

    id: str
    scope: Scope
    text: str
    state: str
    created_at: datetime
    updated_at: datetime
    occurred_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    superseded_by: str | None = None
    expires_on: date | None = None
    version: int = 1
    verbatim: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    attributed_to: str | None = None
    role: str | None = None
    actor_id: str | None = None
    memory_type: str | None = None
    slot: str | None = None
    #: Memories of one turn have one value here, and lie beside each other in their lane.
    turn: str = ""
    links: tuple[PortableLink, ...] = ()
    sightings: tuple[PortableSighting, ...] = ()
    #: Oldest first, one event a version; None: it was not exported.
    history: tuple[PortableEvent, ...] | None = None
    #: float32, little-endian, of the header's embedder.
    vector: bytes | None = None

    @property
    def md5(self) -> str:
        return text_md5(self.text)

    def with_ids(self, renamed: Callable[[str], str]) -> PortableMemory:
        """The same under another id; what it refers to, too."""
        history = self.history
        if history is not None:
            history = tuple(replace(event, reason=_renamed_in(event.reason, renamed)) for event in history)
        return replace(
            self,
            id=renamed(self.id),
            superseded_by=None if self.superseded_by is None else renamed(self.superseded_by),
            links=tuple(replace(link, to=renamed(link.to)) for link in self.links),
            history=history,
        )

    def to_json(self) -> dict[str, Any]:
        """One line of an export. Times are ISO-8601 with their offset, `vector` base64 of float32, little-endian."""
        line: dict[str, Any] = {"id": self.id, **self.scope.ids(), "text": self.text, "hash": self.md5, "state": self.state}
        for name in _SHOWN:
            value = getattr(self, name)
            if value is not None and value != "":
                line[name] = _plain(value)
        line["metadata"] = dict(self.metadata)
        if self.links:
            line["links"] = [{"to": link.to, "relation": link.relation.value} for link in self.links]
        if self.sightings:
            line["sightings"] = [{"turn": seen.turn, "at": seen.at.isoformat()} for seen in self.sightings]
        if self.history is not None:
            line["history"] = [event.to_json() for event in self.history]
        if self.vector is not None:
            line["vector"] = base64.b64encode(self.vector).decode("ascii")
        return line


_SHOWN = (
    "version", "created_at", "updated_at", "occurred_at", "valid_from", "valid_to", "superseded_by", "expires_on", "verbatim",
    "attributed_to", "role", "actor_id", "memory_type", "slot", "turn",
)  # fmt: skip


#: Reasons in a history that name another memory.
_NAMING = ("superseded by ", "made room for ")


def _renamed_in(reason: str | None, renamed: Callable[[str], str]) -> str | None:
    for words in _NAMING:
        if reason is not None and reason.startswith(words):
            return words + renamed(reason.removeprefix(words))
    return reason


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, (date, datetime)) else value
