"""Embedding the texts of a batch: what succeeds is kept, what is refused is narrowed down to the text that it is refused for."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memline.contracts import failpoints, tracing
from memline.contracts.errors import ProviderError, ProviderRefused
from memline.language.checked import checked_vectors
from memline.language.ports import Embedder
from memline.language.usage import embedded

__all__ = ["CHUNK", "Made", "embed_texts", "vector_bytes"]

#: Texts that are embedded between two looks at the lease, and the characters of them: about what goes into one request, so that of
#: what a server answered nothing is lost when it fails at the next.
CHUNK, CHUNK_SIZE = 256, 120_000

#: Refusals one after the other, none taken between them, after which the embedder is taken to refuse everything. Down to one text of a
#: chunk it is at most 9.
_MOST_REFUSALS = 24


@dataclass(slots=True)
class Made:
    """What came of some texts: vectors (base64 of `vector_bytes`), and errors of those that alone are refused."""

    vectors: dict[str, str] = field(default_factory=dict)
    refused: dict[str, ProviderError] = field(default_factory=dict)
    #: Why the rest was not asked for, or not answered.
    stopped: ProviderError | None = None

    def error_of(self, text: str) -> ProviderError | None:
        """Why a text has no vector; None: it has one."""
        return None if text in self.vectors else self.refused.get(text, self.stopped)


def embed_texts(embedder: Embedder, texts: Sequence[str], keep: Callable[[], None]) -> Made:
    """Embeds distinct *texts*, `CHUNK` at a time or `CHUNK_SIZE` characters; *keep* keeps the lease before each call.

    A chunk that is refused for what is in it is asked for by halves. Raises nothing of the embedder's: it stands in the answer.
    """
    made = Made()
    refusals = 0
    waiting = _chunks(texts)
    while waiting:
        some = waiting.pop(0)
        keep()
        try:
            failpoints.hit("embed.before_call")
            with tracing.inner("memline ask embedder", texts=len(some)):
                vectors = checked_vectors(embedder, embedded(embedder, some), len(some))
            failpoints.hit("embed.after_call")
        except ProviderRefused as error:
            refusals += 1
            if not error.of_content or refusals > _MOST_REFUSALS:
                made.stopped = error
                return made
            if len(some) == 1:
                made.refused[some[0]] = error
            else:
                half = len(some) // 2
                waiting[:0] = [some[:half], some[half:]]
        except ProviderError as error:
            made.stopped = error
            return made
        else:
            refusals = 0
            made.vectors |= {
                text: base64.b64encode(vector_bytes(vector)).decode("ascii") for text, vector in zip(some, vectors, strict=True)
            }
    return made


def _chunks(texts: Sequence[str]) -> list[list[str]]:
    chunks: list[list[str]] = []
    size = 0
    for text in texts:
        size += len(text)
        if not chunks or len(chunks[-1]) == CHUNK or size > CHUNK_SIZE:
            chunks.append([])
            size = len(text)
        chunks[-1].append(text)
    return chunks


def vector_bytes(vector: Any) -> bytes:
    """A vector as the ledger keeps it: float32, little-endian."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()
