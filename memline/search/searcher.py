"""The path of a question: analyse and embed, nominate, read the ledger rows, score, fold, cut."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memline.contracts.clock import Clock
from memline.contracts.errors import ProviderError, ProviderUnavailable
from memline.contracts.filters import Filter
from memline.contracts.scope import check_namespace
from memline.language.ports import Analyser, Embedder
from memline.ledger.memories import load_memories, owners_of
from memline.ledger.postings import TermStatistics, term_statistics
from memline.ledger.session import Ledger
from memline.search.actors import ActorNames, named_in
from memline.search.check import check_as_of, check_query, check_threshold, check_top_k
from memline.search.deadline import call_within
from memline.search.gather import Asked, Gathered, Phases, gather
from memline.search.index.port import Index
from memline.search.question import Question, first_entities, question_of
from memline.search.results import Hit, SearchResult, SignalValue
from memline.search.rows import CandidateRow, Reading
from memline.search.score import contributions, scores
from memline.search.signals import MEANINGS, SIGNALS, Floats, measure
from memline.search.weights import DEFAULT, Weights

__all__ = ["Searcher"]

#: Different terms of a question that are looked up, and those of them, the rarest, that are searched for.
LOOKED_UP, MOST_TERMS = 2_000, 64


class Searcher:
    """Answers questions from the ledger, with what the index nominates. Thread-safe; holds no connection between calls.

    *deadline*: seconds after which a search goes no deeper and waits for no embedder. *timer* measures phases, in seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        index: Index,
        analyser: Analyser,
        embedder: Embedder,
        clock: Clock,
        weights: Weights = DEFAULT,
        deadline: float = 2.0,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._analyser = analyser
        self._embedder = embedder
        self._clock = clock
        self._weights = weights
        self._deadline = deadline
        self._timer = timer
        self._actors = ActorNames()

    def search(
        self,
        namespace: str,
        query: str,
        filter: Filter,
        *,
        top_k: int = 20,
        threshold: float = 0.1,
        explain: bool = False,
        show_expired: bool = False,
        include_superseded: bool = False,
        as_of: datetime | None = None,
    ) -> SearchResult:
        """The best *top_k* memories that *filter* lets through, with a score of at least *threshold*.

        *explain* adds the phases; why a memory was found stands in each hit anyway. *as_of* (aware) asks for what was current then.
        Raises InvalidInput for a query, top_k, threshold or as_of that is none, ServiceUnavailable where the ledger does not answer.
        """
        check_namespace(namespace)
        query, top_k, threshold = check_query(query), check_top_k(top_k), check_threshold(threshold)
        as_of = check_as_of(as_of)
        phases = Phases(self._deadline, self._timer)
        if top_k == 0 or not filter.scopes:
            return SearchResult([], phases=phases.seconds if explain else {})
        today = (as_of or self._clock.now()).date()
        reading = Reading(today, show_expired, include_superseded, as_of, filtered=not filter.narrows_only_by_scope)
        gathered, question = self._gather(namespace, query, filter, reading, top_k, phases)
        missing = (("embedder",) if question.vector is None else ()) + (("index",) if gathered.index_down else ())
        with phases.of("score"):
            hits = self._rank(namespace, question, gathered, reading, top_k=top_k, threshold=threshold)
        return SearchResult(hits, gathered.incomplete, missing, phases.seconds if explain else {})

    def signals(self, namespace: str, query: str, filter: Filter, *, top_k: int = 20) -> tuple[list[CandidateRow], Floats]:
        """The candidates of a search and their signals (n, number of `SIGNALS`), unscored: what weights are fitted to."""
        phases = Phases(self._deadline, self._timer)
        reading = Reading(self._clock.now().date(), filtered=not filter.narrows_only_by_scope)
        gathered, _ = self._gather(namespace, check_query(query), filter, reading, top_k, phases)
        chosen = list(gathered.chosen)
        return [gathered.around.rows[index] for index in chosen], measure(gathered.arrays)[chosen]

    def _gather(
        self, namespace: str, query: str, filter: Filter, reading: Reading, top_k: int, phases: Phases
    ) -> tuple[Gathered, Question]:
        with phases.of("analyse"):
            analysis = self._analyser.analyse([query])[0]
        with phases.of("embed"):
            vectors = self._embed([query, *(mention.name for mention in first_entities(analysis))], phases)
        question = question_of(query, analysis, vectors)
        with phases.of("read"), self._ledger.read() as connection:
            owner_nos = owners_of(connection, namespace, filter.scopes)
            statistics = term_statistics(connection, owner_nos, question.terms[:LOOKED_UP])
            named = named_in(query, self._actors.of(connection, owner_nos))
        question = _without_speakers(_rarest(question, statistics), named)
        asked = Asked(namespace, question, filter, reading, top_k, owner_nos, statistics, named)
        return gather(self._ledger, self._index, asked, phases), question

    def _embed(self, texts: list[str], phases: Phases) -> NDArray[np.float32] | None:
        """One vector a text; None where the embedder fails, is too slow, or answers something else."""
        try:
            call = partial(self._embedder.embed, texts)
            found = call_within(call, phases.left) if self._embedder.paid else call()  # a paid one leaves the process, and may hang
            if found.shape != (len(texts), self._embedder.dimension) or not np.isfinite(found).all():
                raise ProviderUnavailable(f"The embedder {self._embedder.model} returned no {len(texts)} finite vectors.")
        except (ProviderError, TimeoutError):
            return None  # the result names the missing part
        return found

    def _rank(self, namespace: str, question: Question, gathered: Gathered, reading: Reading, *, top_k: int, threshold: float) -> list[Hit]:
        chosen = list(gathered.chosen)
        if not chosen:
            return []
        signals = measure(gathered.arrays)[chosen]
        added = contributions(signals, self._weights, MEANINGS if question.vector is None else ())
        rows = [gathered.around.rows[index] for index in chosen]
        found = _below_successors(rows, scores(added, self._weights), reading)
        best = _best(rows, found, reading, top_k=top_k, threshold=threshold)
        with self._ledger.read() as connection:
            whole = {row.no: row for row in load_memories(connection, namespace, [rows[i].no for i in best])}
        return [
            Hit(
                whole[rows[i].no],
                float(found[i]),
                {name: SignalValue(float(raw), float(weighted)) for name, raw, weighted in zip(SIGNALS, signals[i], added[i], strict=True)},
                tuple(term for term, count in zip(question.terms, gathered.arrays.counts[chosen[i]], strict=True) if count > 0),
                gathered.mentions.names.get(rows[i].no, ()),
                dict(gathered.ranks.get(rows[i].id, {})),
            )
            for i in best
            if rows[i].no in whole  # deleted since its row was read
        ]


