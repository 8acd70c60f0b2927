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
            "meaning": 3.88,
            "meaning_run": 3.37,
            "meaning_near": 2.77,
            "words": 2.38,
            "coverage": 0.94,
            "words_near": 9.29,
            "answers": 3.56,
            "code": 4.0,
            "entity": 0.5,
            "same_actor": 1.46,
            "other_actor": -1.46,
            "question": -0.93,
            "short": -2.42,
            "time_words": 1.92,
            "same_date": 4.86,
            "superseded": -3.0,
        }
    ),
    middle=4.0,
    slope=0.9,
)
