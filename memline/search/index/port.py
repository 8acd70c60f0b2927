"""The port of an index. It holds objects made from committed rows and nominates; it never decides what a read returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.contracts.ids import digest_of
from memline.contracts.index_object import IndexObject, Kind, ObjectKey

__all__ = [
    "Answer",
    "ForgetsNamespaces",
    "Index",
    "IndexState",
    "KeepsVectors",
    "Nominee",
    "OfSpace",
    "RanksByLedger",
    "Recall",
    "Space",
    "SpacedIndex",
    "Write",
]


@dataclass(frozen=True, slots=True)
class Space:
    """What makes vectors comparable: the embedder's model, and the dimension."""

    model: str
    dimension: int

    @property
    def key(self) -> str:
        """8 hex digits that stand for this space in the name of a collection or a table."""
        return digest_of("space", self.model, str(self.dimension), size=4)


@dataclass(frozen=True, slots=True)
class Write:
    """What an index is told about an object: what it is now, or (`None`) that it is no more."""

    key: ObjectKey
    object: IndexObject | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What an index says to one write. `error` is None where it holds; never with text of a memory in it."""

    key: ObjectKey
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Nominee:
    """An object that a leg brings in, with the leg's raw value: a cosine (-1 to 1) or a BM25 score."""

    id: str
    value: float


@dataclass(frozen=True, slots=True)
class IndexState:
    """An object as a walk reads it: digests are recomputed from what is stored, never copied from it."""

    key: ObjectKey
    version: int
    digest: str
    vector_digest: str | None


@dataclass(frozen=True, slots=True)
class Recall:
    """Vectors that an index has in memory, with the versions they belong to."""

    #: By id, a row of the two arrays. It may name ids that came later: their rows lie beyond the arrays' ends.
    row_of: Mapping[str, int]
    #: (n,)
    versions: NDArray[np.int64]
    #: (n, dimension)
    vectors: NDArray[np.float32]


@runtime_checkable
class KeepsVectors(Protocol):
    """What an index may offer beside the port: a scorer then reads less from the ledger."""

    def recall(self, kind: Kind, namespace: str, scope: ScopeIds) -> Recall | None:
        """The vectors in *scope* that are in memory, as the last read left them; None where there are none."""
        ...


@runtime_checkable
class RanksByLedger(Protocol):
    """What an index is whose `matching` is the ledger's own (`words_leg`): a search that has read the postings ranks by them itself."""

    @property
    def ranks_by_ledger(self) -> bool: ...


@runtime_checkable
class OfSpace(Protocol):
    """What an index has that keeps the vectors of each space apart: two of them can stand side by side while the ledger moves."""

    @property
    def space(self) -> Space | None:
        """Whose vectors it holds; None: it was not told."""
        ...

    def drop(self) -> None:
        """Removes everything of this space; the object is of no use afterwards."""
        ...


@runtime_checkable
class ForgetsNamespaces(Protocol):
    """What an index has that keeps something of a namespace after its last object went."""

    def forget(self, namespace: str) -> None:
        """Removes what is left of a namespace that nobody will use again."""
        ...


class Index(Protocol):
    """Where memories and entities are found by nearness and by words.

    A read may be stale; a write that was answered without an error is seen by every later read. Raises ServiceUnavailable where
    the index does not answer. Thread-safe.
    """

    @property
    def name(self) -> str:
        """The backend, with its version."""
        ...

    @property
    def shares_ledger(self) -> bool:
        """Its tables lie in the ledger's own file: `write` runs inside the ledger's transaction."""
        ...

    @property
    def remote(self) -> bool:
        """A call leaves the process, and may hang: a search waits for it only so long, whatever its own timeouts."""
        ...

    def write(self, writes: Sequence[Write], *, tx: Connection | None = None) -> list[Answer]:
        """Puts and removes objects, whole; one answer a write, in order. *tx*: the ledger's transaction, where `shares_ledger`."""
        ...

    def nearest(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vector: NDArray[np.float32], *, limit: int, offset: int = 0
    ) -> list[Nominee]:
        """Objects of *kind* in one of *scopes* (all ids that are set are equal), nearest first, by cosine."""
        ...

    def nearest_any(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vectors: Sequence[NDArray[np.float32]], *, limit: int
    ) -> list[Nominee]:
        """The *limit* nearest of each of *vectors*, each object once with its best cosine, best first: one question, not one a vector."""
        ...

    def matching(self, namespace: str, scopes: Sequence[ScopeIds], terms: Sequence[str], *, limit: int, offset: int = 0) -> list[Nominee]:
        """Memories in one of *scopes* that hold any of *terms*, best BM25 first."""
        ...

    def walk(self, kind: Kind, namespace: str, *, after: str = "", limit: int = 1000, vectors: bool = False) -> Iterator[IndexState]:
        """Every object of a namespace in the order of ids, in bounded memory. *vectors*: their digests, too."""
        ...

    def look(self, keys: Sequence[ObjectKey], *, vectors: bool = False) -> dict[ObjectKey, IndexState]:
        """The objects of *keys* that are there, as `walk` reads them."""
        ...

    def namespaces(self) -> list[str]:
        """Every namespace that has an object here; some may be among them that have none any more."""
        ...

    def close(self) -> None: ...


class SpacedIndex(Index, OfSpace, Protocol):
    """An index that keeps the vectors of each space apart."""
