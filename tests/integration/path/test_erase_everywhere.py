"""Erasing where turns go through Redis to workers, and through the front door: T10 of the cases, read store by store and byte by byte."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from memline import AsyncMemory, Memory, Status
from memline.contracts import failpoints
from memline.contracts.index_object import ObjectKey
from memline.errors import InvalidInput, JobCancelled, ScopeRequired, ServiceUnavailable
from memline.ledger.memories import index_objects
from memline.ledger.meta import Move, save_move
from memline.ledger.session import Ledger
from memline.outbox.verify import verify
from memline.search.index.port import Space, Write
from tests.chaos.small_parts import SmallEmbedder
from tests.integration.path.stacks import PATIENT, Stack, celery_stack
from tests.services import PostgresServer, RedisServer

SECRET, ERASED = "X1234567", "mei-the-erased"
MEI, BOB = {"user_id": ERASED}, {"user_id": "bob"}
SMALL = {"MEMLINE_EMBEDDER": "tests.chaos.small_parts:SmallEmbedder", "MEMLINE_EXTRACTOR": "rules"}


@pytest.fixture(scope="module")
def celery(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, postgres_server: PostgresServer) -> Iterator[Stack]:
    with celery_stack(tmp_path_factory.mktemp("home"), redis_server, postgres_server, **PATIENT, **SMALL) as found:
        yield found


def _in_ledger(ledger: Ledger, text: str) -> set[str]:
    """Tables in which *text* stands in any column."""
    found = set()
    with ledger.read() as connection:
        inspector = sa.inspect(connection)
        for name in inspector.get_table_names():
            for row in connection.execute(sa.text(f'SELECT * FROM "{name}"')):
                if any(text in json.dumps(value, default=str, ensure_ascii=False) for value in row if not isinstance(value, bytes)):
                    found.add(name)
    return found


def _in_redis(stack: Stack, text: str) -> list[str]:
    """Keys of this stack whose dump holds *text*, or whose value does as it is read."""
    assert stack.redis is not None
    found = []
    with redis.Redis.from_url(stack.redis.url, socket_timeout=120) as client:
        for key in client.scan_iter(match=f"{stack.variables['MEMLINE_REDIS_PREFIX']}*"):
            if text.encode() in (client.dump(key) or b""):
                found.append(key.decode())
    return found


def test_a_subject_is_erased_from_redis_postgres_spool_and_index(celery: Stack) -> None:
    erased = "mei-of-everywhere"  # other tests of this module add for theirs after an erasure, in namespaces of their own
    mei = {"user_id": erased}
    with celery.memory("everywhere") as memory:
        for user in (mei, BOB):
            memory.add(f"My passport number is {SECRET}.", **user, metadata={"pin": f"pin-{user['user_id']}"}, wait=True)
        producer = memory._house.producer
        draining = producer.spool._draining
        draining.acquire()  # its thread sends nothing until the erasure is over
        with producer._guard:
            producer._down = True  # as after a call that found Redis away
        spooled = memory.add(f"And my visa is {SECRET}.", **mei)
        assert spooled.seen.status is Status.SPOOLED
        stream = producer.stream
        damaged = json.dumps({"v": 1, "namespace": "everywhere", "user_id": erased, "messages": [{"text": SECRET}]})
        with redis.Redis.from_url(celery.variables["MEMLINE_REDIS_URL"], socket_timeout=120) as client:
            client.rpush(f"{stream.key}:unreadable", damaged, "somebody else's")
            try:
                certificate = memory.erase(**mei)
            finally:
                draining.release()
            assert client.lrange(f"{stream.key}:unreadable", 0, -1) == [b"somebody else's"]
        assert certificate["proof"]["sound"] and certificate["counts"]["before"]["memories"] >= 1
        with pytest.raises(JobCancelled):
            spooled.wait(300)
        memory.flush(300)
        ledger, index = memory._house.ledger, memory._house.index
        assert _in_ledger(ledger, erased) == set()
        assert _in_redis(celery, erased) == [] and _in_redis(celery, SECRET) == []
        for path in Path(celery.variables["MEMLINE_HOME"]).rglob("*"):
            if path.is_file():
                assert erased.encode() not in path.read_bytes(), path
        assert memory.get_all(filters=mei)["results"] == [] and len(memory.get_all(filters=BOB)["results"]) == 1
        stores = {place["store"] for place in certificate["physical"]}
        assert {"PostgreSQL", "Redis"} <= stores
        assert verify(ledger, index, deep=True).sound
        assert memory.add("I like tea.", **mei, infer=False, wait=True)["results"][0]["event"] == "ADD"
        assert verify(ledger, index, deep=True).sound


def test_physical_has_postgres_and_redis_write_their_files_anew(celery: Stack, redis_server: RedisServer) -> None:
    mark = "visaY7654321"
    with celery.memory("physical") as memory:
        memory.add(f"My visa is {mark}.", **MEI, infer=False, wait=True)
        assert any(mark.encode() in path.read_bytes() for path in redis_server.folder.rglob("*.aof"))
        certificate = memory.erase(**MEI, physical=True)
    forced = {place["store"]: place["forced"] for place in certificate["physical"] if "forced" in place}
    assert forced["Redis"]["aof"] == "rewritten"
    assert forced["PostgreSQL"]["VACUUM FULL memories"] == "done"
    assert not any(mark.encode() in path.read_bytes() for path in redis_server.folder.rglob("*") if path.is_file())


def test_adds_while_it_runs_end_cancelled_and_others_go_on(celery: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    with celery.memory("running") as memory:
        memory.add(f"My passport number is {SECRET}.", **MEI, infer=False, wait=True)
        receipts: list[Any] = []
        stop = threading.Event()

        def keep_adding() -> None:
            while not stop.is_set():
                receipts.append((memory.add(f"{SECRET} again {len(receipts)}", **MEI, infer=False), memory.add("tea", **BOB, infer=False)))
                time.sleep(0.01)

        def hit(point: str) -> None:
            """Some are added while it runs, and before its end, however slow that thread is."""
            if point == "erase.filed":
                until, deadline = len(receipts) + 3, time.monotonic() + 120
                while len(receipts) < until:
                    assert time.monotonic() < deadline and adding.is_alive()
                    time.sleep(0.01)

        monkeypatch.setattr(failpoints, "hit", hit)
        adding = threading.Thread(target=keep_adding)
        adding.start()
        try:
            certificate = memory.erase(**MEI)
        finally:
            stop.set()
            adding.join()
        memory.flush(300)
        assert certificate["proof"]["sound"] and receipts
        ended = "".join("c" if mine.status is Status.CANCELLED else "s" for mine, _ in receipts)
        assert all(mine.status in (Status.CANCELLED, Status.SEARCHABLE) for mine, _ in receipts)
        # in order: those that were through before it, those handed over before its end, those after it
        assert re.fullmatch("s*c+s*", ended), ended
        there = memory.count(filters=MEI)
        assert there == len(ended) - ended.rindex("c") - 1
        assert all(theirs.status is Status.SEARCHABLE for _, theirs in receipts)
        assert verify(memory._house.ledger, memory._house.index).sound


def test_without_redis_nobody_knows_the_order_and_nothing_is_erased(celery: Stack) -> None:
    with celery.memory("no-redis") as memory:
        memory_id = memory.add("The code is 4471.", **MEI, infer=False, wait=True)["results"][0]["id"]
    with celery.memory("no-redis", redis_url="redis://127.0.0.1:1/0") as memory:
        with pytest.raises(ServiceUnavailable):
            memory.erase(**MEI)
        assert memory.get(memory_id) is not None


@pytest.fixture
def embedded(memline_home: Path) -> Iterator[Memory]:
    from memline.settings import load_settings

    with Memory(settings=load_settings(home=memline_home, extractor="rules"), embedder=SmallEmbedder()) as memory:
        yield memory


def test_t10_a_passport_that_was_added_updated_deleted_and_added_again(embedded: Memory, memline_home: Path) -> None:
    memory = embedded
    for user in (MEI, BOB):
        first = memory.add(f"My passport number is {SECRET}{user['user_id'][0]}.", **user, infer=False, wait=True)["results"][0]["id"]
        memory.update(first, f"My passport number is {SECRET}{user['user_id'][0]} now.", metadata={"pin": f"pin-{user['user_id']}"})
        memory.delete(first)
        memory.add(f"My passport number is {SECRET}{user['user_id'][0]}!", **user, infer=False, idempotency_key=user["user_id"], wait=True)
    flying = memory.add(f"In flight {SECRET}m.", **MEI, infer=False)
    certificate = memory.erase(**MEI)
    assert certificate["proof"]["sound"]
    assert flying.status in (Status.CANCELLED, Status.SEARCHABLE)  # it may have been through before
    memory.flush()
    assert memory.get_all(filters=MEI)["results"] == [] and memory.count(filters=BOB) == 1
    for path in memline_home.rglob("*"):
        if path.is_file():
            there = path.read_bytes()
            assert ERASED.encode() not in there and f"{SECRET}m".encode() not in there, path
    assert f"{SECRET}b".encode() in (memline_home / "ledger.db").read_bytes() + (memline_home / "ledger.db-wal").read_bytes()


def test_exactly_one_id_is_needed_and_nothing_is_erased_otherwise(embedded: Memory) -> None:
    memory_id = embedded.add("I like tea.", **MEI, infer=False, wait=True)["results"][0]["id"]
    with pytest.raises(ScopeRequired):
        embedded.erase()
    with pytest.raises(InvalidInput, match="exactly one"):
        embedded.erase(user_id=ERASED, agent_id="helper")
    with pytest.raises(InvalidInput, match="wildcard"):
        embedded.erase(user_id="*")
    with pytest.raises(InvalidInput, match="physical"):
        embedded.erase(user_id=ERASED, physical="yes")  # type: ignore[arg-type]
    assert embedded.get(memory_id) is not None


async def _erase(memory: Memory) -> dict[str, Any]:
    asynchronous = AsyncMemory(memory=memory)
    return await asynchronous.erase(user_id=ERASED)


def test_async_memory_erases_the_same_way(embedded: Memory) -> None:
    import asyncio

    embedded.add("I like tea.", **MEI, infer=False, wait=True)
    assert asyncio.run(_erase(embedded))["counts"]["removed"]["memories"] == 1


def test_the_index_of_a_move_that_began_after_the_process_did_is_erased_from_too(embedded: Memory) -> None:
    memory, house = embedded, embedded._house
    memory.erase(user_id="nobody")
    memory_id = memory.add("I like jazz.", **MEI, infer=False, wait=True)["results"][0]["id"]
    with house.ledger.write() as tx:
        save_move(tx, Move("another", house.embedder.dimension, "a run"))
    upcoming = house.index_of(Space("another", house.embedder.dimension))
    assert upcoming is not None
    key = ObjectKey("memory", memory.namespace, memory_id)
    with house.ledger.read() as connection:
        shown = index_objects(connection, [key])[key]
    upcoming.write([Write(key, shown)])
    assert key in upcoming.look([key])
    assert memory.erase(**MEI)["proof"]["sound"]
    assert upcoming.look([key]) == {}
