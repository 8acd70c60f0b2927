"""The accept loop over a real Redis stream: entries are done only after the commit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import redis

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.scope import Scope
from memline.contracts.turn import Turn
from memline.ledger.delete_all import delete_all
from memline.ledger.leases import Lease
from memline.ledger.marks import place_of
from memline.ledger.schema import jobs, lanes
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.producer.stream import TurnStream
from memline.workers.accept_loop import AcceptLoop, Entries
from tests.parts import HandClock, make_parts, make_turn, table


@pytest.fixture
def stream(redis_url: str) -> Iterator[TurnStream]:
    opened = TurnStream(redis_url, connect_timeout=120, socket_timeout=120)  # a Redis that stands still for seconds is slow, not away
    opened.ensure_group()
    yield opened
    opened.close()


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, socket_timeout=120) as opened:
        yield opened


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger, order_wait=0.6)


class Faulty:
    """A stream's consumer side, whose `done` may be lost."""

    def __init__(self, stream: TurnStream) -> None:
        self._stream = stream
        self.before_done: Callable[[], None] = lambda: None

    def read(self, consumer: str, *, count: int, block_ms: int) -> Sequence[Any]:
        return self._stream.read(consumer, count=count, block_ms=block_ms)

    def claim_idle(self, consumer: str, *, min_idle_ms: int, count: int, after: str) -> Sequence[Any]:
        return self._stream.claim_idle(consumer, min_idle_ms=min_idle_ms, count=count, after=after)

    def leave(self, consumer: str, entry_ids: Sequence[str], *, idle_ms: int) -> int:
        return self._stream.leave(consumer, entry_ids, idle_ms=idle_ms)

    def done(self, entry_ids: Sequence[str]) -> None:
        self.before_done()
        self._stream.done(entry_ids)

    def set_aside(self, entry_ids: Sequence[str]) -> None:
        self._stream.set_aside(entry_ids)


def loop(parts: Parts, stream: Entries, consumer: str = "one", send: Callable[[Sequence[Lease]], None] | None = None) -> AcceptLoop:
    return AcceptLoop(stream, parts, send or (lambda _: None), consumer=consumer)


def append(client: redis.Redis, stream: TurnStream, wire: str | bytes) -> None:
    client.xadd(stream.key, {"turn": wire})


def put(stream: TurnStream, *turns: Turn) -> None:
    for turn in turns:
        stream.append(turn.to_wire())


def ids(ledger: Ledger) -> list[str]:
    return [row.id for row in table(ledger, jobs)]


def pass_time(parts: Parts) -> None:
    """As long as another consumer must have been silent: on the loop's clock and on Redis's."""
    import time

    assert isinstance(parts.clock, HandClock)
    parts.clock.advance(parts.order_wait)
    time.sleep(parts.order_wait / 6 + 0.05)


def test_entries_become_jobs_and_leave_the_stream(parts: Parts, stream: TurnStream) -> None:
    put(stream, make_turn("one", id="a"), make_turn("two", id="b", user="bob"))
    sent: list[Lease] = []
    assert loop(parts, stream, send=sent.extend).run_once(block_ms=0) == 2
    assert ids(parts.ledger) == ["a", "b"]
    assert (stream.length(), stream.pending_count()) == (0, 0)
    assert len(sent) == 2
    assert {row.lease_id for row in table(parts.ledger, lanes)} == {lease.id for lease in sent}


def test_an_empty_stream_gives_nothing(parts: Parts, stream: TurnStream) -> None:
    assert loop(parts, stream).run_once(block_ms=0) == 0


def test_a_crash_between_the_commit_and_the_acknowledgement_doubles_nothing(parts: Parts, stream: TurnStream) -> None:
    faulty = Faulty(stream)

    def crash() -> None:
        raise ServiceUnavailable("Redis is away.")

    faulty.before_done = crash
    put(stream, make_turn("one", id="a"))
    with pytest.raises(ServiceUnavailable):
        loop(parts, faulty).run_once(block_ms=0)
    assert ids(parts.ledger) == ["a"]
    assert stream.pending_count() == 1
    pass_time(parts)
    assert loop(parts, stream, "two").run_once(block_ms=0) == 1
    assert ids(parts.ledger) == ["a"]
    assert (stream.length(), stream.pending_count()) == (0, 0)


