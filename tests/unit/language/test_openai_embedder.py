"""The embedder behind an OpenAI-compatible server, over real HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from memline.contracts.errors import ConfigurationError, ProviderRefused
from memline.language.embedders.openai import OpenAIEmbedder
from memline.language.metered import MeteredEmbedder
from memline.language.ports import Embedder
from memline.language.usage import Use
from tests.unit.language.server import Reply, Server, serving


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, float(ord(text[0]))]


def embeddings(_: str, body: dict[str, Any]) -> Reply:
    """In reversed order: the index decides, not the place."""
    data = [{"object": "embedding", "index": index, "embedding": vector_of(text)} for index, text in enumerate(body["input"])]
    return Reply({"object": "list", "model": body["model"], "data": data[::-1], "usage": {"prompt_tokens": 1, "total_tokens": 1}})


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(embeddings) as running:
        yield running


@pytest.fixture
def embedder(server: Server) -> Iterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder("some-model", 3, "key", server.base_url)
    yield embedder
    embedder.close()


def test_it_is_an_embedder_that_costs(embedder: OpenAIEmbedder) -> None:
    port: Embedder = embedder
    assert (port.model, port.dimension, port.paid) == ("some-model", 3, True)


def test_vectors_come_in_the_order_of_the_texts_with_length_one(embedder: OpenAIEmbedder, server: Server) -> None:
    texts = ["b", "aaa", "cc"]
    vectors = embedder.embed(texts)
    assert vectors.dtype == np.float32
    for text, vector in zip(texts, vectors, strict=True):
        wanted = np.array(vector_of(text))
        assert vector == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-6)
    assert server.requests == [("/v1/embeddings", {"input": texts, "model": "some-model", "encoding_format": "float"})]


def test_the_dimension_is_sent_where_the_model_takes_it(server: Server) -> None:
    for model, setting, sent in (
        ("text-embedding-3-small", None, True),
        ("text-embedding-3-small", False, False),
        ("other", None, False),
        ("other", True, True),
    ):
        embedder = OpenAIEmbedder(model, 3, "key", server.base_url, send_dimension=setting)
        embedder.embed(["text"])
        embedder.close()
        assert server.requests[-1][1].get("dimensions") == (3 if sent else None)


def test_many_texts_go_in_requests_of_at_most_256(embedder: OpenAIEmbedder, server: Server) -> None:
    assert embedder.embed([f"text {number}" for number in range(600)]).shape == (600, 3)
    assert [len(body["input"]) for _, body in server.requests] == [256, 256, 88]


def test_blank_texts_and_no_texts_are_not_sent(embedder: OpenAIEmbedder, server: Server) -> None:
    assert embedder.embed([]).shape == (0, 3)
    assert embedder.embed(["", " \n"]).tolist() == [[1, 0, 0], [1, 0, 0]]
    assert server.requests == []
    assert embedder.embed(["", "text"]).shape == (2, 3)
    assert [body["input"] for _, body in server.requests] == [["text"]]


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("one more word of prose " * 9000, 20_000),
        ("我喜欢靠窗的座位。" * 9000, 6_000),
        ("0123456789abcdef" * 9000, 6_000),
        ("🙂🙃" * 20000, 2_000),
    ],
    ids=["prose", "chinese", "code", "emoji"],
)
def test_a_long_text_is_sent_in_a_bounded_number_of_windows(embedder: OpenAIEmbedder, server: Server, text: str, window: int) -> None:
    vector = embedder.embed([text])[0]
    sent = [piece for _, body in server.requests for piece in body["input"]]
    assert len(sent) <= 16 and max(map(len, sent)) <= window
    assert text.startswith(sent[0]) and text.endswith(sent[-1])
    rows = np.array([vector_of(piece) for piece in sent])
    mean = (rows / np.linalg.norm(rows, axis=1)[:, None]).mean(axis=0)
    assert vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


def test_a_request_stays_under_the_tokens_that_a_server_takes(embedder: OpenAIEmbedder, server: Server) -> None:
    embedder.embed(["我喜欢靠窗的座位。" * 1300] * 40)
    assert all(sum(map(len, body["input"])) <= 30 * 6_000 for _, body in server.requests)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([[1, 0, 0]], ["1 vectors", "2 texts"]),
        ([[1, 0, 0]] * 3, ["3 vectors", "2 texts"]),
        ([], ["0 vectors", "2 texts"]),
        ([[1, 0, 0], [1, 0]], ["dimension 2", "set is 3"]),
        ([[1, 0, 0], [1, 0, 0, 0]], ["dimension 4", "set is 3"]),
        ([[1, 0, 0], "AAAA"], ["dimension str", "set is 3"]),
        ([[1, 0, 0], [1, None, 0]], ["1 numbers of 6", "not finite"]),
        ([[1, 0, 0], [1, "x", 0]], ["do not hold numbers"]),
    ],
)
def test_an_answer_of_another_shape_is_refused_with_both_numbers(data: list[Any], why: list[str]) -> None:
    rows = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(data)]
    with serving(lambda path, body: Reply({"object": "list", "data": rows, "model": "m"})) as server:
        embedder = OpenAIEmbedder("m", 3, "key", server.base_url)
        with pytest.raises(ProviderRefused) as caught:
            embedder.embed(["one", "two"])
        embedder.close()
    assert all(part in str(caught.value) for part in why), str(caught.value)


@pytest.mark.parametrize(
    "body", [b'{"data": [{"index": 0, "embedding": [1, NaN, 0]}]}', b'{"data": [{"index": 0, "embedding": [1, Infinity, 0]}]}']
)
def test_numbers_that_are_not_finite_are_refused(body: bytes) -> None:
    with serving(lambda path, _: Reply(body)) as server:
        embedder = OpenAIEmbedder("m", 3, "key", server.base_url)
        with pytest.raises(ProviderRefused, match="1 numbers of 3 that are not finite"):
            embedder.embed(["one"])
        embedder.close()


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": [1, 2]}, {"data": "x"}, [], 7, {"data": [{"index": [], "embedding": 1}]}])
def test_an_answer_that_is_no_list_of_embeddings_is_refused(body: Any) -> None:
    with serving(lambda path, _: Reply(body)) as server:
        embedder = OpenAIEmbedder("m", 3, "key", server.base_url)
        with pytest.raises(ProviderRefused):
            embedder.embed(["one", "two"])
        embedder.close()


def test_two_vectors_for_one_text_are_not_taken_for_two_texts() -> None:
    rows = [{"object": "embedding", "index": 0, "embedding": [1, 0, 0]}] * 2
    with serving(lambda path, body: Reply({"object": "list", "data": rows, "model": "m"})) as server:
        embedder = OpenAIEmbedder("m", 3, "key", server.base_url)
        with pytest.raises(ProviderRefused, match="1 places"):
            embedder.embed(["one", "two"])
        embedder.close()


def test_what_a_refused_answer_cost_is_told_also_of_a_search() -> None:
    body = {"data": [{"index": 0, "embedding": [1, 0]}], "usage": {"prompt_tokens": 6, "total_tokens": 6}}
    told: list[Use] = []
    with serving(lambda path, _: Reply(body)) as server:
        embedder = OpenAIEmbedder("m", 3, "key", server.base_url)
        with pytest.raises(ProviderRefused, match="dimension 2"):
            MeteredEmbedder(embedder, told.extend).embed(["one"])
        embedder.close()
    assert told == [Use("m", 1, 6)]


def test_a_dimension_below_one_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError, match="at least 1, not 0"):
        OpenAIEmbedder("m", 0, "key")


def test_a_forked_child_opens_its_own_connections(embedder: OpenAIEmbedder, server: Server) -> None:
    embedder.embed(["parent"])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if embedder.embed(["child"]).shape == (1, 3) else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    embedder.embed(["parent again"])
    assert [body["input"] for _, body in server.requests] == [["parent"], ["child"], ["parent again"]]


def test_after_close_the_next_call_connects_again(embedder: OpenAIEmbedder) -> None:
    embedder.embed(["one"])
    embedder.close()
    assert embedder.embed(["two"]).shape == (1, 3)
