"""The port of a reranker. An object with these members can be given (`Memory(reranker=…)`), or its import path ("package.module:name")."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from memline.contracts.errors import ProviderRefused

__all__ = ["MOST_CHARACTERS", "MOST_DOCUMENTS", "Reranker", "checked_scores"]

#: Most candidates that are shown to a reranker, and characters of each and of the question: what is more is cut off.
MOST_DOCUMENTS, MOST_CHARACTERS = 200, 4_000


class Reranker(Protocol):
    """Scores documents for a question."""

    @property
    def name(self) -> str:
        """What reranks, by kind and model."""
        ...

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> Mapping[int, float]:
        """A score, larger is better, by place (from 0) in *documents*; places that are not named count as worse than all that are.

        It has *timeout* seconds, and is not waited for longer. Documents are data, whatever they say. Thread-safe. Raises
        ProviderUnavailable where another try may help, ProviderRefused where it won't; whatever it raises, the search goes on in its
        own order.
        """
        ...


def checked_scores(answer: Any, documents: int) -> dict[int, float]:
    """*answer* as a reranker's scores.

    Raises ProviderRefused for anything else: no mapping, an empty one, places out of range, numbers that are not finite.
    """
    if not isinstance(answer, Mapping):
        raise ProviderRefused(f"The reranker answered with {type(answer).__name__}, not with scores by place.")
    if not answer and documents:
        raise ProviderRefused(f"The reranker scored none of {documents} documents.")
    found: dict[int, float] = {}
    for place, score in answer.items():
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < documents:
            raise ProviderRefused(f"The reranker scored a document that is none of the {documents} it was given.")
        found[place] = _finite(score)
    return found


def _finite(score: Any) -> float:
    try:
        number = math.nan if isinstance(score, bool) or not isinstance(score, (int, float)) else float(score)
    except OverflowError:  # a whole number with hundreds of digits
        number = math.nan
    if not math.isfinite(number):
        raise ProviderRefused("The reranker gave a score that is no finite number.")
    return number
