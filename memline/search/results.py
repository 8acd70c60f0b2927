"""What a search returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memline.ledger.memories import MemoryRow

__all__ = ["Hit", "LeftOut", "SearchResult", "SignalValue"]


@dataclass(frozen=True, slots=True)
class SignalValue:
    """A signal of one result: as measured (0 to 1), and what it adds to the sum behind the score."""

    raw: float
    weighted: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found, and why."""

    row: MemoryRow
    #: Above 0, at most 1.
    score: float
    #: By name of the signal; every signal is there.
    signals: Mapping[str, SignalValue]
    #: Terms of the question that stand in the memory.
    terms: tuple[str, ...]
    #: Names by which the entity leg came here, normalised.
    entities: tuple[str, ...]
    #: Its place (from 1) in each leg that nominated it: "vector", "words", "entity".
    ranks: Mapping[str, int]
    #: The id of what superseded it, where its score was lowered to stay below that one's.
    below: str | None = None
    #: The reranker's, in that one's own range; None where it did not score this one.
    rerank_score: float | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What did not fit: ids in the order of their rank, and the tokens that the others take, by `fitting.estimate_tokens`."""

    ids: tuple[str, ...]
    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The results of a search, best first."""

    results: list[Hit]
    #: A leg had more when the search stopped with fewer than top_k: there may be more to find.
    incomplete: bool = False
    #: Parts that did not answer: "embedder", "index", "reranker".
    missing: tuple[str, ...] = ()
    #: Seconds spent in each phase, where it was asked to explain.
    phases: Mapping[str, float] = field(default_factory=dict)
    #: Whose weights the scores come from: "default" (the published ones) or "namespace".
    weights: str = "default"
    #: Of each missing part what was wrong, and what that means for this answer.
    warnings: tuple[str, ...] = ()
    #: What did not fit, where only so many tokens were asked for.
    left_out: LeftOut | None = None
    #: What took part, by kind, where it was asked to explain: see `explain.models_in_use`.
    models: Mapping[str, Any] = field(default_factory=dict)
