"""What the ledger holds around the nominees: rows and neighbours, term counts and vectors, as arrays for the signals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.ledger.postings import TermStatistics, counts_of
from memline.ledger.schema import vectors
from memline.ledger.vectors import current_model, current_vector, current_vectors
from memline.search.index.port import Recall
from memline.search.question import Question, holds_time_words, is_question
from memline.search.rows import CandidateRow, Reading, columns_of, date_of, texts_of
from memline.search.signals import Arrays, Floats, idf
from memline.search.wording import holds_a_number, says_how_it_is_wanted

__all__ = ["REACH", "Surroundings", "arrays_of", "spans_around", "surroundings_of"]

#: Neighbours each side, in turns and in memories.
REACH = 3
_CHUNK = 5_000
#: Characters of a memory that are looked at for words of time.
_LOOKED_AT = 500
#: Days from which on a date says nothing: a week, and the day it is spoken of after it.
_NEAR_DAYS = 8.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Visible rows in the order of lane, turn and place in the turn, and how far the neighbourhood of each goes."""

    rows: list[CandidateRow]
    #: The same by name of the column.
    columns: Any
    places: NDArray[np.int64]
    low: NDArray[np.intp]
    high: NDArray[np.intp]
    #: Extracted facts, whose neighbourhood is themselves.
    alone: NDArray[np.bool_]
    #: Index by ledger number.
    row_of: Mapping[int, int]

    def with_neighbours(self, nos: Iterable[int], leaders: Iterable[int]) -> list[int]:
        """Indices of *nos*, and of the neighbours of *leaders*, in order."""
        chosen = np.zeros(len(self.rows), np.bool_)
        chosen[[row for no in nos if (row := self.row_of.get(no)) is not None]] = True
        for no in leaders:
            if (row := self.row_of.get(no)) is not None:
                chosen[self.low[row] : self.high[row]] = True
        return [int(row) for row in np.flatnonzero(chosen)]


def spans_around(nominees: Iterable[CandidateRow], leaders: Iterable[CandidateRow]) -> dict[str, list[tuple[int, int]]]:
    """Stretches of places by lane, none overlapping another, that hold all that these rows are scored by.

    Of *nominees* the neighbourhood; of *leaders* the neighbours' neighbourhoods, too. An extracted fact has none.
    """
    reach: dict[str, dict[int, int]] = {}
    for rows, far in ((nominees, REACH), (leaders, 2 * REACH)):
        for row in rows:
            if row.verbatim:
                reach.setdefault(row.lane, {})[row.place] = far
    spans: dict[str, list[tuple[int, int]]] = {}
    for lane, places in reach.items():
        merged: list[tuple[int, int]] = []
        for low, high in sorted((place - far, place + far) for place, far in places.items()):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        spans[lane] = merged
    return spans


def surroundings_of(nominees: Sequence[CandidateRow], near: Sequence[CandidateRow], reading: Reading) -> Surroundings:
    """What the read may see of *nominees* and of *near* (in order), with neighbourhoods: nothing hidden is anybody's context."""
    seen = reading.visible(near)
    there = {row.no for row in seen}
    if further := [row for row in nominees if row.no not in there and reading.shows(row)]:
        seen = sorted([*seen, *further], key=lambda row: (row.lane, row.place, row.ordinal))
    count, columns = len(seen), columns_of(seen)
    places = np.array(columns.place, np.int64)
    number = {lane: number for number, lane in enumerate(dict.fromkeys(columns.lane))}
    lanes = np.array([number[lane] for lane in columns.lane], np.int64)
    low, high = np.arange(count), np.arange(count) + 1
    # an extracted fact stands by itself: nothing said next to it is its context, nor is it nominated for it
    alone = ~np.array(columns.verbatim, np.bool_)
    for step in range(1, min(REACH + 1, count)):
        near_by = (lanes[step:] == lanes[:-step]) & (places[step:] - places[:-step] <= REACH)
        low[step:][near_by] -= 1
        high[:-step][near_by] += 1
    low[alone], high[alone] = np.flatnonzero(alone), np.flatnonzero(alone) + 1
    return Surroundings(seen, columns, places, low, high, alone, {no: index for index, no in enumerate(columns.no)})


