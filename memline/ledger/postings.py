"""BM25 over the ledger's own postings, in one statement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import memories, owners, postings

__all__ = ["K1", "B", "TermStatistics", "bm25", "bm25_of", "term_statistics"]

#: Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009): the usual middle values.
K1, B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """What BM25 knows of the owners it reads: live memories, their mean length, and how many of them hold each term."""

    live: int
    mean_length: float
    frequency: dict[str, int]

    def idf(self, term: str) -> float:
        """Lucene's form, never negative: ln(1 + (N - n + 0.5) / (n + 0.5))."""
        n = self.frequency.get(term, 0)
        return math.log(1 + (max(self.live, n) - n + 0.5) / (n + 0.5))


def term_statistics(connection: Connection, owner_nos: Sequence[int], terms: Sequence[str]) -> TermStatistics:
    """Counts over the live memories of *owner_nos*."""
    live, length = connection.execute(
        sa.select(sa.func.coalesce(sa.func.sum(owners.c.live), 0), sa.func.coalesce(sa.func.sum(owners.c.length), 0)).where(
            owners.c.no.in_(list(owner_nos))
        )
    ).one()
    rows = connection.execute(
        sa.select(postings.c.term, sa.func.count())
        .where(postings.c.owner_no.in_(list(owner_nos)), postings.c.term.in_(list(terms)), postings.c.live)
        .group_by(postings.c.term)
    )
    return TermStatistics(int(live), float(length) / int(live) if live else 0.0, {term: number for term, number in rows})


def bm25(
    connection: Connection,
    owner_nos: Sequence[int],
    terms: Sequence[str],
    statistics: TermStatistics,
    *,
    limit: int,
    offset: int = 0,
    past: bool = False,
    where: sa.ColumnElement[bool] | None = None,
) -> list[tuple[int, float]]:
    """The best memories for *terms*: (ledger number, BM25), best first. *past*: superseded ones, too. *where*: asked of the memory."""
    # a term that no live memory holds may still be in a past one
    known = [term for term in dict.fromkeys(terms) if past or term in statistics.frequency]
    if not known or not owner_nos:
        return []
    score = _score(known, statistics)
    conditions: list[sa.ColumnElement[bool]] = [postings.c.owner_no.in_(list(owner_nos)), postings.c.term.in_(known)]
    if not past:
        conditions.append(postings.c.live)
    total = sa.func.sum(score).label("score")
    query = sa.select(postings.c.memory_no, total)
    if where is not None:
        query = query.join(memories, memories.c.no == postings.c.memory_no)
        conditions.append(where)
    query = (
        query.where(*conditions)
        .group_by(postings.c.memory_no)
        .order_by(total.desc(), postings.c.memory_no.desc())
        .limit(limit)
        .offset(offset)
    )
    return [(no, float(value)) for no, value in connection.execute(query)]


def bm25_of(
    connection: Connection, owner_nos: Sequence[int], memory_nos: Sequence[int], terms: Sequence[str], statistics: TermStatistics
) -> dict[int, dict[str, float]]:
    """For each of *memory_nos*, the share of each matched term in its BM25."""
    known = [term for term in dict.fromkeys(terms) if term in statistics.frequency]
    found: dict[int, dict[str, float]] = {}
    for start in range(0, len(memory_nos) if known else 0, 500):
        query = sa.select(postings.c.memory_no, postings.c.term, _score(known, statistics)).where(
            postings.c.owner_no.in_(list(owner_nos)),
            postings.c.term.in_(known),
            postings.c.memory_no.in_(list(memory_nos[start : start + 500])),
        )
        for no, term, value in connection.execute(query):
            found.setdefault(no, {})[term] = float(value)
    return found


def _score(terms: Sequence[str], statistics: TermStatistics) -> sa.ColumnElement[float]:
    idf = sa.case({term: statistics.idf(term) for term in terms}, value=postings.c.term, else_=0.0)
    mean = statistics.mean_length or 1.0
    saturation = K1 * (1 - B + B * postings.c.length / mean)
    return sa.type_coerce(idf * postings.c.tf * (K1 + 1) / (postings.c.tf + saturation), sa.Float())
