"""What the ledger holds around the nominees: rows and neighbours, term counts and vectors, as arrays for the signals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.ledger.postings import TermStatistics
from memline.ledger.schema import postings, vectors
from memline.search.question import Question, holds_time_words, is_question
from memline.search.rows import CandidateRow, Reading
from memline.search.signals import Arrays, Floats, idf

__all__ = ["REACH", "Surroundings", "arrays_of", "spans_around", "surroundings_of"]

#: Neighbours each side, in turns and in memories.
REACH = 3
_CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Visible rows in the order of lane, turn and place in the turn, and how far the neighbourhood of each goes."""

    rows: list[CandidateRow]
    places: NDArray[np.int64]
    low: NDArray[np.intp]
    high: NDArray[np.intp]
    row_of: Mapping[int, int] = field(default_factory=dict)

    def with_neighbours(self, nos: Iterable[int]) -> list[int]:
        """Rows of *nos* and of the neighbours of each, in order."""
        found: set[int] = set()
        for no in nos:
            if (row := self.row_of.get(no)) is not None:
                found.update(range(self.low[row], self.high[row]))
        return sorted(found)


def spans_around(rows: Iterable[CandidateRow], reach: int) -> dict[str, list[tuple[int, int]]]:
    """Stretches of places within *reach* turns of *rows*, by lane, none overlapping another."""
    places: dict[str, set[int]] = {}
    for row in rows:
        places.setdefault(row.lane, set()).add(row.place)
    spans: dict[str, list[tuple[int, int]]] = {}
    for lane, found in places.items():
        merged: list[tuple[int, int]] = []
        for place in sorted(found):
            if merged and place - reach <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], place + reach)
            else:
                merged.append((place - reach, place + reach))
        spans[lane] = merged
    return spans


def surroundings_of(rows: Iterable[CandidateRow], reading: Reading) -> Surroundings:
    """Those of *rows* that the read may see, with their neighbourhoods: nothing hidden is anybody's context."""
    once = {row.no: row for row in rows}
    seen = sorted((row for row in once.values() if reading.shows(row)), key=lambda row: (row.lane, row.place, row.ordinal, row.no))
    count = len(seen)
    places = np.fromiter((row.place for row in seen), np.int64, count)
    lanes = {lane: number for number, lane in enumerate(dict.fromkeys(row.lane for row in seen))}
    lane_numbers = np.fromiter((lanes[row.lane] for row in seen), np.int64, count)
    low, high = np.arange(count), np.arange(count) + 1
    for step in range(1, REACH + 1):
        if count <= step:
            break
        near = (lane_numbers[step:] == lane_numbers[:-step]) & (places[step:] - places[:-step] <= REACH)
        low[step:][near] -= 1
        high[:-step][near] += 1
    return Surroundings(seen, places, low, high, {row.no: index for index, row in enumerate(seen)})


def arrays_of(
    connection: Connection,
    around: Surroundings,
    question: Question,
    *,
    owner_nos: Sequence[int],
    statistics: TermStatistics,
    named: Collection[str],
    entity_strength: Mapping[int, float],
    reading: Reading,
) -> Arrays:
    """Everything the signals need of the rows *around*, in two kinds of statements: postings and vectors, a chunk of rows each."""
    rows = around.rows
    nos = [row.no for row in rows]
    lengths = np.maximum(np.fromiter((row.length for row in rows), np.float64, len(rows)), 1.0)
    counts = _term_counts(connection, owner_nos, around.row_of, question.terms, statistics, len(rows))
    worth = _worth(question, statistics, named)
    same, other = _by_actor(rows, question, named, counts)
    asked = np.fromiter((is_question(row.text) for row in rows), np.float64, len(rows))
    return Arrays(
        counts=counts,
        lengths=lengths,
        worth=worth,
        codes=np.array([term in question.codes for term in question.terms], np.bool_),
        mean_length=statistics.mean_length,
        low=around.low,
        high=around.high,
        places=around.places,
        vectors=None if question.vector is None else _vectors(connection, nos, len(question.vector)),
        query_vector=question.vector,
        entity=np.fromiter((entity_strength.get(no, 0.0) for no in nos), np.float64, len(rows)),
        same_actor=same,
        other_actor=other,
        question=asked,
        time_words=_time_words(rows, question),
        same_date=_same_date(rows, question),
        superseded=np.fromiter((reading.is_past(row) for row in rows), np.float64, len(rows)),
    )


