"""What a search returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memline.ledger.memories import MemoryRow

__all__ = ["Hit", "SearchResult", "SignalValue"]


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


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The results of a search, best first."""

    results: list[Hit]
    #: A leg had more when the search stopped with fewer than top_k: there may be more to find.
    incomplete: bool = False
    #: Parts that did not answer: "embedder", "index".
    missing: tuple[str, ...] = ()
    #: Seconds spent in each phase, where it was asked to explain.
    phases: Mapping[str, float] = field(default_factory=dict)
