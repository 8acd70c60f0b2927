"""BM25 over the ledger's own postings: what a few terms have in the owners that a read may see, and how memories rank by them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.ledger.lists import in_list, table_of, tuples, with_table
from memline.ledger.schema import memories, owners, postings

__all__ = ["K1", "WHOLE", "B", "Postings", "TermStatistics", "bm25", "counts_of", "read_postings", "term_statistics"]

#: Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009): the usual middle values.
K1, B = 1.2, 0.75
#: Live memories of all owners together up to which the postings themselves are read, instead of their numbers first.
WHOLE = 2_000
#: Terms up to which that is so.
MOST_TERMS = 64
#: Memories whose terms are asked for by one statement.
_CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Postings:
    """All postings of some terms: n of them, in no order."""

    terms: tuple[str, ...]
    #: (n,): the memory's ledger number.
    memory_nos: NDArray[np.int64]
    #: (n,): index into `terms`.
    columns: NDArray[np.int64]
    #: (n,): how often the memory holds the term, and how many terms it has in all.
    tf: NDArray[np.int64]
    lengths: NDArray[np.int64]
    #: (n,): the memory is live; if not, it is superseded.
    live: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """What BM25 knows of the owners it reads: live memories, their mean length, and how many of them hold each term."""

    live: int
    mean_length: float
    frequency: Mapping[str, int]
    #: The postings themselves, where they were read.
    postings: Postings | None = None

    def idf(self, term: str) -> float:
        """Lucene's form, never negative: ln(1 + (N - n + 0.5) / (n + 0.5))."""
        n = self.frequency.get(term, 0)
        return math.log(1 + (max(self.live, n) - n + 0.5) / (n + 0.5))


def term_statistics(connection: Connection, owner_nos: Sequence[int], terms: Sequence[str]) -> TermStatistics:
    """Counts over the live memories of *owner_nos*, in two statements; with the postings where memories and *terms* are few."""
    dialect = connection.dialect.name
    live, length = connection.execute(_sums(dialect), {"owners": list(owner_nos)}).one()
    mean = float(length) / int(live) if live else 0.0
    if live <= WHOLE and len(terms) <= MOST_TERMS:
        found = read_postings(connection, owner_nos, terms)
        numbers = np.bincount(found.columns[found.live], minlength=len(found.terms)).tolist()
        frequency = {term: number for term, number in zip(found.terms, numbers, strict=True) if number}
        return TermStatistics(int(live), mean, frequency, found)
    given = with_table(dialect, "terms", ("term",), [(term,) for term in terms])
    rows = tuples(connection.execute(_frequencies(dialect), given | {"owners": list(owner_nos)}))
    return TermStatistics(int(live), mean, {term: number for term, number in rows if number})


def read_postings(
    connection: Connection, owner_nos: Sequence[int], terms: Sequence[str], *, where: sa.ColumnElement[bool] | None = None
) -> Postings:
    """All postings of *terms* in one statement. *where*: asked of the memory."""
    terms = tuple(dict.fromkeys(terms))
    dialect = connection.dialect.name
    query = _postings(dialect) if where is None else _postings_where(dialect, where)
    given = with_table(dialect, "terms", ("term",), [(term,) for term in terms]) | {"owners": list(owner_nos)}
    read = dict(tuples(connection.execute(query, given))) if terms and owner_nos else {}
    blocks = [_numbers(read.get(term)) for term in terms]
    nos, tf, lengths, live = np.concatenate([_numbers(None), *blocks], axis=1)
    return Postings(terms, nos, np.repeat(np.arange(len(terms)), [block.shape[1] for block in blocks]), tf, lengths, live > 0)


def _numbers(columns: str | None) -> NDArray[np.int64]:
    """(number of columns, n) of `_postings`' text."""
    if columns is None:
        return np.empty((4, 0), np.int64)
    return np.stack([np.fromstring(column, np.int64, sep=",") for column in columns.split(" ")])


def bm25(found: Postings, statistics: TermStatistics, *, limit: int, offset: int = 0) -> list[tuple[int, float]]:
    """The best memories, live and superseded: (ledger number, BM25), best first, of equals the newest first."""
    if len(found.memory_nos) == 0 or limit <= 0:
        return []
    idf = np.array([statistics.idf(term) for term in found.terms])
    saturation = K1 * (1 - B + B * found.lengths / (statistics.mean_length or 1.0))
    shares = idf[found.columns] * found.tf * (K1 + 1) / (found.tf + saturation)
    nos, memory = np.unique(found.memory_nos, return_inverse=True)
    total = np.bincount(memory, weights=shares)
    best = np.lexsort((-nos, -total))[offset : offset + limit]
    return [(int(no), float(value)) for no, value in zip(nos[best], total[best], strict=True)]


