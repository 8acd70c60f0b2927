"""What a test of the index port speaks: objects by a word, and any backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from memline.contracts.fact import Analysis
from memline.contracts.filters import ScopeIds
from memline.contracts.ids import derived_id
from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.ledger.schema import memories
from memline.ledger.session import Ledger
from memline.search.index.port import Index, Space, Write
from memline.search.index.weaviate import WeaviateIndex
from memline.search.index.weaviate_place import place_of
from tests.parts import HandClock, TrigramEmbedder, accept, make_parts, make_relay, make_turn, run_all
from tests.weaviate_server import Reached

__all__ = ["ANN", "DIMENSION", "SPACE", "Backend", "SplitAnalyser", "id_of", "put", "removed", "unit", "weaviate_index"]

#: As many as the test embedder has.
DIMENSION = TrigramEmbedder.dimension
SPACE = Space(TrigramEmbedder.model, DIMENSION)
ANN = ScopeIds(user_id="ann")


def weaviate_index(server: Reached, ledger: Ledger, *, prefix: str, space: Space = SPACE, **given: Any) -> WeaviateIndex:
    plain: dict[str, Any] = {"timeout": 120.0, "read_timeout": 120.0} | given
    return WeaviateIndex(place_of(server.url, server.grpc_url, server.api_key), ledger, space, prefix=prefix, **plain)


def unit(seed: int | float, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """A vector of length 1 that depends on *seed* alone."""
    vector = np.random.default_rng(abs(hash(seed))).normal(size=dimension)
    return (vector / np.linalg.norm(vector)).astype("<f4")


def id_of(word: str) -> str:
    """The id of the object that tests call *word*."""
    return derived_id("test", word)


def put(
    word: str,
    *,
    user: str | None = "ann",
    agent: str | None = None,
    run: str | None = None,
    kind: Kind = "memory",
    version: int = 1,
    namespace: str = "n",
    terms: Sequence[str] = ("tea",),
    vector: NDArray[np.float32] | None = None,
) -> Write:
    key = ObjectKey(kind, namespace, id_of(word))
    raw = (unit(int(id_of(word)[:8], 16)) if vector is None else vector).astype("<f4").tobytes()
    return Write(key, IndexObject(key, version, user, agent, run, tuple(terms), raw))


def removed(word: str, *, kind: Kind = "memory", namespace: str = "n") -> Write:
    return Write(ObjectKey(kind, namespace, id_of(word)), None)


class SplitAnalyser:
    """Terms are what stands between spaces."""

    name = "split"

    def analyse(self, texts: Sequence[str]) -> list[Analysis]:
        return [Analysis(tuple(re.findall(r"\S+", text)), ()) for text in texts]


@dataclass
class Backend:
    """An index, the ledger beside it, and what tests ask of them."""

    index: Index
    ledger: Ledger
    #: It refuses vectors of another dimension.
    knows_dimension: bool = True
    _turns: Callable[[], int] = field(default_factory=lambda: count(1).__next__)

    def write(self, *writes: Write) -> None:
        """Every write holds."""
        assert [answer.error for answer in self.index.write(writes)] == [None] * len(writes)

    def ids(self, *scopes: ScopeIds, kind: Kind = "memory", namespace: str = "n", limit: int = 90, seed: int = 1) -> set[str]:
        """What is in *scopes*."""
        found = self.index.nearest(kind, namespace, scopes or (ANN,), unit(seed), limit=limit)
        assert len({nominee.id for nominee in found}) == len(found)
        return {nominee.id for nominee in found}

    def stored(self, kind: Kind = "memory", namespace: str = "n", **given: Any) -> list[Any]:
        """A whole walk."""
        return list(self.index.walk(kind, namespace, **given))

    def say(self, texts: Sequence[str], **options: Any) -> list[str]:
        """Memories that went the whole way into ledger and index, one a text; their ids in order."""
        parts = make_parts(self.ledger, index=self.index, analyser=SplitAnalyser(), clock=HandClock())
        turns = [make_turn(text, **({"namespace": "n"} | options)) for text in texts]
        accept(parts, *turns)
        run_all(parts)
        make_relay(parts, ids=f"relay{self._turns()}").drain()
        with self.ledger.read() as connection:
            query = sa.select(memories.c.job_id, memories.c.id).where(memories.c.job_id.in_([turn.id for turn in turns]))
            found = {job_id: memory_id for job_id, memory_id in connection.execute(query)}
        return [found[turn.id] for turn in turns]

    def matching(self, *terms: str, scopes: Sequence[ScopeIds] = (ANN,), namespace: str = "n", limit: int = 90) -> list[str]:
        return [nominee.id for nominee in self.index.matching(namespace, scopes, terms, limit=limit)]