def _term_counts(
    connection: Connection,
    owner_nos: Sequence[int],
    row_of: Mapping[int, int],
    terms: Sequence[str],
    statistics: TermStatistics,
    size: int,
) -> Floats:
    counts = np.zeros((size, len(terms)))
    if not size or not terms or not owner_nos:
        return counts
    column_of = {term: column for column, term in enumerate(terms)}
    query = sa.select(postings.c.memory_no, postings.c.term, postings.c.tf).where(
        postings.c.owner_no.in_(list(owner_nos)), postings.c.term.in_(list(terms))
    )
    if sum(statistics.frequency.values()) <= 4 * size:  # all that the owners have of these words: one walk instead of a probe a row
        for no, term, tf in connection.execute(query):
            if (row := row_of.get(no)) is not None:
                counts[row, column_of[term]] = tf
        return counts
    nos = list(row_of)
    for start in range(0, len(nos), _CHUNK):
        for no, term, tf in connection.execute(query.where(postings.c.memory_no.in_(nos[start : start + _CHUNK]))):
            counts[row_of[no], column_of[term]] = tf
    return counts


def _worth(question: Question, statistics: TermStatistics, named: Collection[str]) -> Floats:
    """idf of each term; a speaker's name is worth nothing as a word, since who spoke has signals of its own."""
    frequency = np.array([float(statistics.frequency.get(term, 0)) for term in question.terms])
    worth = idf(frequency, statistics.live)
    names = _name_terms(question, named)
    rest = np.array([0.0 if term in names else 1.0 for term in question.terms])
    return worth * rest if rest.any() else worth


def _name_terms(question: Question, named: Collection[str]) -> set[str]:
    words = {word for name in named for word in name.casefold().split()}
    return {term for term in question.terms if term in words}


def _by_actor(rows: Sequence[CandidateRow], question: Question, named: Collection[str], counts: Floats) -> tuple[Floats, Floats]:
    same, other = np.zeros(len(rows)), np.zeros(len(rows))
    if len(named) != 1:
        return same, other
    name = next(iter(named))
    names = _name_terms(question, named)
    columns = [column for column, term in enumerate(question.terms) if term in names]
    for index, row in enumerate(rows):
        if row.actor_id is None:
            same[index] = 1.0 if columns and counts[index, columns].any() else 0.0
        elif row.actor_id == name:
            same[index] = 1.0
        else:
            other[index] = 1.0
    return same, other


def _time_words(rows: Sequence[CandidateRow], question: Question) -> Floats:
    if not question.asks_when:
        return np.zeros(len(rows))
    return np.fromiter((holds_time_words(row.text[:2000]) for row in rows), np.float64, len(rows))


def _same_date(rows: Sequence[CandidateRow], question: Question) -> Floats:
    if not question.months:
        return np.zeros(len(rows))
    return np.fromiter(
        (row.occurred_at.month in question.months and (not question.years or row.occurred_at.year in question.years) for row in rows),
        np.float64,
        len(rows),
    )


def _vectors(connection: Connection, nos: Sequence[int], dimension: int) -> NDArray[np.float32]:
    """(n, dimension); a row of zeros where a memory has no vector of that dimension."""
    found = np.zeros((len(nos), dimension), np.float32)
    row_of = {no: row for row, no in enumerate(nos)}
    for start in range(0, len(nos), _CHUNK):
        query = sa.select(vectors.c.memory_no, vectors.c.vector).where(
            vectors.c.memory_no.in_(list(nos[start : start + _CHUNK])), vectors.c.dimension == dimension
        )
        read = connection.execute(query).all()
        if read:
            found[[row_of[row[0]] for row in read]] = np.frombuffer(b"".join(row[1] for row in read), np.dtype("<f4")).reshape(
                len(read), -1
            )
    return found
