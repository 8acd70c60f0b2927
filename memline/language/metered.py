"""Parts whose calls serve a search, and are told to the metrics as they are made: nothing of a search is written to the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memline.language.ports import ChatModel, ChatReply, Embedder, Vectors
from memline.language.usage import Use, asked, embedded, metered

__all__ = ["MeteredChat", "MeteredEmbedder"]

#: Takes what calls used.
Told = Callable[[Sequence[Use]], None]


class MeteredEmbedder:
    """*embedder*, whose use is told."""

    def __init__(self, embedder: Embedder, told: Told) -> None:
        self._embedder, self._told = embedder, told

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def paid(self) -> bool:
        return self._embedder.paid

    def embed(self, texts: Sequence[str]) -> Vectors:
        """As the embedder does."""
        with metered() as uses:
            try:
                return embedded(self._embedder, texts)
            finally:  # also of a call that failed: its server may have charged for it
                if uses:
                    self._told(uses)


class MeteredChat:
    """*chat*, whose use is told."""

    def __init__(self, chat: ChatModel, told: Told) -> None:
        self._chat, self._told = chat, told

    @property
    def model(self) -> str:
        return self._chat.model

    def complete(self, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        """As the model does."""
        with metered() as uses:
            try:
                return asked(self._chat, messages, schema=schema)
            finally:
                if uses:
                    self._told(uses)
