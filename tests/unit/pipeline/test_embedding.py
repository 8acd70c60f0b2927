"""How many texts go into one call of an embedder, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence

from memline.contracts.errors import ProviderUnavailable
from memline.pipeline.embedding import CHUNK, CHUNK_SIZE, embed_texts
from tests.parts import TrigramEmbedder


def test_long_texts_go_in_calls_of_about_one_request_so_that_what_was_answered_is_kept() -> None:
    texts = [f"{number} " + "word " * 10_000 for number in range(5)]

    def fail(some: Sequence[str]) -> None:
        if texts[4] in some:
            raise ProviderUnavailable("away")

    embedder = TrigramEmbedder(paid=True, fail=fail)
    made = embed_texts(embedder, texts, lambda: None)
    assert [len(call) for call in embedder.calls] == [2, 2, 1]
    assert all(sum(map(len, call)) <= CHUNK_SIZE for call in embedder.calls)
    assert set(made.vectors) == set(texts[:4]) and isinstance(made.error_of(texts[4]), ProviderUnavailable)


def test_a_text_that_is_longer_than_a_call_goes_alone() -> None:
    embedder = TrigramEmbedder(paid=True)
    texts = ["a", "b" * (CHUNK_SIZE + 1), "c"]
    assert set(embed_texts(embedder, texts, lambda: None).vectors) == set(texts)
    assert [len(call) for call in embedder.calls] == [1, 1, 1]


def test_short_texts_fill_a_call() -> None:
    embedder = TrigramEmbedder(paid=True)
    embed_texts(embedder, [str(number) for number in range(CHUNK + 1)], lambda: None)
    assert [len(call) for call in embedder.calls] == [CHUNK, 1]
