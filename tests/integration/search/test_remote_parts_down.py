"""Parts behind a real network that hangs, cuts, loses and refuses: an answer with the missing part named, or a typed error."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.index_object import ObjectKey
from memline.language.embedders.openai import OpenAIEmbedder
from memline.ledger.memories import index_objects
from memline.ledger.migrate import open_ledger
from memline.ledger.schema import memories
from memline.ledger.session import Ledger
from memline.search.index.port import Write
from memline.search.results import SearchResult
from tests.integration.search.backends import weaviate_index
from tests.integration.search.world import HURRIED, PATIENT, World
from tests.parts import TrigramEmbedder
from tests.services import free_port
from tests.tcp_proxy import TcpProxy
from tests.unit.language.server import Reply, serving
from tests.weaviate_server import Reached

SAID = ["User likes green tea", "User works at Fabrikam", "Ticket INC-48213 was escalated", "User has a dog named Poppy"]


def texts(found: SearchResult) -> list[str]:
    return [hit.row.text for hit in found.results]


# The embedder


@pytest.fixture
def world(own_ledger: Ledger, tmp_path: Path) -> World:
    found = World(own_ledger, tmp_path)
    found.say_all(SAID)
    return found


def vectors(body: dict[str, Any]) -> Reply:
    rows = TrigramEmbedder().embed(body["input"])
    return Reply({"data": [{"index": place, "embedding": [float(x) for x in row]} for place, row in enumerate(rows)], "model": "trigrams"})


def test_an_embedder_behind_http_that_answers_is_used(world: World) -> None:
    with serving(lambda _path, body: vectors(body)) as server:
        embedder = OpenAIEmbedder("trigrams", 64, "none", server.base_url, timeout=120.0)
        found = world.find("green tea", threshold=0, searcher=world.search_with(embedder=embedder))
        embedder.close()
    assert found.missing == () and texts(found) == texts(world.find("green tea", threshold=0))


@pytest.mark.parametrize(
    "answer",
    [
        lambda _body, over: Reply({}, wait_for=over),
        lambda body, _over: Reply(vectors(body).body, cut=True),
        lambda _body, _over: Reply(b"<html>"),
        lambda _body, _over: Reply(b"busy", 503),
        lambda _body, _over: Reply({"error": {"message": "no"}}, 401),
        lambda _body, _over: Reply({"data": []}),
        lambda body, _over: Reply({"data": vectors(body).body["data"] * 2}),
        lambda body, _over: Reply({"data": [{"index": i, "embedding": [0.5] * 3} for i, _ in enumerate(body["input"])]}),
        lambda body, _over: Reply({"data": [{"index": i, "embedding": [None] * 64} for i, _ in enumerate(body["input"])]}),
        lambda body, _over: Reply(b'{"data": [{"index": 0, "embedding": [' + b", ".join([b"NaN"] * 64) + b"]}]}"),
    ],
    ids=["hangs", "cuts", "html", "503", "401", "none", "twice", "another dimension", "nulls", "NaN"],
)
def test_an_embedder_behind_http_that_does_not_leaves_words_and_entities(
    world: World, answer: Callable[[dict[str, Any], threading.Event], Reply]
) -> None:
    over = threading.Event()
    with serving(lambda _path, body: answer(body, over)) as server:
        embedder = OpenAIEmbedder("trigrams", 64, "none", server.base_url, timeout=20.0)
        found = world.find("INC-48213", searcher=world.search_with(embedder=embedder, deadline=HURRIED))
        over.set()
        embedder.close()
    assert found.results[0].row.text == "Ticket INC-48213 was escalated"
    assert found.missing == ("embedder",) and "by meaning" in found.warnings[0]


def test_an_embedder_that_refuses_connections_is_missing(world: World) -> None:
    embedder = OpenAIEmbedder("trigrams", 64, "none", f"http://127.0.0.1:{free_port()}/v1")
    assert world.find("green tea", searcher=world.search_with(embedder=embedder)).missing == ("embedder",)
    embedder.close()


# The index


@pytest.fixture
def proxies(weaviate_server: Reached) -> Iterator[tuple[TcpProxy, TcpProxy]]:
    """Before Weaviate's two ports: of REST and of gRPC."""
    http, grpc = make_url(weaviate_server.url), weaviate_server.grpc_url
    if grpc is None or not grpc.isdigit() or http.port is None or http.host not in ("127.0.0.1", "localhost"):
        pytest.skip("a proxy is put before a Weaviate on this machine only, whose gRPC port is given as a number")
    with TcpProxy(http.port) as rest, TcpProxy(int(grpc)) as calls:
        yield rest, calls


