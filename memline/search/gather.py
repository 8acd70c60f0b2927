"""From a question to candidates: the legs nominate, the ledger says what may be read, and what stands around it is fetched.

What one search asks is bounded, whatever its scope and others hold. Of one scope, with an embedded index whose vectors are at hand, at most
`MOST_STATEMENTS` SQL statements, those around this module (owners, postings, speakers, result rows) among them, and `STATEMENTS_A_ROUND`
for each further round. Each further scope of an OR adds three, the words leg of a run five a round; vectors that changed since, up to four.
Ids and numbers go 5,000 a statement (500 of results), which only a top_k in the hundreds makes more than one.
An index elsewhere is asked three times, and twice in each further round. Held by `tests/integration/search/test_round_trips.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import tracing
from memline.contracts.filters import Filter
from memline.ledger.memories import within
from memline.ledger.postings import TermStatistics
from memline.ledger.schema import memories
from memline.ledger.session import Ledger
from memline.search.candidates import Surroundings, arrays_of, spans_around, surroundings_of
from memline.search.entity_leg import Mentions, named_memories, near_entities
from memline.search.index.port import Index, KeepsVectors, Recall
from memline.search.nominate import Legs
from memline.search.question import Question
from memline.search.rows import CandidateRow, Reading, candidates_between, candidates_by_id, filter_rows, filter_view
from memline.search.signals import Arrays

__all__ = ["Asked", "Gathered", "Phases", "gather"]

#: Least depth of a leg; mem0 has the same.
LEAST_DEPTH = 60
#: SQL statements of one search of one scope, and of each further round.
MOST_STATEMENTS, STATEMENTS_A_ROUND = 22, 2
#: How often the legs go on, and how many times as deep each time.
ROUNDS, DEEPER = 3, 4
#: Rows of a scope that a filter is asked about first, and matching ones that are then scored without nomination.
ASKED_FIRST, SCORED_ALL = 5_000, 1_000
#: The best of each leg bring in their neighbours, too.
MOST_LEADERS = 20
#: Memories that the entity leg nominates.
MOST_NAMED = 40
#: Rows that are read around the nominees.
MOST_AROUND = 20_000

Ranks = Mapping[str, Mapping[str, int]]


@dataclass(slots=True)
class Phases:
    """Seconds by phase, and how much time is left."""

    deadline: float
    timer: Callable[[], float] = time.perf_counter
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.timer()

    @property
    def left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline - (self.timer() - self.started)

    @contextmanager
    def of(self, name: str, *, counted: bool = True) -> Iterator[None]:
        """Adds what the block takes to a phase; what is not *counted* leaves as much time as before."""
        began = self.timer()
        try:
            with tracing.inner(f"memline search {name}"):
                yield
        finally:
            took = self.timer() - began
            self.seconds[name] = self.seconds.get(name, 0.0) + took
            if not counted:
                self.started += took


@dataclass(frozen=True, slots=True)
class Asked:
    """One search: what is asked of whom, and what is known before the legs go."""

    namespace: str
    question: Question
    filter: Filter
    reading: Reading
    top_k: int
    owner_nos: Sequence[int]
    statistics: TermStatistics
    #: Speakers that the question names.
    named: Collection[str]
    #: Whether a lane lies in the scopes, of those that were looked at.
    _lanes: dict[str, bool] = field(default_factory=dict, repr=False)

    @property
    def depth(self) -> int:
        return max(4 * self.top_k, LEAST_DEPTH)

    def takes(self, row: CandidateRow) -> bool:
        """*row* may be a result."""
        return self.reading.shows(row) and self.matches(row)

    def matches(self, row: CandidateRow) -> bool:
        """*row* passes the filter."""
        if self.reading.filtered:
            return self.filter.matches(filter_view(row))
        if (found := self._lanes.get(row.lane)) is None:  # the ids are those of the lane
            found = any(all(getattr(row, name) == value for name, value in scope.ids().items()) for scope in self.filter.scopes)
            self._lanes[row.lane] = found
        return found


@dataclass(frozen=True, slots=True)
class Gathered:
    """Candidates before they are scored."""

    around: Surroundings
    #: Indices into `around.rows` of what may be a result; the others are context.
    chosen: Sequence[int]
    #: Over all of `around.rows`.
    arrays: Arrays
    mentions: Mentions
    #: By memory id, its place (from 1) in each leg that nominated it.
    ranks: Ranks
    incomplete: bool = False
    index_down: bool = False


def gather(ledger: Ledger, index: Index, asked: Asked, phases: Phases) -> Gathered:
    """The candidates of one search. No transaction is open while the index is asked; the number of statements is bounded."""
    if asked.reading.filtered:
        with phases.of("read"), ledger.read() as connection:
            if (rows := _matching_rows(connection, asked)) is not None:
                mentions = _mentions(connection, asked, {})
                return _around(connection, asked, rows, mentions, {}, only=True, recalled=_recall(index, asked))
    question = asked.question
    scopes = asked.filter.scopes
    legs = Legs(index, ledger, asked.namespace, scopes, question.terms, question.vector, question.model, asked.owner_nos, asked.statistics)
    taken: dict[str, CandidateRow] = {}
    mentions, near = Mentions(), dict[str, float]()
    for go in range(ROUNDS + 1):
        with phases.of("nominate"):
            ids, nos = legs.go(asked.depth * DEEPER**go)
            if go == 0 and not legs.index_down:
                near, up = near_entities(index, asked.namespace, asked.filter.scopes, question.names_to_compare)
                legs.index_down = not up
        with phases.of("read"), ledger.read() as connection:
            taken |= {row.id: row for row in candidates_by_id(connection, asked.namespace, ids, asked.reading, nos=nos)}
            legs.place(taken.values())
            if go == 0:
                if asked.reading.looks_at_expired:
                    past = legs.among_expired(connection, asked.depth)
                    taken |= {row.id: row for row in candidates_by_id(connection, asked.namespace, past, asked.reading)}
                mentions = _mentions(connection, asked, near)
                for rank, row in enumerate(_strongest(mentions), 1):
                    taken[row.id] = row
                    legs.ranks.setdefault(row.id, {})["entity"] = rank
            visible = [row for row in asked.reading.visible(taken.values()) if asked.matches(row)]
            if len(visible) >= asked.top_k or not legs.has_more or go == ROUNDS or phases.left < 0:
                nominees = _best_of_each_leg(visible, legs.ranks, asked.depth) + _successors(connection, asked, taken.values())
                few = len(visible) < asked.top_k and (legs.has_more or legs.cut_short)
                recalled = None if legs.index_down else _recall(index, asked)
                return _around(
                    connection,
                    replace(asked, statistics=legs.statistics),
                    nominees,
                    mentions,
                    legs.ranks,
                    incomplete=few,
                    index_down=legs.index_down,
                    recalled=recalled,
                )
    raise AssertionError("the last round returns")


def _matching_rows(connection: Connection, asked: Asked) -> list[CandidateRow] | None:
    """All rows that may be results, where the scope is small and they are few; None where it is better to nominate."""
    where = within(asked.namespace, asked.filter.scopes)
    some = sa.select(memories.c.no).where(where).limit(ASKED_FIRST + 1).subquery()
    if connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one() > ASKED_FIRST:
        return None
    rows = filter_rows(connection, asked.namespace, asked.filter.scopes, asked.reading, limit=ASKED_FIRST)
    found = [row for row in rows if asked.takes(row)]
    return found if len(found) <= SCORED_ALL else None


def _mentions(connection: Connection, asked: Asked, near: Mapping[str, float]) -> Mentions:
    return named_memories(connection, asked.namespace, asked.owner_nos, asked.question.entities, near, asked.reading, asked.takes)


def _strongest(mentions: Mentions) -> list[CandidateRow]:
    return [mentions.rows[no] for no in sorted(mentions.strength, key=lambda no: (-mentions.strength[no], -no))[:MOST_NAMED]]


def _best_of_each_leg(visible: Sequence[CandidateRow], ranks: Ranks, depth: int) -> list[CandidateRow]:
    """Of each leg its *depth* best that may be read: what the legs went on for, and no more work than a first round makes."""
    found: dict[int, CandidateRow] = {}
    for leg in ("vector", "words", "entity"):
        ranked = sorted((row for row in visible if leg in ranks.get(row.id, ())), key=lambda row: ranks[row.id][leg])
        found |= {row.no: row for row in ranked[:depth]}
    return list(found.values())


def _successors(connection: Connection, asked: Asked, rows: Iterable[CandidateRow]) -> list[CandidateRow]:
    """What took the place of a nominee is a nominee: who finds "works at Contoso" wants to know of Fabrikam."""
    there = {row.id for row in rows}
    ids = list(dict.fromkeys(row.superseded_by for row in rows if row.superseded_by is not None and row.superseded_by not in there))
    found = candidates_by_id(connection, asked.namespace, ids[: asked.depth], asked.reading)
    return [row for row in found if asked.takes(row)]


def _around(
    connection: Connection,
    asked: Asked,
    nominees: Sequence[CandidateRow],
    mentions: Mentions,
    ranks: Ranks,
    *,
    only: bool = False,
    incomplete: bool = False,
    index_down: bool = False,
    recalled: Recall | None = None,
) -> Gathered:
    """Nominees and the neighbours of those that lead a leg, each with its surroundings. *only*: nobody's neighbours are nominated."""
    leaders = [row for row in nominees if not only and min(ranks.get(row.id, {"": 1}).values()) <= MOST_LEADERS]
    spans = spans_around(nominees, leaders)
    near = candidates_between(connection, spans, asked.reading, limit=MOST_AROUND)
    around = surroundings_of(nominees, near, asked.reading)
    if only:
        chosen = sorted(around.row_of[row.no] for row in nominees)
    else:
        chosen = _matching(asked, around, nominees, around.with_neighbours([row.no for row in nominees], [row.no for row in leaders]))
    arrays = arrays_of(
        connection,
        around,
        chosen,
        asked.question,
        owner_nos=asked.owner_nos,
        statistics=asked.statistics,
        named=asked.named,
        entity_strength=mentions.strength,
        reading=asked.reading,
        recalled=recalled,
    )
    return Gathered(around, chosen, arrays, mentions, ranks, incomplete, index_down)


def _matching(asked: Asked, around: Surroundings, nominees: Sequence[CandidateRow], indices: Sequence[int]) -> list[int]:
    """Those of *indices* whose row passes the filter; where it asks for scope ids alone, all rows of a lane pass or none."""
    if asked.reading.filtered:
        return [index for index in indices if asked.matches(around.rows[index])]
    lanes = {row.lane for row in nominees if asked.matches(row)}
    if lanes.issuperset(around.columns.lane):
        return list(indices)
    return [index for index in indices if around.rows[index].lane in lanes]


def _recall(index: Index, asked: Asked) -> Recall | None:
    if len(asked.filter.scopes) != 1 or not isinstance(index, KeepsVectors):
        return None
    return index.recall("memory", asked.namespace, asked.filter.scopes[0])