def arrays_of(
    connection: Connection,
    around: Surroundings,
    chosen: Sequence[int],
    question: Question,
    *,
    owner_nos: Sequence[int],
    statistics: TermStatistics,
    named: Collection[str],
    entity_strength: Mapping[int, float],
    reading: Reading,
    recalled: Recall | None,
) -> Arrays:
    """Everything the signals need of the rows *around*: term counts, vectors, and texts of those *chosen* where the question asks when.

    *recalled*: vectors that an index has at hand; the ledger is asked for the others.
    """
    rows, columns = around.rows, around.columns
    worth = _worth(question, statistics, named)
    counts = counts_of(connection, owner_nos, columns.no, question.terms, statistics)
    same, other = _by_actor(rows, question, named, counts)
    assistant = np.array([role == "assistant" for role in columns.role], np.bool_)
    time_words, standing = _by_text(connection, rows, chosen, question)
    return Arrays(
        counts=counts,
        lengths=np.maximum(np.array(columns.length, np.float64), 1.0),
        worth=worth,
        codes=np.array([term in question.codes for term in question.terms], np.bool_),
        mean_length=statistics.mean_length,
        low=around.low,
        high=around.high,
        alone=around.alone,
        places=around.places,
        vectors=None if question.vector is None else _vectors(connection, rows, len(question.vector), question.model, recalled),
        query_vector=question.vector,
        topic_vector=question.topic_vector,
        entity=_entity(around, entity_strength),
        same_actor=same,
        other_actor=other,
        assistant=assistant.astype(np.float64) if not question.asks_what_was_answered else np.zeros(len(rows)),
        standing=standing,
        question=np.array([is_question(tail) for tail in columns.tail], np.float64),
        time_words=time_words,
        same_date=_same_date(rows, question),
        superseded=_superseded(around, reading),
        context=~assistant,
    )


def _entity(around: Surroundings, strength: Mapping[int, float]) -> Floats:
    found = np.zeros(len(around.rows))
    for no, value in strength.items():
        if (row := around.row_of.get(no)) is not None:
            found[row] = value
    return found


def _superseded(around: Surroundings, reading: Reading) -> Floats:
    if reading.as_of is None:
        return np.array([state == "superseded" for state in around.columns.state], np.float64)
    return np.array([reading.is_past(row) for row in around.rows], np.float64)


_VECTORS = sa.select(vectors.c.memory_no, vectors.c.vector).where(
    vectors.c.memory_no.in_(sa.bindparam("nos", expanding=True)),
    vectors.c.model == sa.bindparam("model"),
    vectors.c.dimension * 4 == sa.bindparam("bytes"),
)
#: The same, of those too that are not in their place yet, after a move to another embedder.
_ALL_VECTORS = (
    sa.select(vectors.c.memory_no, current_vector)
    .select_from(current_vectors)
    .where(
        vectors.c.memory_no.in_(sa.bindparam("nos", expanding=True)),
        current_model == sa.bindparam("model"),
        sa.func.length(current_vector) == sa.bindparam("bytes"),
    )
)


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
    if not named:
        return np.zeros(len(rows)), np.zeros(len(rows))
    # of several the first is most often whom the question is about
    name = min(named, key=lambda name: (_place_in(question.text, name), name))
    counted = 1.0 if len(named) == 1 else 0.5
    names = _name_terms(question, [name])
    columns = [column for column, term in enumerate(question.terms) if term in names]
    nobody = np.array([row.actor_id is None for row in rows], np.bool_)
    spoke = np.array([row.actor_id == name for row in rows], np.bool_)
    mentions = counts[:, columns].any(axis=1) if columns else np.zeros(len(rows), np.bool_)
    same, other = spoke | (nobody & mentions), ~spoke & ~nobody
    return counted * same.astype(np.float64), counted * other.astype(np.float64)


