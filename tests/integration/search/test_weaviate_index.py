"""What only a server can do to an index: be away, hang, be changed by hand, be shared, forget everything."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from memline.contracts.clock import SystemClock
from memline.contracts.errors import ConfigurationError, ServiceUnavailable
from memline.contracts.index_object import ObjectKey
from memline.ledger.migrate import open_ledger
from memline.ledger.reconciling import is_turn_due, take_turn
from memline.ledger.schema import index_tenants
from memline.ledger.session import Ledger
from memline.search.index.port import Space
from memline.search.index.weaviate import WeaviateIndex
from memline.search.index.weaviate_place import Place, place_of
from memline.search.index.weaviate_schema import collection_name
from tests.integration.search.backends import ANN, SPACE, Backend, id_of, put, removed, unit, weaviate_index
from tests.services import in_child
from tests.weaviate_server import Reached, WeaviateServer, weaviate_binary

T = TypeVar("T")


@pytest.fixture
def prefix() -> str:
    return f"T{os.urandom(6).hex()}"


@pytest.fixture
def weaviate(weaviate_server: Reached, own_ledger: Ledger, prefix: str) -> Iterator[Backend]:
    index = weaviate_index(weaviate_server, own_ledger, prefix=prefix)
    yield Backend(index, own_ledger)
    index.drop()
    index.close()


@contextmanager
def client_of(server: Reached) -> Iterator[Any]:
    """weaviate-client itself, for what a hand does."""
    from memline.search.index.weaviate_link import Link

    with Link(place_of(server.url, server.grpc_url, server.api_key), timeout=30).rest() as client:
        yield client


@pytest.fixture
def own_server() -> Iterator[WeaviateServer]:
    """A server that the test may kill."""
    if weaviate_binary() is None:
        pytest.skip("a Weaviate that may be killed needs a `weaviate` server binary on the PATH")
    with WeaviateServer() as server:
        yield server


def test_its_name_holds_both_versions_once_it_was_asked(weaviate: Backend) -> None:
    index = weaviate.index
    assert isinstance(index, WeaviateIndex)
    assert "not asked yet" in index.name
    index.check()
    assert index.name.startswith("weaviate (server 1.")
    assert "client 4." in index.name
    assert (index.shares_ledger, index.remote, index.space) == (False, True, SPACE)


def test_a_change_by_hand_shows_in_the_digest(weaviate: Backend, weaviate_server: Reached, prefix: str) -> None:
    write = put("a", terms=("green", "tea"))
    weaviate.write(write, put("b"))
    assert write.object is not None
    with client_of(weaviate_server) as client:
        collection = client.collections.use(collection_name(prefix, "memory", SPACE))
        (tenant,) = collection.tenants.get()
        mine = collection.with_tenant(tenant)

        def digests() -> tuple[str, str | None]:
            state = weaviate.index.look([write.key], vectors=True)[write.key]
            return state.digest, state.vector_digest

        untouched = digests()
        assert untouched == (write.object.digest, write.object.vector_digest)
        for change in ({"terms": "green coffee"}, {"user_id": "bob"}, {"namespace": "other"}, {"agent_id": "bot"}):
            mine.data.update(write.key.id, properties=change)
            assert digests()[0] != untouched[0], change
            weaviate.write(write)
            assert digests() == untouched
        mine.data.update(write.key.id, properties={"version": 2})
        assert weaviate.index.look([write.key])[write.key].version == 2
        weaviate.write(write)
        mine.data.update(write.key.id, properties={"version": 1}, vector=unit(9).tolist())
        assert digests()[0] == untouched[0]
        assert digests()[1] != untouched[1]


def test_no_text_of_an_object_that_fails_is_logged(weaviate: Backend, caplog: pytest.LogCaptureFixture) -> None:
    weaviate.write(put("a"))
    with caplog.at_level(logging.DEBUG):
        answers = weaviate.index.write([put("bad", terms=("hushhush",), vector=unit(1, 3)), put("c")])
    assert [answer.error is None for answer in answers] == [False, True]
    assert "hushhush" not in caplog.text


def test_a_tenant_that_takes_no_writes_is_an_outage_and_no_fault_of_the_objects(
    weaviate: Backend, weaviate_server: Reached, prefix: str
) -> None:
    weaviate.write(put("a"))
    with client_of(weaviate_server) as client:
        config = client.collections.use(collection_name(prefix, "memory", SPACE)).config
        config.update_shards("READONLY")
        with pytest.raises(ServiceUnavailable, match="takes no writes now"):
            weaviate.index.write([put("b"), put("c")])
        config.update_shards("READY")
    weaviate.write(put("b"), put("c"))
    assert len(weaviate.stored()) == 3


def test_no_other_host_is_asked_for(weaviate_server: Reached, own_ledger: Ledger, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()
    look_up = socket.getaddrinfo

    def noted(host: Any, *arguments: Any, **options: Any) -> Any:
        asked.add(str(host))
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    index = weaviate_index(weaviate_server, own_ledger, prefix=prefix)
    Backend(index, own_ledger).write(put("a"))
    index.drop()
    index.close()
    assert asked == {place_of(weaviate_server.url).host}


def test_an_id_that_is_no_uuid_is_refused_alone(weaviate: Backend) -> None:
    write = put("a")
    assert write.object is not None
    from dataclasses import replace

    key = ObjectKey("memory", "n", "MEMORY-1")
    odd = replace(write, key=key, object=replace(write.object, key=key))
    answers = weaviate.index.write([odd, write, replace(odd, object=None)])
    assert answers[1].error is None
    (first, *_) = weaviate.index.write([odd])
    assert first.error is not None
    assert "UUID" in first.error


def test_two_ledgers_under_one_prefix_never_see_each_other(
    weaviate: Backend, weaviate_server: Reached, prefix: str, tmp_path: Path
) -> None:
    other_ledger = Ledger(f"sqlite:///{tmp_path / 'other.db'}")
    open_ledger(other_ledger)
    other = Backend(weaviate_index(weaviate_server, other_ledger, prefix=prefix), other_ledger)
    weaviate.write(put("mine"))
    other.write(put("theirs"), put("there", namespace="theirs"))
    assert (weaviate.ids(), other.ids()) == ({id_of("mine")}, {id_of("theirs")})
    assert (weaviate.index.namespaces(), other.index.namespaces()) == (["n"], ["n", "theirs"])
    other.index.close()
    other_ledger.close()


def test_spaces_lie_side_by_side_and_one_is_dropped_alone(weaviate: Backend, weaviate_server: Reached, prefix: str) -> None:
    next_space = Space("another model", SPACE.dimension)
    following = weaviate_index(weaviate_server, weaviate.ledger, prefix=prefix, space=next_space)
    weaviate.write(put("a"))
    assert [answer.error for answer in following.write([put("a", version=2), put("b")])] == [None, None]
    assert [state.version for state in weaviate.stored()] == [1]
    assert len(list(following.walk("memory", "n"))) == 2
    following.drop()
    following.close()
    assert [state.version for state in weaviate.stored()] == [1]


def test_a_ledger_that_forgot_its_tenants_learns_them_from_what_lies_there(weaviate: Backend) -> None:
    weaviate.write(put("a"), put("b", namespace="other"), put("e", kind="entity", namespace="names"))
    with weaviate.ledger.write() as tx:
        tx.execute(sa.delete(index_tenants))
    assert weaviate.index.namespaces() == ["n", "names", "other"]


def test_a_tenant_that_was_put_to_sleep_is_woken_by_a_read_and_by_a_write(weaviate: Backend, weaviate_server: Reached, prefix: str) -> None:
    weaviate.write(put("a"))
    with client_of(weaviate_server) as client:
        tenants = client.collections.use(collection_name(prefix, "memory", SPACE)).tenants
        for look in (weaviate.ids, weaviate.stored, lambda: weaviate.write(put("a"))):
            tenants.deactivate(list(tenants.get()))
            look()
        tenants.deactivate(list(tenants.get()))
        assert weaviate.ids() == {id_of("a")}


def test_eight_processes_worth_of_indexes_make_the_schema_at_once(weaviate_server: Reached, own_ledger: Ledger, prefix: str) -> None:
    indexes = [weaviate_index(weaviate_server, own_ledger, prefix=prefix) for _ in range(8)]
    start = threading.Barrier(8)

    def work(number: int) -> str | None:
        start.wait()
        return indexes[number].write([put(f"w{number}")])[0].error

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [None] * 8
    assert len(list(indexes[0].walk("memory", "n"))) == 8
    indexes[0].drop()
    for index in indexes:
        index.close()


def test_a_property_that_is_missing_is_added(weaviate: Backend, weaviate_server: Reached, prefix: str) -> None:
    from memline.search.index import weaviate_schema

    name = collection_name(prefix, "memory", SPACE)
    older = weaviate_schema._wanted(name, "memory")
    older["properties"] = [each for each in older["properties"] if each["name"] not in ("part", "digest")]
    with client_of(weaviate_server) as client:
        client.collections.create_from_dict(older)
        client.collections.use(name).tenants.create("somebody")  # so that it is not empty
        weaviate.write(put("a"))
        there = {each["name"] for each in client.collections.export_config(name).to_dict()["properties"]}
    assert {"part", "digest"} <= there
    assert weaviate.ids() == {id_of("a")}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda wanted: wanted["properties"][0].update(tokenization="word"), "tokenization of user_id is word, not field"),
        (lambda wanted: wanted["vectorIndexConfig"].update(distance="l2-squared"), "the distance is l2-squared, not cosine"),
        (lambda wanted: wanted["properties"][4].update(indexSearchable=False), "indexSearchable of terms is False, not True"),
        (lambda wanted: wanted["properties"][-1].update(dataType=["number"]), "dataType of version is number, not int"),
        (lambda wanted: wanted["multiTenancyConfig"].update(autoTenantActivation=False), "autoTenantActivation is False, not True"),
    ],
)
def test_a_collection_that_is_otherwise_is_refused_with_what_to_do(
    weaviate: Backend, weaviate_server: Reached, prefix: str, change: Any, told: str
) -> None:
    from memline.search.index import weaviate_schema

    name = collection_name(prefix, "memory", SPACE)
    other = weaviate_schema._wanted(name, "memory")
    change(other)
    with client_of(weaviate_server) as client:
        client.collections.create_from_dict(other)
        client.collections.use(name).tenants.create("somebody")
        for call in (lambda: weaviate.ids(), lambda: weaviate.write(put("a")), weaviate.index.namespaces):
            with pytest.raises(ConfigurationError, match=told) as raised:
                call()
        assert name in str(raised.value)
        assert "index rebuild" in str(raised.value)


def test_an_empty_collection_that_is_otherwise_is_made_anew(weaviate: Backend, weaviate_server: Reached, prefix: str) -> None:
    """As a server does that makes collections by itself, when one is removed while a relay writes."""
    with client_of(weaviate_server) as client:
        for kind in ("memory", "entity"):
            client.collections.create_from_dict({"class": collection_name(prefix, kind, SPACE), "vectorizer": "none"})  # type: ignore[arg-type]
        weaviate.write(put("a"), put("e", kind="entity"))
    assert weaviate.ids() == {id_of("a")}


def test_collections_that_vanish_are_made_again_and_a_reconcile_is_due(weaviate: Backend, weaviate_server: Reached, prefix: str) -> None:
    weaviate.write(put("a"), put("e", kind="entity"))
    now = SystemClock().now()
    with weaviate.ledger.write() as tx:
        take_turn(tx, "somebody", now=now, seconds=900)
    with client_of(weaviate_server) as client:
        for kind in ("memory", "entity"):
            client.collections.delete(collection_name(prefix, kind, SPACE))  # type: ignore[arg-type]
    assert weaviate.ids() == set()
    with weaviate.ledger.read() as connection:
        assert is_turn_due(connection, now=now)
    with client_of(weaviate_server) as client:
        client.collections.delete(collection_name(prefix, "memory", SPACE))
    weaviate.write(put("b"))  # this time the server makes one of its own, without tenants
    assert weaviate.ids() == {id_of("b")}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_line_of_its_own(weaviate: Backend) -> None:
    weaviate.write(put("a"))

    def child() -> list[Any]:
        weaviate.write(put("b"))
        return sorted(weaviate.ids())

    assert in_child(child) == sorted([id_of("a"), id_of("b")])
    assert weaviate.ids() == {id_of("a"), id_of("b")}
    assert in_child(child) == sorted([id_of("a"), id_of("b")])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_other_threads_calls_spoils_neither_side(weaviate: Backend) -> None:
    weaviate.write(put("a"))
    stop = threading.Event()

    def read_on() -> int:
        number = 0
        while not stop.is_set():
            assert weaviate.ids() == {id_of("a")}
            assert len(weaviate.index.nearest_any("memory", "n", [ANN], [unit(1), unit(2)], limit=3)) == 1
            number += 1
        return number

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read_on) for _ in range(3)]
        try:
            for _ in range(5):
                assert in_child(lambda: sorted(weaviate.ids())) == [id_of("a")]
        finally:
            stop.set()
        assert all(reader.result() > 0 for reader in readers)


def test_a_server_that_nobody_started_is_named_without_a_secret(own_ledger: Ledger) -> None:
    with socket.socket() as taken, socket.socket() as other:
        for each in (taken, other):
            each.bind(("127.0.0.1", 0))  # bound, and nobody listens
        port, grpc = taken.getsockname()[1], other.getsockname()[1]
        index = WeaviateIndex(Place("127.0.0.1", port, False, "127.0.0.1", grpc, False, "s3cret"), own_ledger, SPACE)
        calls = [
            lambda: index.write([put("a")]),
            lambda: index.nearest("memory", "n", [ANN], unit(1), limit=5),
            lambda: index.matching("n", [ANN], ["tea"], limit=5),
            lambda: list(index.walk("memory", "n")),
            lambda: index.look([put("a").key]),
            index.namespaces,
            index.check,
            index.drop,
        ]
        for call in calls:
            with pytest.raises(ServiceUnavailable, match=f"http://127.0.0.1:{port}") as raised:
                call()
            assert "s3cret" not in str(raised.value)
        index.close()


def _once_it_is_reached(ask: Callable[[], T]) -> T:
    """What *ask* finds, when gRPC has tried the line again that was refused: it does so each second, and not at once."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return ask()
        except ServiceUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_after_a_restart_it_works_again_and_what_was_answered_is_found(own_server: WeaviateServer, own_ledger: Ledger) -> None:
    """Killed right after an answer, Weaviate 1.40 by itself has the objects again, and finds none of them by its vector."""
    index = WeaviateIndex(place_of(own_server.url, str(own_server.grpc_port)), own_ledger, SPACE, timeout=120.0, read_timeout=120.0)
    backend = Backend(index, own_ledger)
    backend.write(*(put(f"w{number}") for number in range(30)))
    backend.write(put("last"))
    own_server.kill()
    for call in (lambda: backend.write(put("x")), backend.ids, backend.stored, index.namespaces):
        with pytest.raises(ServiceUnavailable):
            call()
    own_server.start()
    assert len(_once_it_is_reached(backend.ids)) == 31
    backend.write(removed("w0"))
    assert len(backend.stored()) == 30
    index.close()


