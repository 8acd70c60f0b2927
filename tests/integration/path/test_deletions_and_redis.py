"""Deletions where turns go through Redis: its order decides, a spool is held against the mark, and without it nothing is deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memline import Status
from memline.errors import JobCancelled, ServiceUnavailable
from memline.producer import TurnStream
from tests.integration.path.stacks import PATIENT, Stack, celery_stack
from tests.services import PostgresServer, RedisServer

MEI = {"user_id": "mei"}


@pytest.fixture(scope="module")
def celery(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, postgres_server: PostgresServer) -> Iterator[Stack]:
    with celery_stack(tmp_path_factory.mktemp("home"), redis_server, postgres_server, **PATIENT) as found:
        yield found


def test_a_spooled_turn_ends_cancelled_when_it_arrives(celery: Stack) -> None:
    with celery.memory("spooled") as memory:
        memory.add("first", **MEI, infer=False, wait=True)
        producer = memory._house.producer
        with producer.spool._draining:  # its thread sends nothing until the deletion is over
            with producer._guard:
                producer._down = True  # as after a call that found Redis away
            receipt = memory.add("My passport number is X1234567.", **MEI, infer=False)
            assert receipt.seen.status is Status.SPOOLED
            memory.delete_all(user_id="mei")
        with pytest.raises(JobCancelled, match="delete_all"):
            receipt.wait(300)
        assert memory.get_all(filters=MEI)["results"] == []


def test_without_redis_nobody_knows_the_order_and_nothing_is_deleted(celery: Stack) -> None:
    with celery.memory("no-redis") as memory:
        memory_id = memory.add("The code is 4471.", **MEI, infer=False, wait=True)["results"][0]["id"]
    with celery.memory("no-redis", redis_url="redis://127.0.0.1:1/0") as memory:
        with pytest.raises(ServiceUnavailable):
            memory.delete_all(user_id="mei")
        with pytest.raises(ServiceUnavailable):
            memory.reset("no-redis")
        assert memory.get(memory_id) is not None


def test_a_place_leaves_no_entry_and_lies_between_what_was_before_and_after_it(redis_server: RedisServer) -> None:
    stream = TurnStream(redis_server.url, prefix="places", socket_timeout=120)
    places = [stream.draw_place(), stream.append('{"v":1}'), stream.draw_place()]
    assert stream.length() == 1
    assert [entry.id for entry in stream.read("one", count=10, block_ms=0)] == [places[1]]
    ordered = sorted(places, key=lambda place: [int(part) for part in place.split("-")])
    assert ordered == places and len(set(places)) == 3
    stream.close()
