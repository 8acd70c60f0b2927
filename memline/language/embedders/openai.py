"""Embeddings from an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memline.contracts.errors import ConfigurationError, ProviderRefused
from memline.language.calls import CallTimes, Link
from memline.language.lazy import Lazy
from memline.language.pooling import pooled, unit_rows
from memline.language.ports import Vectors
from memline.language.providers import host_of, make_client, provider_errors, tokens_of
from memline.language.usage import Use, tell
from memline.language.windows import evenly, pieces

if TYPE_CHECKING:
    import openai

__all__ = ["OpenAIEmbedder"]

#: Texts of one request (OpenAI takes 2,048).
_BATCH = 256
#: Full windows of one request: OpenAI takes 300,000 tokens in all, a window has at most 8,191.
_FULL_WINDOWS = 30.0
#: Windows of one text, taken at even distances: more of them move the mean no further, and each is paid.
_MOST_WINDOWS = 16


class OpenAIEmbedder:
    """Embeds by `POST {base_url}/embeddings` (`ports.Embedder`). Thread-safe; a forked child opens its own connections.

    *timeout* in seconds, of one try of one request; *link* tries again, and holds back. *send_dimension* sends the wished dimension along;
    None does so for OpenAI's text-embedding-3 models, which can shorten their vectors, and for no other. A text over the model's 8,191
    tokens is the mean of at most 16 windows of it. A blank text is not sent (servers refuse it); its vector is the first axis.
    """

    def __init__(
        self,
        model: str,
        dimension: int,
        api_key: str,
        base_url: str | None = None,
        timeout: float = 20.0,
        send_dimension: bool | None = None,
        link: Link | None = None,
    ) -> None:
        if dimension < 1:
            raise ConfigurationError(f"The embedder's dimension must be at least 1, not {dimension}.")
        self._model = model
        self._dimension = dimension
        self._base_url = base_url
        self._timeout = timeout
        self._link = link or Link(host_of(base_url), model, "embed", times=CallTimes(budget=timeout, tries=1))
        self._send_dimension = "text-embedding-3" in model if send_dimension is None else send_dimension
        self._client: Lazy[openai.OpenAI] = Lazy(lambda: make_client(api_key, base_url, timeout), per_process=True)

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def paid(self) -> bool:
        return True

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, in order.

        Raises ProviderUnavailable where another try may help; ProviderRefused where it won't, also for an answer with another number of
        vectors, another dimension, or numbers that are not finite.
        """
        windows = [_windows(text) for text in texts]
        vectors = np.zeros((sum(map(len, windows)), self._dimension), dtype=np.float64)
        sent = [(row, window, share) for row, (window, share) in enumerate(pair for own in windows for pair in own) if window.strip()]
        deadline = self._link.deadline()
        for batch in _batches(sent):
            vectors[[row for row, _, _ in batch]] = self._request([window for _, window, _ in batch], deadline)
        return pooled(unit_rows(vectors), [len(own) for own in windows])

    def close(self) -> None:
        """Closes the connections; the next `embed` opens new ones."""
        client = self._client.drop()
        if client is not None:
            client.close()

    def _request(self, texts: list[str], deadline: float) -> Vectors:
        reserved = sum(len(text.encode("utf-8", "replace")) // 4 + 1 for text in texts)
        (vectors, used), lost = self._link.make(lambda seconds: self._once(texts, seconds), tokens=reserved, deadline=deadline)
        self._link.used(reserved, used or reserved)
        tell(Use(self._model, 1, used, repeated=lost))
        return vectors

    def _once(self, texts: list[str], seconds: float) -> tuple[Vectors, int]:
        """The vectors of one request, and the tokens it used."""
        what = f"The embedder {self._model}"
        client = self._client.get()
        more: dict[str, Any] = {"dimensions": self._dimension} if self._send_dimension else {}
        with provider_errors(what, self._base_url):
            answer = client.embeddings.create(
                model=self._model, input=texts, encoding_format="float", timeout=min(self._timeout, seconds), **more
            )
        try:
            rows: dict[int, Any] = {item.index: item.embedding for item in answer.data}
            count = len(answer.data)
        except (AttributeError, TypeError) as error:  # the client does not check the shape of an answer
            where = host_of(self._base_url)
            told = f"{what} at {where} sent no list of embeddings ({type(error).__name__}): check the base URL."
            raise ProviderRefused(told, of_content=False) from None
        used = tokens_of(answer)[0]
        try:
            return self._checked(what, rows, count, len(texts)), used
        except ProviderRefused:
            if used:  # it is charged for all the same
                tell(Use(self._model, 1, used))
            raise

    def _checked(self, what: str, rows: dict[int, Any], count: int, wanted: int) -> Vectors:
        if count != wanted or sorted(rows) != list(range(wanted)):
            raise ProviderRefused(f"{what} sent {count} vectors ({len(rows)} places) for {wanted} texts.")
        for row in rows.values():
            if not isinstance(row, list) or len(row) != self._dimension:
                found = len(row) if isinstance(row, list) else type(row).__name__
                told = f"{what} sent a vector of dimension {found}, set is {self._dimension}: set the model's own dimension."
                raise ProviderRefused(told, of_content=False)
        try:
            vectors = np.asarray([rows[index] for index in range(wanted)], dtype=np.float64)
        except (TypeError, ValueError):
            raise ProviderRefused(f"{what} sent vectors that do not hold numbers.") from None
        bad = int(np.count_nonzero(~np.isfinite(vectors)))
        if bad:
            raise ProviderRefused(f"{what} sent {bad} numbers of {vectors.size} that are not finite.")
        if zeros := int(np.count_nonzero(~vectors.any(axis=1))):
            raise ProviderRefused(f"{what} sent {zeros} vectors of {wanted} that are all zeros, which are near to nothing.")
        return unit_rows(vectors)


def _windows(text: str) -> list[tuple[str, float]]:
    """Windows under 8,191 tokens, each with the share of a full window that it may use."""
    size = _window_size(text)
    return [(window, len(window) / size) for _, window in evenly(pieces(text, size), _MOST_WINDOWS)]


def _window_size(text: str) -> int:
    """Characters that are surely under 8,191 tokens: prose has 4 a token; Chinese, digits and code about 1; emoji a third."""
    if len(text) <= 2_000:
        return 2_000
    if sum(character > "\uffff" for character in text) > len(text) // 20:
        return 2_000
    letters = sum(character.isascii() and (character.isalpha() or character == " ") for character in text)
    return 20_000 if letters > 0.85 * len(text) and text.count(" ") > len(text) // 13 else 6_000


def _batches(sent: list[tuple[int, str, float]]) -> Iterator[list[tuple[int, str, float]]]:
    batch: list[tuple[int, str, float]] = []
    filled = 0.0
    for entry in sent:
        if batch and (len(batch) == _BATCH or filled + entry[2] > _FULL_WINDOWS):
            yield batch
            batch, filled = [], 0.0
        batch.append(entry)
        filled += entry[2]
    if batch:
        yield batch
