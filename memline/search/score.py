"""From signals to a score: one weighted sum, one fixed increasing map to 0–1, so that a score means the same in every question."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from memline.search.signals import SIGNALS, Floats
from memline.search.weights import Weights

__all__ = ["contributions", "scores"]


def contributions(signals: Floats, weights: Weights, missing: Collection[str] = ()) -> Floats:
    """(n, signals): what each signal adds to the sum.

    The weight of a signal that could not be had (*missing*) leaves the range: what is left is stretched to the same greatest sum, so
    that an answer without the embedder is scored on the same scale.
    """
    row = np.array([weights.signals.get(name, 0.0) for name in SIGNALS])
    there = np.array([name not in missing for name in SIGNALS])
    most, most_left = np.maximum(row, 0).sum(), np.maximum(row[there], 0).sum()
    stretch = most / most_left if most_left > 0 else 1.0
    return np.asarray(signals * np.where(there, row * stretch, 0.0), np.float64)


def scores(added: Floats, weights: Weights) -> Floats:
    """(n,) scores above 0 and at most 1 from what `contributions` gives."""
    return np.asarray(1 / (1 + np.exp(-weights.slope * (added.sum(axis=1) - weights.middle))), np.float64)
