"""The path of a question: analyse and embed, nominate, read the ledger rows, score, fold, rerank where asked to, cut."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from memline.contracts.clock import Clock
from memline.contracts.errors import (
    ConfigurationError,
    ProviderError,
    ProviderRefused,
    ServiceUnavailable,
)
from memline.contracts.filters import Filter
from memline.contracts.scope import check_namespace
from memline.language.ports import Analyser, Embedder
from memline.ledger.memories import load_memories, owners_of
from memline.ledger.meta import stored_embedder
from memline.ledger.postings import TermStatistics, term_statistics
from memline.ledger.session import Ledger
from memline.search.actors import ActorNames, named_in
from memline.search.check import check_as_of, check_max_tokens, check_query, check_rerank_k, check_threshold, check_top_k
from memline.search.explain import models_in_use
from memline.search.fitting import fitting
from memline.search.gather import Asked, Gathered, Phases, gather
from memline.search.guard import Guard
from memline.search.index.port import Index, KeepsVectors
from memline.search.index.words_leg import with_postings
from memline.search.index_in_time import SHARE, IndexInTime
from memline.search.measured import tell_failed, tell_search
from memline.search.namespace_weights import NamespaceWeights, Weighing
from memline.search.nominate import ranks_by_ledger
from memline.search.question import Question, first_entities, question_of
from memline.search.rerank.order import reranked
from memline.search.rerank.port import Reranker
from memline.search.results import Hit, SearchResult, SignalValue
from memline.search.rows import CandidateRow, Reading
from memline.search.score import contributions, scores
from memline.search.signals import MEANINGS, SIGNALS, Floats, measure
from memline.search.weights import DEFAULT, Weights
from memline.search.wording import without_names

__all__ = ["Searcher"]

T = TypeVar("T")

#: Different terms of a question that are looked up, and those of them, the rarest, that are searched for.
LOOKED_UP, MOST_TERMS = 2_000, 64


@dataclass(frozen=True, slots=True)
class _Whom:
    """The owners that a search reads, and those of their speakers that the question names."""

    owner_nos: Sequence[int]
    named: frozenset[str]


class Searcher:
    """Answers questions from the ledger, with what the index nominates. Thread-safe; holds no connection between calls.

    *deadline*: seconds that a search takes at most, however long another part lets it wait: a paid embedder and a remote index get half of
    what is left each, a reranker what the others left, and a ledger behind a network the rest, after which it is ServiceUnavailable. What
    this process itself does (the analysis, a local embedder that has to be loaded first) is not counted. *timer* measures, in seconds.
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
        reranker: Reranker | None = None,
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._analyser = analyser
        self._embedder = embedder
        self._clock = clock
        self._weights = NamespaceWeights(weights, timer=timer)
        self._deadline = deadline
        self._timer = timer
        self._actors = ActorNames()
        self._reranker = reranker
        self._embedder_guard = Guard("The embedder", timer=timer)
        self._index_guard = Guard("The index", timer=timer)
        self._reranker_guard = Guard("The reranker", timer=timer)
        hint = "Check that it runs, or give a search more time (MEMLINE_SEARCH_DEADLINE)."
        self._ledger_guard = Guard(f"The ledger at {ledger.shown_url}", rest=0, timer=timer, hint=hint)

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
        rerank: bool = False,
        rerank_k: int | None = None,
        max_tokens: int | None = None,
    ) -> SearchResult:
        """The best *top_k* memories that *filter* lets through, with a score of at least *threshold*.

        *explain* adds phases and models; why a memory was found stands in each hit anyway. *as_of* (aware) asks for what was current then.
        *rerank* has the best *rerank_k* put in order by the reranker, before the cut to *top_k*; their score stays, and the threshold is
        one of scores. *max_tokens* leaves out what does not fit (`fitting`).
        Raises InvalidInput for an option that is none, ConfigurationError for *rerank* without a reranker, ServiceUnavailable where the
        ledger does not answer.
        """
        check_namespace(namespace)
        query, top_k, threshold = check_query(query), check_top_k(top_k), check_threshold(threshold)
        as_of = check_as_of(as_of)
        shown, max_tokens = check_rerank_k(rerank_k, rerank=rerank, top_k=top_k), check_max_tokens(max_tokens)
        if rerank and self._reranker is None:
            raise ConfigurationError(
                "rerank=True needs a reranker: set MEMLINE_RERANKER to http (with MEMLINE_RERANK_URL), llm, or an import path, "
                "or give Memory(reranker=…) one. Nothing was searched."
            )
        phases, missing = Phases(self._deadline, self._timer), dict[str, str]()
        if top_k == 0 or not filter.scopes:
            return SearchResult([], phases=phases.seconds if explain else {})
        today = (as_of or self._clock.now()).date()
        reading = Reading(today, show_expired, include_superseded, as_of, filtered=not filter.narrows_only_by_scope)
        question, whom = self._understood(namespace, query, filter, phases, missing)
        index = self._index_of(phases)

        def found() -> tuple[Gathered, Weighing, list[Hit]]:
            deep = max(top_k, -(-shown // 4))  # the legs go four times as deep
            gathered, asked, weighing = self._gather(namespace, question, whom, filter, reading, deep, index, phases)
            if question.vector is not None and asked.vector is None:
                missing["embedder"] = (
                    f"This process embeds by {self._embedder.model}, the ledger moved to another embedder: restart it with the new "
                    "settings. Nothing was found by meaning."
                )
            with phases.of("score"):
                hits = self._rank(namespace, asked, gathered, reading, weighing.weights, top_k=max(top_k, shown), threshold=threshold)
            return gathered, weighing, hits

        gathered, weighing, hits = self._from_ledger(found, phases)
        if gathered.index_down:
            why = index.why if isinstance(index, IndexInTime) else None
            missing["index"] = f"{why or 'The index did not answer.'} The ledger was searched in its place."
        if rerank and self._reranker is not None:
            with phases.of("rerank"):
                hits, wrong = reranked(
                    self._reranker,
                    self._reranker_guard,
                    query,
                    hits,
                    most=shown,
                    seconds=phases.left,
                    is_past=lambda hit: reading.is_past(hit.row),
                )
            if wrong is not None:
                missing["reranker"] = f"{wrong} The order is the search's own."
        hits = hits[:top_k]
        left_out = None
        if max_tokens is not None:
            hits, left_out = fitting(hits, max_tokens)
        tell_search(phases.seconds, missing, gathered.incomplete)
        models: Mapping[str, object] = {}
        if explain:
            models = models_in_use(self._embedder, self._analyser, self._index, self._reranker if rerank else None, weighing, missing)
        return SearchResult(
            hits,
            gathered.incomplete,
            tuple(missing),
            phases.seconds if explain else {},
            weighing.source,
            tuple(missing.values()),
            left_out,
            models,
        )

    def signals(self, namespace: str, query: str, filter: Filter, *, top_k: int = 20) -> tuple[list[CandidateRow], Floats]:
        """The candidates of a search and their signals (n, number of `SIGNALS`), unscored: what weights are fitted to."""
        phases = Phases(self._deadline, self._timer)
        reading = Reading(self._clock.now().date(), filtered=not filter.narrows_only_by_scope)
        question, whom = self._understood(namespace, check_query(query), filter, phases, {})
        gathered, _, _ = self._gather(namespace, question, whom, filter, reading, top_k, self._index_of(phases), phases)
        chosen = list(gathered.chosen)
        return [gathered.around.rows[index] for index in chosen], measure(gathered.arrays)[chosen]

    def _understood(self, namespace: str, query: str, filter: Filter, phases: Phases, missing: dict[str, str]) -> tuple[Question, _Whom]:
        with phases.of("analyse", counted=False):  # what this process loads and computes itself is no wait for another part
            analysis = self._analyser.analyse([query])[0]
        whom = self._from_ledger(partial(self._whom, namespace, query, filter, phases), phases)
        topic = without_names(query, whom.named)
        texts = [query, *(mention.name for mention in first_entities(analysis)), *([topic] if topic != query else [])]
        with phases.of("embed", counted=self._embedder.paid):
            vectors = self._embed(texts, phases, missing)
        return question_of(query, analysis, vectors, model=self._embedder.model, with_topic=topic != query), whom

    def _whom(self, namespace: str, query: str, filter: Filter, phases: Phases) -> _Whom:
        with phases.of("read"), self._ledger.read() as connection:
            owner_nos = owners_of(connection, namespace, filter.scopes)
            return _Whom(owner_nos, named_in(query, self._actors.of(connection, owner_nos)))

    def _index_of(self, phases: Phases) -> Index:
        """The index as this search asks it; one that lies in this process and keeps its vectors at hand is trusted."""
        if isinstance(self._index, KeepsVectors) and not self._index.remote:
            return self._index
        return cast("Index", IndexInTime(self._index, self._index_guard, phases))  # a search uses its reads only

    def _from_ledger(self, found: Callable[[], T], phases: Phases) -> T:
        """What *found* reads; SQLite is a file of this machine, whose readers wait for nobody."""
        try:
            if self._ledger.is_sqlite:
                return found()
            return self._ledger_guard.call(found, max(phases.left, SHARE * self._deadline))
        except ServiceUnavailable:
            tell_failed(phases.seconds)
            raise

    def _gather(
        self,
        namespace: str,
        question: Question,
        whom: _Whom,
        filter: Filter,
        reading: Reading,
        top_k: int,
        index: Index,
        phases: Phases,
    ) -> tuple[Gathered, Question, Weighing]:
        owner_nos, named = whom.owner_nos, whom.named
        with phases.of("read"), self._ledger.read() as connection:
            statistics = term_statistics(connection, owner_nos, question.terms[:LOOKED_UP])
            weighing = self._weights.of(connection, namespace)
            if question.vector is not None and stored_embedder(connection) not in (None, (self._embedder.model, self._embedder.dimension)):
                question = replace(question, vector=None, entity_vectors=(), topic_vector=None)  # vectors of two models can't be compared
            question = _without_speakers(_rarest(question, statistics), named)
            if ranks_by_ledger(index):
                statistics = with_postings(connection, owner_nos, question.terms, statistics)
        asked = Asked(namespace, question, filter, reading, top_k, owner_nos, statistics, named)
        return gather(self._ledger, index, asked, phases), question, weighing

    def _embed(self, texts: list[str], phases: Phases, missing: dict[str, str]) -> NDArray[np.float32] | None:
        """One vector a text; None where the embedder fails, is too slow, or answers something else."""
        call = partial(self._embedder.embed, texts)
        try:
            # a paid one leaves the process, and may hang
            found = self._embedder_guard.call(call, phases.left * SHARE) if self._embedder.paid else call()
            return self._checked(found, len(texts))
        except (ProviderError, ServiceUnavailable) as error:
            missing["embedder"] = f"{error} Nothing was found by meaning."
            return None

    def _checked(self, found: object, texts: int) -> NDArray[np.float32]:
        """*found* as vectors; raises ProviderRefused for another shape, what is not finite, and vectors without a direction."""
        shape = (texts, self._embedder.dimension)
        if isinstance(found, np.ndarray) and found.shape == shape and found.dtype.kind == "f":
            vectors: NDArray[np.float32] = found.astype(np.float32, copy=False)
            if np.isfinite(vectors).all() and np.abs(vectors).max(axis=1).all():
                return vectors
        raise ProviderRefused(f"The embedder {self._embedder.model} returned no {texts} finite vectors of {shape[1]} dimensions.")

    def _rank(
        self,
        namespace: str,
        question: Question,
        gathered: Gathered,
        reading: Reading,
        weights: Weights,
        *,
        top_k: int,
        threshold: float,
    ) -> list[Hit]:
        chosen = list(gathered.chosen)
        if not chosen:
            return []
        signals = measure(gathered.arrays)[chosen]
        added = contributions(signals, weights, MEANINGS if question.vector is None else ())
        rows = [gathered.around.rows[index] for index in chosen]
        plain = scores(added, weights)
        found = _below_successors(rows, plain, reading)
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
                below=rows[i].superseded_by if found[i] < plain[i] else None,
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
            if (newer := index.get(rows[i].superseded_by or "")) is not None:
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
