"""The ports of this room. An object with these members can be given for each, or its import path ("package.module:name")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memline.contracts.fact import Analysis

__all__ = ["Analyser", "ChatModel", "ChatReply", "Embedder", "Vectors"]

#: Shape (number of texts, dimension), float32, each row of length 1.
Vectors = NDArray[np.float32]


class Analyser(Protocol):
    """Finds terms and entities."""

    @property
    def name(self) -> str:
        """What analyses, with versions: texts analysed under another name may have other terms."""
        ...

    def analyse(self, texts: Sequence[str]) -> list[Analysis]:
        """One analysis a text, in order. Thread-safe."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def model(self) -> str:
        """Id of the model, stored with every vector."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def paid(self) -> bool:
        """A call leaves the process and costs: its answer is stored before anything else happens."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, in order. Thread-safe.

        Raises ProviderUnavailable where another try may help, ProviderRefused where it won't.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's answer and what it used."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    #: "stop", "length", "content_filter": the server's word.
    finish: str = "stop"
    #: Of `tokens_in`, those that the server had in its cache.
    tokens_cached: int = 0


class ChatModel(Protocol):
    """Answers a conversation with text."""

    @property
    def model(self) -> str: ...

    def complete(self, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        """The reply to *messages* (dicts with role and content), as JSON by *schema* where the server can.

        Contents are texts; of a vision model's, lists of OpenAI's parts with type text and image_url.

        Raises ProviderUnavailable where another try may help, ProviderRefused where it won't.
        """
        ...
