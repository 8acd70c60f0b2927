"""Parts that a setting can name by import path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memline.contracts.errors import ProviderRefused
from memline.contracts.fact import Fact
from memline.language.ports import Vectors
from memline.pipeline.extractors.port import Request

__all__ = ["Broken", "Tiny"]


class Tiny:
    """An embedder of two dimensions, to which every text means the same."""

    model = "tiny-1"
    dimension = 2
    paid = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.tile(np.array([1.0, 0.0], np.float32), (len(texts), 1))


class Broken:
    """An extractor whose provider refuses everything."""

    name = "broken"
    paid = True
    wants_context = False

    def ask(self, request: Request) -> str:
        raise ProviderRefused("The provider refused: no such model.")

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        raise AssertionError("there is no reply")