def _rarest(question: Question, statistics: TermStatistics) -> Question:
    """A long question with its rarest terms only: a page of text is searched for by what it alone says."""
    if len(question.terms) <= MOST_TERMS:
        return question
    known = [term for term in question.terms[:LOOKED_UP] if statistics.frequency.get(term, 0)]
    kept = set(sorted(known, key=lambda term: statistics.frequency[term])[:MOST_TERMS])
    return replace(question, terms=tuple(term for term in known if term in kept), codes=question.codes & kept)


def _without_speakers(question: Question, named: Collection[str]) -> Question:
    """A question without its speakers' names among the entities: who spoke has signals of its own, and every answer names the other."""
    names = {name.casefold() for name in named} | {word.casefold() for name in named for word in name.split()[:1]}
    kept = [index for index, mention in enumerate(question.entities) if mention.normalised not in names]
    return replace(
        question,
        entities=tuple(question.entities[index] for index in kept),
        entity_vectors=tuple(question.entity_vectors[index] for index in kept) if question.entity_vectors else (),
    )


def _below_successors(rows: Sequence[CandidateRow], found: Floats, reading: Reading) -> Floats:
    """Scores where what was superseded stays below what superseded it, if both are there: the ledger knows which one is current."""
    past = {row.id: i for i, row in enumerate(rows) if row.superseded_by is not None and reading.is_past(row)}
    if not past:
        return found
    index = {row.id: i for i, row in enumerate(rows)}
    capped = found.copy()
    done: set[int] = set()

    def cap(i: int) -> float:
        if i not in done and rows[i].id in past:
            done.add(i)
            if (newer := index.get(rows[i].superseded_by)) is not None:
                capped[i] = min(capped[i], math.nextafter(cap(newer), 0.0))
        return float(capped[i])

    for i in past.values():
        cap(i)
    return capped


def _best(rows: Sequence[CandidateRow], found: Floats, reading: Reading, *, top_k: int, threshold: float) -> list[int]:
    """Indices of the results, best first; of equals the newest first, then by id.

    Each content of an owner comes once, whatever runs it was said in; what is past stays apart from what is current.
    """
    enough = np.flatnonzero(found >= threshold)
    if (few := 4 * top_k) < len(enough):  # to sort them all would be most of the work, and hardly ever of use
        lowest = np.partition(found[enough], len(enough) - few)[len(enough) - few]
        best = _folded(rows, _order(rows, found, enough[found[enough] >= lowest]), reading, top_k)
        if len(best) == top_k:
            return best
    return _folded(rows, _order(rows, found, enough), reading, top_k)


def _order(rows: Sequence[CandidateRow], found: Floats, among: NDArray[np.intp]) -> list[int]:
    order = sorted((int(i) for i in among), key=lambda i: str(rows[i].id))
    order.sort(key=lambda i: rows[i].occurred_at, reverse=True)  # sorting is stable, also in reverse
    order.sort(key=lambda i: float(found[i]), reverse=True)
    return order


def _folded(rows: Sequence[CandidateRow], order: Sequence[int], reading: Reading, top_k: int) -> list[int]:
    seen: set[tuple[int, str, str | None]] = set()
    kept: list[int] = []
    for i in order:
        row = rows[i]
        key = (row.owner_no, row.content_hash, row.id if reading.is_past(row) else None)
        if key not in seen:
            seen.add(key)
            kept.append(i)
            if len(kept) == top_k:
                break
    return kept
