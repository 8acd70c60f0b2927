"""A small real embedder for the chaos runs, where hundreds of workers start: words hashed to 64 dimensions, no model to load."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memline.cli.simulator import embedding
from memline.language.ports import Vectors

__all__ = ["SmallEmbedder"]


class SmallEmbedder:
    """An `Embedder` that is deterministic and starts at once."""

    model = "words-64"
    dimension = 64
    paid = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Signed hashing of words and character trigrams."""
        return np.asarray([embedding(text, self.dimension) for text in texts], dtype=np.float32).reshape(len(texts), self.dimension)
