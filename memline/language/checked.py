"""What an embedder returned, looked at before it is kept: one vector that is no number spoils every comparison it takes part in."""

from __future__ import annotations

from typing import Any

import numpy as np

from memline.contracts.errors import ProviderRefused
from memline.language.ports import Embedder, Vectors

__all__ = ["checked_vectors"]


def checked_vectors(embedder: Embedder, found: Any, texts: int) -> Vectors:
    """*found* as float32 of shape (*texts*, the embedder's dimension); raises ProviderRefused for another shape or what is not finite."""
    shape = (texts, embedder.dimension)
    try:
        vectors = np.asarray(found, dtype=np.float32)
    except (TypeError, ValueError):
        vectors = np.empty(0, np.float32)
    what = f"The embedder {embedder.model}"
    if vectors.ndim == 2 and vectors.shape[0] == texts and vectors.shape[1] != shape[1]:
        raise ProviderRefused(f"{what} returned vectors of dimension {vectors.shape[1]}, its own is {shape[1]}.", of_content=False)
    if vectors.shape != shape or not np.isfinite(vectors).all():
        raise ProviderRefused(f"{what} returned no {texts} finite vectors of {shape[1]} dimensions.")
    if not vectors.any(axis=1).all():
        raise ProviderRefused(f"{what} returned vectors that are all zeros, which are near to nothing.")
    return vectors
