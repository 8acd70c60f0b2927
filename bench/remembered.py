"""An analyser and an embedder that look each text up before they work: the same texts are asked about again and again in a bench."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memline.contracts.fact import Analysis
from memline.language.ports import Analyser, Embedder

__all__ = ["RememberedAnalyser", "RememberedEmbedder"]

#: Texts of one call: what a long call lost is little.
_CHUNK = 512


class RememberedAnalyser:
    """An `Analyser` over another one. *file*: a pickle that is read at the start and written by `save`; trust it as you trust code."""

    def __init__(self, inner: Analyser, file: Path | None = None) -> None:
        self._inner, self._file = inner, file
        self._known: dict[str, Analysis] = pickle.loads(file.read_bytes()) if file is not None and file.exists() else {}

    @property
    def name(self) -> str:
        return self._inner.name

    def analyse(self, texts: Sequence[str]) -> list[Analysis]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in range(0, len(new), _CHUNK):
            chunk = new[start : start + _CHUNK]
            self._known |= dict(zip(chunk, self._inner.analyse(chunk), strict=True))
        return [self._known[text] for text in texts]

    def save(self) -> None:
        """Writes what is known."""
        if self._file is not None:
            self._file.write_bytes(pickle.dumps(self._known))


class RememberedEmbedder:
    """An `Embedder` over another one; *file* as above."""

    def __init__(self, inner: Embedder, file: Path | None = None) -> None:
        self._inner, self._file = inner, file
        self._known: dict[str, NDArray[np.float32]] = pickle.loads(file.read_bytes()) if file is not None and file.exists() else {}

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    @property
    def paid(self) -> bool:
        return False  # nothing leaves the process for a text that is known

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in range(0, len(new), _CHUNK):
            chunk = new[start : start + _CHUNK]
            self._known |= dict(zip(chunk, self._inner.embed(chunk), strict=True))
        return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, self.dimension), np.float32)

    def save(self) -> None:
        """Writes what is known."""
        if self._file is not None:
            self._file.write_bytes(pickle.dumps(self._known))
