"""Small real parts for the chaos runs, where hundreds of workers start: an embedder without a model to load, a model that is slow."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.instant import InstantChat
from memline.cli.simulator import embedding
from memline.language.ports import ChatReply, Vectors

__all__ = ["SlowChat", "SmallEmbedder"]


class SmallEmbedder:
    """An `Embedder` that is deterministic and starts at once."""

    model = "words-64"
    dimension = 64
    paid = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Signed hashing of words and character trigrams."""
        return np.asarray([embedding(text, self.dimension) for text in texts], dtype=np.float32).reshape(len(texts), self.dimension)


class SlowChat(InstantChat):
    """A model that takes a fifth of a second for each answer."""

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        """The instant reply, later."""
        time.sleep(0.2)
        return super().complete(messages, schema=schema)
