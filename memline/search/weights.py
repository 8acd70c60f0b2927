"""How much each signal counts. Published: a score can be computed again from what `explain` shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["DEFAULT", "Weights"]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights by signal (see `signals.SIGNALS`), and the map from their sum to a score: 1 / (1 + exp(-slope (sum - middle)))."""

    signals: Mapping[str, float]
    #: The weighted sum that scores 0.5.
    middle: float
    slope: float


#: Fitted by `bench/fit_weights.py` (conditional logit, penalties held negative, all else positive); `code` is set by hand, since
#: conversations hold few codes: a memory that holds the code of a question is what was asked for.
DEFAULT = Weights(
    MappingProxyType(
        {
            "meaning": 3.8,
            "meaning_run": 3.3,
            "meaning_near": 2.7,
            "words": 2.3,
            "coverage": 0.9,
            "words_near": 9.1,
            "answers": 3.6,
            "code": 4.0,
            "entity": 0.5,
            "same_actor": 1.4,
            "other_actor": -1.4,
            "question": -0.9,
            "short": -2.4,
            "time_words": 1.9,
            "same_date": 4.9,
            "superseded": -3.0,
        }
    ),
    middle=4.5,
    slope=0.6,
)
