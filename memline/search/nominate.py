"""The legs: each ranks memories by one measure and is asked for its best, then for more where too few may be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.filters import ScopeIds
from memline.language.blas import one_blas_thread
from memline.ledger.memories import within
from memline.ledger.postings import TermStatistics
from memline.ledger.schema import memories, vectors
from memline.ledger.session import Ledger
from memline.ledger.vectors import current_model, current_vector, current_vectors
from memline.search.index.port import Index, Nominee, RanksByLedger
from memline.search.index.words_leg import match_in_ledger, match_known, with_postings
from memline.search.rows import CandidateRow

__all__ = ["MOST_SCANNED", "Legs", "ranks_by_ledger", "scan_vectors"]

#: Vectors that are read from the ledger where the index does not answer: the newest ones of the scopes.
MOST_SCANNED = 20_000


@dataclass(slots=True)
class Legs:
    """The vector leg and the BM25 leg of one question. Where the index does not answer, the ledger does."""

    index: Index
    ledger: Ledger
    namespace: str
    scopes: Sequence[ScopeIds]
    terms: Sequence[str]
    vector: NDArray[np.float32] | None
    #: Of the vector.
    model: str
    #: Whose postings they are, and what is known of them.
    owner_nos: Sequence[int]
    statistics: TermStatistics
    #: The index did not answer.
    index_down: bool = False
    #: A leg gave all that was asked of it: there may be more.
    has_more: bool = False
    #: The newest `MOST_SCANNED` vectors were read and there are others.
    cut_short: bool = False
    #: By memory id, its place (from 1) in each leg.
    ranks: dict[str, dict[str, int]] = field(default_factory=dict)
    _depth: int = 0
    #: The same by ledger number, of what the ledger's own postings nominated: its id comes with its row.
    _numbered: dict[int, int] = field(default_factory=dict)

    def go(self, depth: int) -> tuple[list[str], list[int]]:
        """Goes on to *depth* in each leg; what is new, by id and by ledger number."""
        limit, offset = depth - self._depth, self._depth
        by_meaning = self._nearest(limit, offset) if self.vector is not None else []
        by_words = self._matching(limit, offset) if self.terms else []
        self.has_more = len(by_meaning) == limit or len(by_words) == limit
        self._depth = depth
        ids: dict[str, None] = {}
        nos: list[int] = []
        for leg, found in (("vector", by_meaning), ("words", by_words)):
            for rank, nominee in enumerate(found, offset + 1):
                if isinstance(nominee, int):
                    nos.append(nominee)
                    self._numbered[nominee] = rank
                    continue
                if nominee.id not in self.ranks:
                    ids[nominee.id] = None
                self.ranks.setdefault(nominee.id, {}).setdefault(leg, rank)
        return list(ids), nos

    def place(self, rows: Iterable[CandidateRow]) -> None:
        """Gives *rows* the places that they have by their numbers."""
        for row in rows:
            if (rank := self._numbered.get(row.no)) is not None:
                self.ranks.setdefault(row.id, {}).setdefault("words", rank)

    def among_expired(self, connection: Connection, limit: int) -> list[str]:
        """The nearest of what was marked as expired, which no index holds: by the ledger's own vectors."""
        if self.vector is None:
            return []
        found, all_read = scan_vectors(
            connection, self.namespace, self.scopes, self.vector, model=self.model, limit=limit, states=("expired",)
        )
        self.cut_short = self.cut_short or not all_read
        for rank, nominee in enumerate(found, 1):
            self.ranks.setdefault(nominee.id, {}).setdefault("vector", rank)
        return [nominee.id for nominee in found]

    def _nearest(self, limit: int, offset: int) -> list[Nominee]:
        assert self.vector is not None
        if not self.index_down:
            try:
                return self.index.nearest("memory", self.namespace, self.scopes, self.vector, limit=limit, offset=offset)
            except ServiceUnavailable:
                self.index_down = True
        with self.ledger.read() as connection:
            found, all_read = scan_vectors(
                connection, self.namespace, self.scopes, self.vector, model=self.model, limit=limit, offset=offset
            )
        self.cut_short = self.cut_short or not all_read
        return found

    def _matching(self, limit: int, offset: int) -> Sequence[Nominee | int]:
        if not self.index_down and not ranks_by_ledger(self.index):
            try:
                return self.index.matching(self.namespace, self.scopes, self.terms, limit=limit, offset=offset)
            except ServiceUnavailable:
                self.index_down = True
        if any(scope.run_id is not None for scope in self.scopes):  # the postings know no run
            with self.ledger.read() as connection:
                return match_in_ledger(connection, self.namespace, self.scopes, self.terms, limit=limit, offset=offset)
        if self.statistics.postings is None:
            with self.ledger.read() as connection:
                self.statistics = with_postings(connection, self.owner_nos, self.terms, self.statistics)
        return [no for no, _ in match_known(self.statistics, limit=limit, offset=offset)]


def ranks_by_ledger(index: Index) -> bool:
    """The words leg of *index* is the ledger's own postings."""
    return isinstance(index, RanksByLedger) and index.ranks_by_ledger


def scan_vectors(
    connection: Connection,
    namespace: str,
    scopes: Sequence[ScopeIds],
    vector: NDArray[np.float32],
    *,
    limit: int,
    model: str,
    offset: int = 0,
    states: Sequence[str] = ("live", "superseded"),
) -> tuple[list[Nominee], bool]:
    """The nearest of the newest `MOST_SCANNED` memories in *scopes* by the ledger's vectors of *model*; False where some are older."""
    query = (
        sa.select(memories.c.id, current_vector)
        .select_from(memories.join(current_vectors, vectors.c.memory_no == memories.c.no))
        .where(
            within(namespace, scopes),
            memories.c.state.in_(states),
            current_model == model,
            sa.func.length(current_vector) == 4 * len(vector),
        )
        .order_by(memories.c.no.desc())
        .limit(MOST_SCANNED + 1)
    )
    best: list[Nominee] = []
    read = 0
    for part in connection.execute(query).partitions(2_000):
        read += len(part)
        with one_blas_thread():
            values = np.frombuffer(b"".join(row[1] for row in part), np.dtype("<f4")).reshape(len(part), -1) @ vector
        best += [Nominee(row[0], float(value)) for row, value in zip(part, values, strict=True)]
        best = sorted(best, key=lambda nominee: (-nominee.value, nominee.id))[: limit + offset]
    return best[offset:], read <= MOST_SCANNED