def counts_of(
    connection: Connection, owner_nos: Sequence[int], nos: Sequence[int], terms: Sequence[str], statistics: TermStatistics
) -> NDArray[np.float64]:
    """(number of *nos*, number of *terms*), each of both once: how often each memory holds each term.

    Postings that were read are not asked for again; of the others, in one statement for each 5,000 memories.
    """
    counts = np.zeros((len(nos), len(terms)))
    if not len(nos) or not terms or not owner_nos:
        return counts
    column_of = {term: column for column, term in enumerate(terms)}
    known = statistics.postings
    if known is not None:
        _place(counts, np.asarray(nos, np.int64), known, [column_of.get(term, -1) for term in known.terms])
    unknown = [term for term in terms if known is None or term not in known.terms]
    row_of = {no: row for row, no in enumerate(nos)}
    for start in range(0, len(nos) if unknown else 0, _CHUNK):
        given = {"owners": list(owner_nos), "terms": unknown, "nos": list(nos[start : start + _CHUNK])}
        for no, term, tf in tuples(connection.execute(_counts(connection.dialect.name), given)):
            counts[row_of[no], column_of[term]] = tf
    return counts


def _place(counts: NDArray[np.float64], nos: NDArray[np.int64], found: Postings, column_of: Sequence[int]) -> None:
    """Writes into *counts* (rows as *nos*) what *found* says; *column_of* each of its terms, -1 for one that is not asked for."""
    order = np.argsort(nos)
    place = np.minimum(np.searchsorted(nos, found.memory_nos, sorter=order), len(nos) - 1)
    rows, columns = order[place], np.asarray(column_of, np.intp)[found.columns]
    wanted = (nos[rows] == found.memory_nos) & (columns >= 0)
    counts[rows[wanted], columns[wanted]] = found.tf[wanted]


# Statements are made once: to make one takes longer than to run it.


@cache
def _sums(dialect: str) -> sa.Select[Any]:
    live, length = (sa.func.coalesce(sa.func.sum(column), 0) for column in (owners.c.live, owners.c.length))
    return sa.select(live, length).where(in_list(dialect, owners.c.no, "owners"))


@cache
def _frequencies(dialect: str) -> sa.Select[Any]:
    # one count a term, each a walk along the primary key: to group what an IN finds, SQLite sorts it first
    given, (term,) = table_of(dialect, "terms", term=sa.Text())
    held = sa.select(sa.func.count()).select_from(postings)
    held = held.where(in_list(dialect, postings.c.owner_no, "owners"), postings.c.term == term, postings.c.live)
    return sa.select(term, held.scalar_subquery()).select_from(given)


@cache
def _postings(dialect: str) -> sa.Select[Any]:
    return _postings_where(dialect, None)


def _postings_where(dialect: str, where: sa.ColumnElement[bool] | None) -> sa.Select[Any]:
    """One row a term, its postings in it as text, column by column: a row for each takes four times as long, and leaves garbage."""
    given, (term,) = table_of(dialect, "terms", term=sa.Text())
    columns = (postings.c.memory_no, postings.c.tf, postings.c.length, sa.cast(postings.c.live, sa.Integer))
    texts = [sa.func.aggregate_strings(sa.cast(column, sa.Text), ",") for column in columns]
    held = sa.select(texts[0] + " " + texts[1] + " " + texts[2] + " " + texts[3]).select_from(postings)
    if where is not None:
        held = held.join(memories, memories.c.no == postings.c.memory_no).where(where)
    held = held.where(in_list(dialect, postings.c.owner_no, "owners"), postings.c.term == term)
    return sa.select(term, held.scalar_subquery()).select_from(given)


@cache
def _counts(dialect: str) -> sa.Select[Any]:
    return sa.select(postings.c.memory_no, postings.c.term, postings.c.tf).where(
        in_list(dialect, postings.c.owner_no, "owners"),
        in_list(dialect, postings.c.term, "terms"),
        in_list(dialect, postings.c.memory_no, "nos"),
    )
