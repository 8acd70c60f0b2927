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


#: Fitted by `bench/fit_weights.py` (conditional logit, penalties held negative, all else positive) to five conversations between two people
#: and eight of a user with an assistant. Three are set by hand, since those hold hardly a code, and nothing in them is superseded: a memory
#: that holds the code of a question is what was asked for. `middle` and `slope`: a memory that nothing speaks
#: for scores 0.09, just below the default threshold, and half of what answers a question above 0.8.
DEFAULT = Weights(
    MappingProxyType(
        {
            "meaning": 4.1,
            "meaning_run": 2.9,
            "meaning_near": 3.2,
            "words": 1.9,
            "coverage": 1.2,
            "words_near": 4.3,
            "answers": 2.9,
            "code": 4.0,
            "entity": 0.5,
            "same_actor": 1.5,
            "other_actor": -1.4,
            "assistant": -2.1,
            "standing": 1.4,
            "question": -0.9,
            "short": -2.2,
            "long": -3.5,
            "time_words": 1.8,
            "same_date": 11.6,
            "superseded": -3.0,
        }
    ),
    middle=4.9,
    slope=0.47,
)