def test_an_object_that_the_vector_graph_lost_is_seen_and_written_again(own_server: WeaviateServer, own_ledger: Ledger) -> None:
    from memline.search.index.weaviate_messages import objects

    index = WeaviateIndex(place_of(own_server.url, str(own_server.grpc_port)), own_ledger, SPACE, timeout=120.0, read_timeout=120.0)
    backend = Backend(index, own_ledger)
    backend.write(put("a"))
    lost = put("lost")
    assert lost.object is not None
    # as a batch that was taken, and whose answer a killed server never gave
    index._link.call("BatchObjects", objects(*index._at("memory", "n"), [lost.object]), timeout=120)
    own_server.restart(kill=True)
    assert _once_it_is_reached(backend.ids) == {id_of("a")}
    assert {state.key.id: state.version for state in backend.stored()} == {id_of("a"): 1, id_of("lost"): 0}
    assert index.look([lost.key])[lost.key].version == 0
    backend.write(lost)
    assert backend.ids() == {id_of("a"), id_of("lost")}
    assert {state.version for state in backend.stored()} == {1}
    index.close()


def test_a_server_that_hangs_is_given_up_after_the_time_of_the_call(own_server: WeaviateServer, own_ledger: Ledger) -> None:
    import signal

    index = WeaviateIndex(place_of(own_server.url, str(own_server.grpc_port)), own_ledger, SPACE, timeout=120.0, read_timeout=120.0)
    backend = Backend(index, own_ledger)
    backend.write(put("a"))
    os.kill(own_server.pid, signal.SIGSTOP)
    while Path(f"/proc/{own_server.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    index._read_timeout = 0.5
    try:
        with pytest.raises(ServiceUnavailable, match=r"within 0\.5 s"):
            backend.ids()
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    index._read_timeout = 120.0  # a slow machine is no server that hangs
    assert backend.ids() == {id_of("a")}
    index.close()


def test_the_wrong_key_is_named_and_the_right_one_is_taken(own_ledger: Ledger) -> None:
    if weaviate_binary() is None:
        pytest.skip("a Weaviate with a key needs a `weaviate` server binary on the PATH")
    keys = {
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
        "AUTHENTICATION_APIKEY_ENABLED": "true",
        "AUTHENTICATION_APIKEY_ALLOWED_KEYS": "right-key",
        "AUTHENTICATION_APIKEY_USERS": "memline",
    }
    with WeaviateServer(**keys) as server:
        for key, told in ((None, "no key"), ("wrong-key", "a key that it does not take")):
            index = WeaviateIndex(place_of(server.url, str(server.grpc_port), key), own_ledger, SPACE)
            with pytest.raises(ServiceUnavailable, match=f"{told}.*MEMLINE_WEAVIATE_API_KEY") as raised:
                index.check()
            assert "wrong-key" not in str(raised.value)
            index.close()
        index = WeaviateIndex(place_of(server.url, str(server.grpc_port), "right-key"), own_ledger, SPACE)
        Backend(index, own_ledger).write(put("a"))
        assert [state.key.id for state in index.walk("memory", "n")] == [id_of("a")]
        index.close()
