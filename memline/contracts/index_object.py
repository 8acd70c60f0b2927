"""What an index holds of a memory or an entity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memline.contracts.ids import digest_of

__all__ = ["IndexObject", "Kind", "ObjectKey"]

Kind = Literal["memory", "entity"]


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Names an object of an index."""

    kind: Kind
    namespace: str
    id: str


@dataclass(frozen=True, slots=True)
class IndexObject:
    """An index entry, made from a committed row. It holds no text: terms and a vector are enough to nominate."""

    key: ObjectKey
    version: int
    user_id: str | None
    agent_id: str | None
    run_id: str | None
    #: Analysed terms, sorted, with repeats; of an entity its normalised name.
    terms: tuple[str, ...]
    #: float32, little-endian, of length 1.
    vector: bytes

    @property
    def digest(self) -> str:
        """32 hex digits over everything but the vector: recomputed from what an index returns, it shows a change by hand."""
        key = self.key
        return digest_of(key.kind, key.namespace, key.id, str(self.version), self.user_id, self.agent_id, self.run_id, " ".join(self.terms))

    @property
    def vector_digest(self) -> str:
        """32 hex digits over the vector."""
        return digest_of(self.vector)
