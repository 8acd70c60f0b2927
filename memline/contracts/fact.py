"""What a turn says, between extraction and the ledger: facts, their analysis, their entities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

__all__ = ["Analysis", "EntityMention", "EntityType", "Fact", "Link", "Relation"]


class Relation(StrEnum):
    """How a new fact stands to a known memory."""

    UPDATES = "updates"
    EXTENDS = "extends"
    CONTRADICTS = "contradicts"
    RELATES = "relates"

    @property
    def closes(self) -> bool:
        """The known memory is no longer current."""
        return self in (Relation.UPDATES, Relation.CONTRADICTS)


@dataclass(frozen=True, slots=True)
class Link:
    """A known memory that a new fact refers to."""

    memory_id: str
    relation: Relation = Relation.RELATES


@dataclass(frozen=True, slots=True)
class Fact:
    """One self-contained statement of a turn."""

    text: str
    #: Who said it: "user" or "assistant".
    attributed_to: str = "user"
    links: tuple[Link, ...] = ()
    #: A single-valued question that this fact answers ("user|live in"): a newer answer closes the older one of the same owner.
    slot: str | None = None
    #: Index of the message in the turn, where the extractor can tell.
    message: int | None = None
    #: Role of the message, of verbatim memories (`infer=False`) only.
    role: str | None = None
    #: The `name` of whoever said it, where the message has one.
    actor: str | None = None
    #: Where in that message it was said, in characters: [start, end).
    span: tuple[int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "attributed_to": self.attributed_to,
            "links": [[link.memory_id, link.relation.value] for link in self.links],
            "slot": self.slot,
            "message": self.message,
            "role": self.role,
            "actor": self.actor,
            "span": None if self.span is None else list(self.span),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Fact:
        links = tuple(Link(memory_id, Relation(relation)) for memory_id, relation in raw["links"])
        span = None if raw.get("span") is None else (raw["span"][0], raw["span"][1])
        return cls(raw["text"], raw["attributed_to"], links, raw["slot"], raw["message"], raw["role"], raw["actor"], span)


EntityType = Literal["PROPER", "QUOTED", "TOPIC", "IDENTIFIER"]


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A name in a text, as written there."""

    name: str
    type: EntityType

    @property
    def normalised(self) -> str:
        """The form under which names are the same entity: trimmed, lower-cased, single spaces."""
        return " ".join(self.name.lower().split())


@dataclass(frozen=True, slots=True)
class Analysis:
    """A text looked at once: terms for BM25 (in order, with repeats) and the entities it names."""

    terms: tuple[str, ...]
    entities: tuple[EntityMention, ...]