def _swallow(proxy: TcpProxy) -> None:
    proxy.swallow = True


def _hang(proxy: TcpProxy) -> None:
    proxy.hang = True


def _cut(proxy: TcpProxy) -> None:
    proxy.refuse()
    proxy.cut()


def _cut_in_the_middle(proxy: TcpProxy) -> None:
    proxy.cut_after = 100


def _slow(proxy: TcpProxy) -> None:
    proxy.delay = 60.0  # longer than anybody waits here, however late he begins to


@pytest.mark.parametrize("fault", [_swallow, _hang, _cut, _cut_in_the_middle, _slow])
def test_without_weaviate_the_ledger_finds_the_same(
    world: World, proxies: tuple[TcpProxy, TcpProxy], fault: Callable[[TcpProxy], None]
) -> None:
    rest, calls = proxies
    now = [100.0]
    index = weaviate_index(Reached(f"http://127.0.0.1:{rest.port}", str(calls.port)), world.ledger, prefix=f"T{os.urandom(6).hex()}")
    try:
        with world.ledger.read() as connection:
            ids = connection.execute(sa.select(memories.c.id)).scalars().all()
            objects = index_objects(connection, [ObjectKey("memory", "default", each) for each in ids])
        assert [answer.error for answer in index.write([Write(key, each) for key, each in objects.items()])] == [None] * len(SAID)
        searcher = world.search_with(index=index, deadline=PATIENT)
        whole = world.find("where does the user work", threshold=0, searcher=searcher)
        assert whole.missing == () and set(texts(whole)) == set(SAID)

        hurried = world.search_with(index=index, deadline=HURRIED, timer=lambda: now[0])
        for proxy in proxies:
            fault(proxy)
        for _ in range(2):
            found = world.find("where does the user work", threshold=0, searcher=hurried)
            assert found.missing == ("index",) and texts(found) == texts(whole)

        for proxy in proxies:
            proxy.swallow = proxy.hang = False
            proxy.delay, proxy.cut_after = 0.0, None
            proxy.allow()
            proxy.cut()
        for _ in range(60):  # the client takes some seconds to try a line again that was refused
            now[0] += 60.0
            found = world.find("where does the user work", threshold=0, searcher=hurried)
            if not found.missing:
                break
            threading.Event().wait(0.25)
        assert found.missing == () and texts(found) == texts(whole)
    finally:
        for proxy in proxies:
            proxy.swallow = proxy.hang = False
            proxy.delay, proxy.cut_after = 0.0, None
            proxy.allow()
        index.drop()
        index.close()


# The ledger


@pytest.fixture
def far(postgres_url: str, tmp_path: Path) -> Iterator[tuple[World, TcpProxy]]:
    """A ledger in a PostgreSQL behind a proxy."""
    url = make_url(postgres_url)
    assert url.port is not None
    with TcpProxy(url.port) as proxy:
        ledger = Ledger(url.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False))
        open_ledger(ledger)
        world = World(ledger, tmp_path)
        world.say_all(SAID)
        yield world, proxy
        proxy.hang = False
        ledger.close()


def test_a_ledger_that_hangs_is_a_typed_error_in_time_and_no_thread_for_each_search(far: tuple[World, TcpProxy]) -> None:
    world, proxy = far
    searcher = world.search_with(deadline=0.3)
    assert world.find("green tea").results
    before = set(threading.enumerate())  # of searches before this one threads may still be there that only have to end
    proxy.hang = True
    for _ in range(3):
        with pytest.raises(ServiceUnavailable, match=r"The ledger at .* did not answer within .*MEMLINE_SEARCH_DEADLINE"):
            world.find("green tea", searcher=searcher)
    assert sum(thread.name == "memline-search-call" for thread in set(threading.enumerate()) - before) <= 3
    proxy.hang = False
    assert world.find("green tea").results[0].row.text == "User likes green tea"


def test_a_ledger_that_is_cut_off_is_a_typed_error_and_back_when_it_is_back(far: tuple[World, TcpProxy]) -> None:
    world, proxy = far
    proxy.refuse()
    proxy.cut()
    with pytest.raises(ServiceUnavailable, match="ledger at"):
        world.find("green tea")
    proxy.allow()
    assert world.find("green tea").results[0].row.text == "User likes green tea"


def test_a_statement_that_waits_for_a_lock_is_a_typed_error_in_time(far: tuple[World, TcpProxy]) -> None:
    world, _ = far
    with world.ledger.engine.begin() as connection:
        connection.execute(sa.text("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(ServiceUnavailable, match="did not answer within"):
            world.find("green tea", searcher=world.search_with(deadline=0.3))
    assert world.find("green tea").results
