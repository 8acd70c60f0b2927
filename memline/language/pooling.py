"""Vectors of texts longer than a model takes: the mean of their pieces' vectors, of length 1 again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memline.language.ports import Vectors

__all__ = ["pooled", "unit_rows"]


def unit_rows(vectors: NDArray[np.floating]) -> Vectors:
    """Rows of length 1 as float32; a row that has no direction becomes the first axis, so that every text has a vector."""
    rows = np.array(vectors, dtype=np.float64, copy=True)
    norms = np.linalg.norm(rows, axis=1)
    lost = ~(np.isfinite(norms) & (norms > 1e-9))
    rows[lost] = 0.0
    rows[lost, :1] = 1.0
    norms[lost] = 1.0
    return np.asarray(rows / norms[:, None], dtype=np.float32)


def pooled(pieces: Vectors, counts: Sequence[int]) -> Vectors:
    """One row for each of *counts*: the mean of its consecutive rows of *pieces* (all counts at least 1)."""
    if not counts:
        return np.empty((0, pieces.shape[1]), dtype=np.float32)
    starts = np.cumsum([0, *counts[:-1]])
    sums = np.add.reduceat(pieces.astype(np.float64), starts, axis=0)
    return unit_rows(sums / np.asarray(counts, dtype=np.float64)[:, None])
