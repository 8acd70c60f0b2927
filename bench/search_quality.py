"""Evidence recall of search on conversations with questions, and what each signal and each leg adds to it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import fit_weights
from bench.retrieval import Question
from bench.search_data import Talk, forget, remember
from memline.compose import House
from memline.contracts.fact import Analysis
from memline.contracts.filters import parse
from memline.language.ports import Analyser, Embedder
from memline.search.index.port import Index
from memline.search.searcher import Searcher
from memline.search.signals import SIGNALS
from memline.search.weights import DEFAULT
from memline.settings import Settings

__all__ = ["Answered", "Measured", "figures", "left_out", "measure_talks", "without_legs", "without_signals"]

#: Results that are asked for.
DEEP = 25
LEGS = ("vector", "words", "entity")


@dataclass(frozen=True, slots=True)
class Answered:
    """A question of a conversation, and the turns that were found for it, best first."""

    talk: str
    question: Question
    turns: tuple[str, ...]
    #: Parts that did not answer.
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """One data set with one embedder on one index."""

    answered: list[Answered]
    #: For other weights than the published ones: the signals of every candidate, and which are evidence.
    asked: list[fit_weights.Asked]
    #: By leg, what is found without it.
    without: dict[str, list[Answered]]


def measure_talks(
    talks: Sequence[Talk], settings: Settings, analyser: Analyser, embedder: Embedder, *, legs: bool, keep: bool = False
) -> Measured:
    """Fills a house of its own and asks every question, with the published weights. *legs*: once more without each leg.

    *keep*: a server that is the index keeps the memories.
    """
    house = House(settings, embedder=embedder)
    answered: list[Answered] = []
    asked: list[fit_weights.Asked] = []
    without: dict[str, list[Answered]] = {leg: [] for leg in LEGS} if legs else {}
    try:
        index, clock = house.index, house.clock
        searcher = Searcher(house.ledger, index, analyser, embedder, clock, deadline=3600)
        others = {leg: _searcher_without(leg, house, index, analyser, embedder) for leg in without}
        for talk in talks:
            turn_of = remember(talk, house.ledger, index, settings.namespace, analyser, embedder)
            memory_of = {turn: memory_id for memory_id, turn in turn_of.items()}
            filters = parse({"user_id": talk.name})
            for question in talk.questions:
                answered.append(_answer(searcher, settings.namespace, talk, question, turn_of))
                for leg, other in others.items():
                    without[leg].append(_answer(other, settings.namespace, talk, question, turn_of))
                rows, signals = searcher.signals(settings.namespace, question.text, filters)
                evidence = {memory_of[turn] for turn in question.evidence if turn in memory_of}
                wanted = np.array([row.id in evidence for row in rows], np.bool_)
                asked.append(fit_weights.Asked(talk.name, signals, wanted, len(question.evidence)))
    finally:
        if not keep:
            forget(house.index, settings.namespace)
        house.close(0)
    return Measured(answered, asked, without)


def _answer(searcher: Searcher, namespace: str, talk: Talk, question: Question, turn_of: Mapping[str, str]) -> Answered:
    found = searcher.search(namespace, question.text, parse({"user_id": talk.name}), top_k=DEEP, threshold=0)
    return Answered(talk.name, question, tuple(turn_of[hit.row.id] for hit in found.results), found.missing)


def figures(answered: Sequence[Answered]) -> dict[str, float]:
    """Percent, averaged over questions: recall@k the share of the evidence in the first k, nDCG@10 with binary gains."""
    found: dict[str, list[float]] = {}
    for each in answered:
        evidence = each.question.evidence
        for k in (5, 10, 25):
            found.setdefault(f"recall@{k}", []).append(len(evidence & set(each.turns[:k])) / len(evidence))
        gain = sum(1 / math.log2(rank + 2) for rank, turn in enumerate(each.turns[:10]) if turn in evidence)
        ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(evidence))))
        found.setdefault("nDCG@10", []).append(gain / ideal)
    return {name: round(100 * statistics.mean(values), 2) for name, values in found.items()}


def without_signals(asked: Sequence[fit_weights.Asked]) -> dict[str, dict[str, float]]:
    """The figures with the published weights, one signal's at 0 at a time; candidates stay the same."""
    published = np.array([DEFAULT.signals.get(name, 0.0) for name in SIGNALS])
    changed = {"none": published} | {name: np.where(np.arange(len(SIGNALS)) == i, 0.0, published) for i, name in enumerate(SIGNALS)}
    return {name: _two(fit_weights.measure(asked, weights)) for name, weights in changed.items()}


def without_legs(measured: Measured) -> dict[str, dict[str, float]]:
    """The figures without one leg's nominations at a time; the signals of what the others nominate stay."""
    return {leg: figures(answered) for leg, answered in measured.without.items()}


def left_out(asked: Sequence[fit_weights.Asked]) -> dict[str, float]:
    """Each conversation with weights that `bench/fit_weights.py` fits to the others, averaged over questions."""
    found, numbers = [], []
    for name in dict.fromkeys(question.conversation for question in asked):
        own = [question for question in asked if question.conversation == name]
        found.append(fit_weights.measure(own, fit_weights.fit([question for question in asked if question.conversation != name])))
        numbers.append(len(own))
    recall, ndcg = np.average(np.array(found), axis=0, weights=numbers)
    return _two((float(recall), float(ndcg)))


def _two(found: tuple[float, float]) -> dict[str, float]:
    return {"recall@10": round(found[0], 2), "nDCG@10": round(found[1], 2)}


def _searcher_without(leg: str, house: House, index: Index, analyser: Analyser, embedder: Embedder) -> Searcher:
    """A searcher in which *leg* nominates nothing. What the ledger knows of a candidate still counts in its score."""
    if leg == "entity":
        return Searcher(house.ledger, index, _NoEntities(analyser), embedder, house.clock, deadline=3600)
    return Searcher(house.ledger, _Without(index, leg), analyser, embedder, house.clock, deadline=3600)


class _NoEntities:
    """An analyser that finds no entity."""

    def __init__(self, inner: Analyser) -> None:
        self._inner, self.name = inner, inner.name

    def analyse(self, texts: Sequence[str]) -> list[Analysis]:
        return [Analysis(found.terms, ()) for found in self._inner.analyse(texts)]


class _Without:
    """An index one of whose legs finds no memory."""

    def __init__(self, inner: Index, leg: str) -> None:
        self._inner, self._leg = inner, leg

    def nearest(self, kind: Any, namespace: str, scopes: Any, vector: NDArray[np.float32], *, limit: int, offset: int = 0) -> Any:
        if self._leg == "vector" and kind == "memory":
            return []
        return self._inner.nearest(kind, namespace, scopes, vector, limit=limit, offset=offset)

    def matching(self, namespace: str, scopes: Any, terms: Any, *, limit: int, offset: int = 0) -> Any:
        return [] if self._leg == "words" else self._inner.matching(namespace, scopes, terms, limit=limit, offset=offset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
