"""A reranker behind HTTP: real requests to a real server on loopback, good answers, bad ones, and none."""

from __future__ import annotations

import json
import socket
import threading
from itertools import count
from typing import Any

import pytest

from memline.contracts.errors import ConfigurationError, ProviderRefused, ProviderUnavailable
from memline.search.rerank import http as module
from memline.search.rerank.http import HttpReranker
from tests.unit.language.server import Reply, serving

DOCUMENTS = ["tea is green", "coffee is black", "milk is white"]


def scored(*pairs: tuple[Any, Any]) -> Reply:
    return Reply({"id": "1", "results": [{"index": index, "relevance_score": score} for index, score in pairs]})


def test_it_asks_in_the_shape_that_servers_share_and_reads_scores_by_place() -> None:
    with serving(lambda _path, _body: scored((2, 0.9), (0, -1.5))) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank", "rank-1", "secret-key")
        assert reranker.rerank("what is white", DOCUMENTS, timeout=120) == {2: 0.9, 0: -1.5}
        assert reranker.name == "http/rank-1"
        reranker.close()
    assert server.requests == [
        ("/v1/rerank", {"model": "rank-1", "query": "what is white", "documents": DOCUMENTS, "top_n": 3}),
    ]


def test_a_server_with_one_model_is_told_none() -> None:
    with serving(lambda _path, _body: scored((0, 1))) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank")
        assert reranker.rerank("q", ["d"], timeout=120) == {0: 1.0}
        reranker.close()
    assert "model" not in server.requests[0][1]
    assert reranker.name == f"http/{server.base_url.removeprefix('http://').removesuffix('/v1')}"


RUBBISH: list[Any] = [
    b"not json",
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    [],
    None,
    {"results": None},
    {"results": {"0": 1}},
    {"data": []},
    {"results": []},
    {"results": [None]},
    {"results": [{"relevance_score": 1}]},
    {"results": [{"index": "0", "relevance_score": 1}]},
    {"results": [{"index": 3, "relevance_score": 1}]},
    {"results": [{"index": -1, "relevance_score": 1}]},
    {"results": [{"index": True, "relevance_score": 1}]},
    {"results": [{"index": 0}]},
    {"results": [{"index": 0, "relevance_score": None}]},
    {"results": [{"index": 0, "relevance_score": "high"}]},
    {"results": [{"index": 0, "relevance_score": True}]},
    b'{"results": [{"index": 0, "relevance_score": NaN}]}',
    b'{"results": [{"index": 0, "relevance_score": Infinity}]}',
    b'{"results": [{"index": 0, "relevance_score": 1' + b"0" * 400 + b"}]}",
    {"results": [{"index": 0, "relevance_score": 1}, {"index": 0, "relevance_score": 2}]},
]


@pytest.mark.parametrize("body", RUBBISH)
def test_rubbish_is_refused(body: Any) -> None:
    with serving(lambda _path, _body: Reply(body)) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank", "rank-1")
        with pytest.raises(ProviderRefused) as error:
            reranker.rerank("q", DOCUMENTS, timeout=120)
        reranker.close()
    assert "tea" not in str(error.value)


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, ProviderRefused, "MEMLINE_RERANK_MODEL"),
        (401, ProviderRefused, "MEMLINE_RERANK_API_KEY"),
        (404, ProviderRefused, "MEMLINE_RERANK_URL"),
        (302, ProviderRefused, "refused again"),
        (429, ProviderUnavailable, "429"),
        (503, ProviderUnavailable, "503"),
    ],
)
def test_a_status_is_told_with_what_to_do_and_without_what_was_sent(status: int, kind: type[Exception], told: str) -> None:
    with serving(lambda _path, body: Reply({"message": body["query"]}, status, {"retry-after": "7", "location": "/other"})) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank", "rank-1", "secret-key")
        with pytest.raises(kind, match=told) as error:
            reranker.rerank("private question", DOCUMENTS, timeout=120)
        reranker.close()
    assert "private" not in str(error.value) and "secret" not in str(error.value)
    assert not isinstance(error.value, ProviderUnavailable) or error.value.retry_after == 7


def test_a_server_that_hangs_is_given_up() -> None:
    over = threading.Event()
    with serving(lambda _path, _body: Reply({"results": []}, wait_for=over)) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank")
        with pytest.raises(ProviderUnavailable, match="in time"):
            reranker.rerank("q", DOCUMENTS, timeout=0.05)
        over.set()
        reranker.close()


def test_an_answer_that_drips_is_given_up_when_the_time_is_over() -> None:
    ticks = count(step=300)
    with serving(lambda _path, _body: scored((0, 1))) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank", timer=lambda: float(next(ticks)))
        with pytest.raises(ProviderUnavailable, match="finish"):
            reranker.rerank("q", DOCUMENTS, timeout=200.0)
        reranker.close()


def test_a_server_that_cuts_or_is_not_there_is_unavailable() -> None:
    with serving(lambda _path, _body: Reply({"results": []}, cut=True)) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank")
        with pytest.raises(ProviderUnavailable):
            reranker.rerank("q", DOCUMENTS, timeout=120)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = HttpReranker(f"http://127.0.0.1:{free.getsockname()[1]}/rerank")
        with pytest.raises(ProviderUnavailable, match="can't be reached"):
            nowhere.rerank("q", DOCUMENTS, timeout=120)
    reranker.close()
    nowhere.close()


def test_an_endless_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with serving(lambda _path, _body: Reply(json.dumps({"results": ["x" * 5000]}).encode())) as server:
        reranker = HttpReranker(f"{server.base_url}/rerank")
        with pytest.raises(ProviderRefused, match="more than 1000 bytes"):
            reranker.rerank("q", DOCUMENTS, timeout=120)
        reranker.close()


@pytest.mark.parametrize("url", ["", "api.example.com/rerank", "ftp://example.com/rerank", "http:///rerank", "http://host:port/rerank"])
def test_a_url_is_whole(url: str) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_RERANK_URL"):
        HttpReranker(url)


def test_a_password_in_the_url_is_sent_and_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    with serving(lambda _path, _body: scored((0, 1))) as server, caplog.at_level("DEBUG"):
        reranker = HttpReranker(f"{server.base_url.replace('://', '://ann:hush%21@')}/rerank")
        assert reranker._open().auth is not None
        assert reranker.rerank("q", ["d"], timeout=120) == {0: 1.0}
        reranker.close()
    assert "hush" not in caplog.text and "ann:" not in caplog.text


@pytest.mark.parametrize("key", ["hu\nsh", "hush\u00e9"])
def test_a_key_that_no_header_takes_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_RERANK_API_KEY") as raised:
        HttpReranker("http://host/rerank", None, key)
    assert "hu" not in str(raised.value)
