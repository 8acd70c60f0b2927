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
    if vectors.shape != shape or not np.isfinite(vectors).all():
        raise ProviderRefused(f"The embedder {embedder.model} returned no {texts} finite vectors of {shape[1]} dimensions.")
    return vectors