def _place_in(text: str, name: str) -> int:
    """Where *name*, or its first word, stands in *text*; its end where it does not."""
    text, name = text.casefold(), name.casefold()
    places = [place for part in (name, *name.split()[:1]) if (place := text.find(part)) >= 0]
    return min(places, default=len(text))


def _by_text(connection: Connection, rows: Sequence[CandidateRow], chosen: Sequence[int], question: Question) -> tuple[Floats, Floats]:
    """What the texts of those *chosen* hold that the question asks for: `time_words` and `standing`. They are read where it asks."""
    held, standing = np.zeros(len(rows)), np.zeros(len(rows))
    if not (question.asks_when or question.asks_how_many or question.asks_for_help):
        return held, standing
    texts = texts_of(connection, [rows[index].no for index in chosen], most=_LOOKED_AT)
    for index in chosen:
        text = texts.get(rows[index].no, "")
        if question.asks_when:
            held[index] = holds_time_words(text)
        elif question.asks_how_many:
            held[index] = 0.5 * holds_a_number(text)
        if question.asks_for_help and rows[index].role != "assistant":
            standing[index] = says_how_it_is_wanted(text)
    return held, standing


def _same_date(rows: Sequence[CandidateRow], question: Question) -> Floats:
    """A third for the month; the rest for the day, less the further it is away, nothing from `_NEAR_DAYS` on."""
    if not question.months:
        return np.zeros(len(rows))
    dates = [date_of(row.occurred_at) for row in rows]
    ordinals = np.array([day.toordinal() for day in dates])
    found = np.array([day.month in question.months and (not question.years or day.year in question.years) for day in dates], np.float64) / 3
    nearest, dates_from, dates_to = np.zeros(len(rows)), min(dates, default=date.min), max(dates, default=date.min)
    for month, number in question.days:
        for year in question.years or range(dates_from.year - 1, dates_to.year + 2):
            if (named := _date(year, month, number)) is not None:
                nearest = np.maximum(nearest, 1 - np.abs(ordinals - named.toordinal()) / _NEAR_DAYS)
    return np.asarray(found + np.clip(nearest, 0, 1) * 2 / 3, np.float64)


def _date(year: int, month: int, number: int) -> date | None:
    try:
        return date(year, month, number)
    except ValueError:  # 29 February of another year
        return None


def _vectors(
    connection: Connection, rows: Sequence[CandidateRow], dimension: int, model: str, recalled: Recall | None
) -> NDArray[np.float32]:
    """(n, dimension); a row of zeros where a memory has no vector of that model and dimension."""
    found = np.zeros((len(rows), dimension), np.float32)
    missing = np.ones(len(rows), np.bool_)
    if recalled is not None and recalled.vectors.shape[1:] == (dimension,):
        # an index may lag or lead: its vector is the ledger's only where the version is the same
        held = np.array([recalled.row_of.get(row.id, -1) for row in rows], np.intp)
        usable = (held >= 0) & (held < len(recalled.versions))
        usable[usable] = recalled.versions[held[usable]] == np.array([row.version for row in rows], np.int64)[usable]
        if usable.all():
            return recalled.vectors[held]
        found[usable] = recalled.vectors[held[usable]]
        missing = ~usable
    index_of = {rows[index].no: index for index in np.flatnonzero(missing).tolist()}
    for query in (_VECTORS, _ALL_VECTORS):
        nos = list(index_of)  # for the second nothing is left but after a move
        for start in range(0, len(nos), _CHUNK):
            if read := connection.execute(query, {"nos": nos[start : start + _CHUNK], "bytes": 4 * dimension, "model": model}).all():
                block = np.frombuffer(b"".join(row[1] for row in read), np.dtype("<f4"))
                found[[index_of.pop(row[0]) for row in read]] = block.reshape(len(read), dimension)
    return found