def test_entries_that_the_ledger_could_not_take_now_stay_and_are_taken_later(
    parts: Parts, stream: TurnStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memline.workers import accept_loop

    put(stream, make_turn("one", id="a"), make_turn("two", id="b"))

    def away(*_: object, **__: object) -> None:
        raise ServiceUnavailable("The ledger does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(accept_loop, "claim", away)
        with pytest.raises(ServiceUnavailable):
            loop(parts, stream).run_once(block_ms=0)
    assert ids(parts.ledger) == []
    assert (stream.length(), stream.pending_count()) == (2, 2)
    pass_time(parts)
    assert loop(parts, stream, "two").run_once(block_ms=0) == 2
    assert ids(parts.ledger) == ["a", "b"]


def test_an_entry_of_a_newer_memline_is_left_for_a_newer_worker(parts: Parts, stream: TurnStream, client: redis.Redis) -> None:
    newer = json.loads(make_turn("one", id="new").to_wire()) | {"v": 99}
    append(client, stream, json.dumps(newer))
    put(stream, make_turn("two", id="b"))
    assert loop(parts, stream).run_once(block_ms=0) == 1
    assert ids(parts.ledger) == ["b"]
    assert (stream.length(), stream.pending_count()) == (1, 1)


def until(parts: Parts, done: Callable[[], bool], seconds: float = 300) -> None:
    """Waits for *done*; idle entries are claimed only after a sixth of order_wait, by Redis's time and by the clock."""
    deadline = time.monotonic() + seconds
    clock = parts.clock
    assert isinstance(clock, HandClock)
    while not done():
        assert time.monotonic() < deadline
        clock.advance(0.2)
        time.sleep(0.02)


GARBAGE = [
    b"",
    b"not json",
    b"\xff\xfe",
    b"[]",
    b"{}",
    b'{"v": 1}',
    b'{"v": "1"}',
    b"null",
    b"[" * 20000,
]


@pytest.mark.parametrize("wire", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_set_aside_and_holds_up_nobody(parts: Parts, stream: TurnStream, client: redis.Redis, wire: bytes) -> None:
    append(client, stream, wire)
    put(stream, make_turn("two", id="b"))
    assert loop(parts, stream).run_once(block_ms=0) == 1
    assert ids(parts.ledger) == ["b"]
    assert (stream.length(), stream.pending_count()) == (0, 0)
    aside = f"{stream.key}:unreadable"
    assert client.lrange(aside, 0, -1) == [wire]
    assert client.ttl(aside) > 0


@pytest.mark.parametrize("change", [{"user_id": 7}, {"metadata": 3}, {"number": "one"}, {"id": None}, {"namespace": None}])
def test_an_entry_that_reads_like_a_turn_and_can_not_be_accepted_is_set_aside_alone_after_some_tries(
    parts: Parts, stream: TurnStream, client: redis.Redis, change: dict[str, Any]
) -> None:
    put(stream, make_turn("one", id="a"))
    append(client, stream, json.dumps(json.loads(make_turn("bad", id="bad", producer="p", number=1).to_wire()) | change))
    put(stream, make_turn("two", id="b"))
    consumer = loop(parts, stream)
    assert consumer.run_once(block_ms=0) + consumer.run_once(block_ms=0) == 2
    assert ids(parts.ledger) == ["a", "b"]
    assert (stream.length(), stream.pending_count()) == (1, 1)
    until(parts, lambda: consumer.run_once(block_ms=0) == 0 and stream.length() == 0)
    assert stream.pending_count() == 0
    assert client.llen(f"{stream.key}:unreadable") == 1


def test_a_turn_that_one_accident_kept_out_is_accepted_at_the_next_try(
    parts: Parts, stream: TurnStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(stream, make_turn("one", id="a"))
    accidents = [RuntimeError("an accident")]

    def once(point: str) -> None:
        if point == "accept.before_commit" and accidents:
            raise accidents.pop()

    monkeypatch.setattr("memline.contracts.failpoints.hit", once)
    consumer = loop(parts, stream)
    assert consumer.run_once(block_ms=0) == 0
    assert ids(parts.ledger) == []
    until(parts, lambda: consumer.run_once(block_ms=0) == 1)
    assert ids(parts.ledger) == ["a"]
    assert stream.length() == 0


def test_two_consumers_share_the_stream(parts: Parts, stream: TurnStream) -> None:
    put(stream, *(make_turn(f"{number}", id=f"t{number:02}") for number in range(10)))
    one, two = AcceptLoop(stream, parts, lambda _: None, consumer="one", count=3), loop(parts, stream, "two")
    taken = [one.run_once(block_ms=0), two.run_once(block_ms=0)]
    assert taken == [3, 7]
    assert len(set(ids(parts.ledger))) == 10


def test_entries_before_the_place_of_a_deletion_end_cancelled_and_those_after_it_are_accepted(parts: Parts, stream: TurnStream) -> None:
    put(stream, make_turn("one", id="before"), make_turn("other", id="other", user="bob"))
    place = place_of(stream.draw_place())
    put(stream, make_turn("two", id="after"))
    delete_all(parts.ledger, Scope("default", "ann"), now=parts.clock.now(), place=place)
    assert loop(parts, stream).run_once(block_ms=0) == 3
    assert {row.id: (row.state, row.messages is None) for row in table(parts.ledger, jobs)} == {
        "before": ("cancelled", True),
        "other": ("accepted", False),
        "after": ("accepted", False),
    }
    assert (stream.length(), stream.pending_count()) == (0, 0)
