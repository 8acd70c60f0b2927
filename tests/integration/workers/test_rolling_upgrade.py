"""Rolling upgrade: what this version recorded once is understood for ever, and what a newer one wrote is left for it.

`tests/fixtures/wire/v*.json` were recorded from a real producer and a real sender, and are never made again.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from memline.contracts.message import Image, Message
from memline.contracts.turn import PROCEDURAL, WIRE_VERSION, Turn
from memline.ledger.counters import read_counters
from memline.ledger.jobs import Stage
from memline.ledger.leases import Lease
from memline.ledger.schema import jobs
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_through
from memline.producer.stream import TurnStream
from memline.workers import celery_app
from memline.workers.accept_loop import AcceptLoop
from memline.workers.celery_app import VERSION_HEADER, make_app, queue_of
from tests.parts import HandClock, job_of, make_parts, make_turn, table

WIRE = Path(__file__).parent.parent.parent / "fixtures" / "wire"


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


def recorded(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((WIRE / name).read_text(encoding="utf-8"))
    return found


def newer(turn: Turn) -> str:
    """As a version to come may write it: other fields, another shape."""
    return json.dumps({"v": WIRE_VERSION + 1, "id": turn.id, "who": {"user": "ann"}, "said": ["…"]})


def loop(parts: Parts, stream: TurnStream, consumer: str = "one", **given: Any) -> AcceptLoop:
    return AcceptLoop(stream, parts, lambda _: None, consumer=consumer, **given)


def too_new(parts: Parts, name: str = "entries_too_new") -> int:
    with parts.ledger.read() as connection:
        return read_counters(connection)[name]


def pass_time(parts: Parts) -> None:
    assert isinstance(parts.clock, HandClock)
    parts.clock.advance(parts.order_wait)
    time.sleep(parts.order_wait / 6 + 0.05)


# Stream entries


def test_recorded_entries_become_the_jobs_they_stand_for(parts: Parts, stream: TurnStream, client: redis.Redis) -> None:
    entries = recorded("v1-stream-entries.json")
    for fields in entries:
        client.xadd(stream.key, fields)
    sent: list[Lease] = []
    assert AcceptLoop(stream, parts, sent.extend, consumer="one").run_once(block_ms=0) == len(entries) == 5
    plain, yes, full, prompted, spooled = (job_of(parts.ledger, json.loads(fields["turn"])["id"]) for fields in entries)
    assert (plain.messages, plain.infer, plain.key) == ([{"role": "user", "text": "I bought lamp number 7."}], True, None)
    assert (plain.place, yes.place, spooled.place) == (1, 2, 3)
    assert full.messages[1:] == [
        {"role": "user", "text": "我住在上海。", "name": "mei"},
        {"role": "assistant", "text": "Noted: “上海”."},
    ]
    assert (full.namespace, full.infer, full.key, full.expires_on.isoformat()) == ("shop-2", False, "order-17", "2031-05-01")
    assert full.metadata == {"channel": "web", "tags": ["a", 1, None]}
    assert full.said_at == datetime(2026, 2, 2, 20, 5, 6, tzinfo=UTC)
    assert prompted.prompt == "Keep order numbers."
    for lease in sent:
        run_through(parts, lease, worker="test", send=sent.extend, stopped=lambda: False)
    assert {row.state for row in table(parts.ledger, jobs)} == {"committed"}


def test_the_fingerprint_of_a_recorded_entry_is_what_it_was() -> None:
    # a key used before an upgrade must know its content after it (G2)
    (turn,) = (turn for fields in recorded("v1-stream-entries.json") if (turn := Turn.from_wire(fields["turn"])).idempotency_key)
    assert turn.fingerprint == "a0aca2c83b50dc8d9191a15efa92c310"


def test_recorded_entries_of_version_2_become_the_jobs_they_stand_for(parts: Parts, stream: TurnStream, client: redis.Redis) -> None:
    entries = recorded("v2-stream-entries.json")
    for fields in entries:
        client.xadd(stream.key, fields)
    assert loop(parts, stream).run_once(block_ms=0) == len(entries) == 2
    pictured, task = (job_of(parts.ledger, json.loads(fields["turn"])["id"]) for fields in entries)
    picture = {"url": "https://pictures.example/dog.png", "detail": "low"}
    assert pictured.messages == [{"role": "user", "text": "My new dog.", "name": "ann", "images": [picture]}]
    assert pictured.fingerprint == "a2645131391e08a3a6da27032b0eb731"
    assert (pictured.memory_type, task.memory_type) == (None, "procedural_memory")


def test_a_turn_is_written_in_the_oldest_version_that_says_all_of_it(stream: TurnStream, client: redis.Redis) -> None:
    # so workers of the release before go on with it, and leave the others to newer ones
    plain = make_turn("plain", id="a", run="r", agent="robot")
    pictured = replace(plain, id="b", messages=(Message("user", "x", images=(Image("https://pictures.example/dog.png"),)),))
    for turn in (plain, pictured, replace(plain, id="c", memory_type=PROCEDURAL)):
        stream.append(turn.to_wire())
    assert [fields[b"v"] for _, fields in client.xrange(stream.key)] == [b"1", b"2", b"2"]


def test_an_entry_of_a_newer_version_is_left_and_counted_once_whoever_meets_it(parts: Parts, stream: TurnStream) -> None:
    left = make_turn("one", id="new")
    stream.append(newer(left))
    stream.append(make_turn("two", id="b").to_wire())
    loops = [loop(parts, stream, "one"), loop(parts, stream, "two")]
    assert loops[0].run_once(block_ms=0) == 1
    for _ in range(2):
        for each in loops:
            pass_time(parts)
            assert each.run_once(block_ms=0) == 0
    assert too_new(parts) == 1
    assert (stream.length(), stream.pending_count()) == (1, 1)
    assert [row.id for row in table(parts.ledger, jobs)] == ["b"]
    stream.append(newer(make_turn("three", id="new-2")))
    loops[1].run_once(block_ms=0)
    assert too_new(parts) == 2


def test_the_loop_does_not_spin_on_an_entry_that_it_left(parts: Parts, stream: TurnStream) -> None:
    stream.append(newer(make_turn("one", id="new")))
    one = loop(parts, stream)
    one.run_once(block_ms=0)
    claims: list[str] = []
    claim_idle = stream.claim_idle

    def counted(consumer: str, **given: Any) -> Any:
        claims.append(consumer)
        return claim_idle(consumer, **given)

    stream.claim_idle = counted  # type: ignore[method-assign]
    pass_time(parts)
    for _ in range(20):
        one.run_once(block_ms=0)
    assert len(claims) == 1  # again after a sixth of order_wait, and not before


def test_a_newer_worker_gets_at_once_what_an_older_one_left(parts: Parts, stream: TurnStream, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = make_turn("one", id="new")
    stream.append(json.dumps(json.loads(turn.to_wire()) | {"v": WIRE_VERSION + 1}))
    older = loop(parts, stream, "older")
    older.run_once(block_ms=0)
    assert isinstance(parts.clock, HandClock)
    parts.clock.advance(parts.order_wait)  # Redis's clock has not moved: an older worker looked just now
    assert older.run_once(block_ms=0) == 0
    monkeypatch.setattr("memline.contracts.turn.WIRE_VERSION", WIRE_VERSION + 1)
    assert loop(parts, stream, "newer").run_once(block_ms=0) == 1
    assert [row.id for row in table(parts.ledger, jobs)] == ["new"]
    assert stream.length() == 0


def test_stranded_entries_behind_many_newer_ones_are_found(parts: Parts, stream: TurnStream) -> None:
    for number in range(7):
        stream.append(newer(make_turn("x", id=f"new-{number}")))
    stream.append(make_turn("two", id="b").to_wire())
    stream.read("dead", count=100, block_ms=0)
    one = loop(parts, stream, count=3)
    pass_time(parts)
    assert sum(one.run_once(block_ms=0) for _ in range(4)) == 1
    assert [row.id for row in table(parts.ledger, jobs)] == ["b"]
    assert too_new(parts) == 7


def test_what_was_left_is_remembered_under_a_key_that_expires(parts: Parts, stream: TurnStream, client: redis.Redis) -> None:
    stream.append(newer(make_turn("one", id="new")))
    loop(parts, stream).run_once(block_ms=0)
    assert {key for key in client.scan_iter() if client.ttl(key) == -1} == {stream.key.encode()}


# Celery messages


class Ran:
    """A worker of one process, which notes what it was asked to run."""

    def __init__(self, redis_url: str) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self.met_newer = 0
        self.app = make_app(redis_url, prefix="memline", run=self.run, too_new=self.too_new)

    def run(self, stage: Stage, lease_id: str, epoch: int) -> Lease | None:
        self.calls.append((stage.value, lease_id, epoch))
        return Lease(lease_id, epoch, stage, False)

    def too_new(self) -> None:
        self.met_newer += 1

    def until(self, number: int, timeout: float = 300) -> None:
        deadline = time.monotonic() + timeout
        while len(self.calls) < number:
            assert time.monotonic() < deadline, self.calls
            time.sleep(0.02)


@pytest.fixture
def worker(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ran]:
    from celery.contrib.testing.worker import start_worker

    monkeypatch.setattr(celery_app, "TOO_NEW_DELAY", 1)
    monkeypatch.setattr(celery_app, "TOO_NEW_TRIES", 1000)  # so that none is dropped while a slow machine gets to look for it
    ran = Ran(redis_url)
    with start_worker(ran.app, pool="threads", concurrency=2, perform_ping_check=False, shutdown_timeout=300):
        yield ran


def put(client: redis.Redis, message: dict[str, Any]) -> None:
    client.lpush(f"memline:celery:{message['properties']['delivery_info']['routing_key']}", json.dumps(message))


@pytest.mark.parametrize("told", ["without a version", "with the version 1"])
def test_recorded_messages_run_their_stage_and_those_after_it(worker: Ran, client: redis.Redis, told: str) -> None:
    first, second = (found for found in recorded("v1-celery-messages.json") if found["told"] == told)
    for found in (first, second):
        put(client, found["message"])
    stages = [stage.value for stage in Stage if stage is not Stage.DONE]
    worker.until(len(stages) + 2)
    assert [call for call in worker.calls if call[1] == first["lease_id"]] == [(stage, first["lease_id"], 3) for stage in stages]
    assert [call for call in worker.calls if call[1] == second["lease_id"]] == [
        ("link", second["lease_id"], 1),
        ("save", second["lease_id"], 1),
    ]
    assert worker.met_newer == 0


def test_a_message_of_a_newer_version_waits_and_is_counted_once_while_others_run(worker: Ran, client: redis.Redis) -> None:
    found = recorded("v1-celery-messages.json")[-1]
    message = json.loads(json.dumps(found["message"]))
    message["headers"][VERSION_HEADER] = 2
    message["properties"]["delivery_tag"] = "newer"
    message["body"] = base64.b64encode(json.dumps([[{"lease": "x"}], {"more": 1}, {"chain": None}]).encode()).decode()
    put(client, message)
    put(client, found["message"])
    worker.until(2)

    def rounds() -> int:
        """How often it went back, as it was; 0 also where it is, for a moment, in the worker alone."""
        waiting = client.lrange(f"memline:celery:{queue_of(Stage.LINK)}", 0, -1) + client.hvals("memline:celery:unacked")
        found = [_message(raw) for raw in waiting]
        tries = [each["headers"]["retries"] for each in found if '"more": 1' in base64.b64decode(each["body"]).decode()]
        return max(tries, default=0)

    deadline = time.monotonic() + 300
    while rounds() < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert worker.met_newer == 1
    assert len(worker.calls) == 2


def _message(raw: bytes) -> dict[str, Any]:
    found = json.loads(raw)
    message: dict[str, Any] = found[0] if isinstance(found, list) else found
    return message


def test_a_message_that_nobody_understands_is_dropped_in_the_end(worker: Ran, client: redis.Redis) -> None:
    message = recorded("v1-celery-messages.json")[-1]["message"]
    message["headers"] |= {VERSION_HEADER: 2, "retries": celery_app.TOO_NEW_TRIES}
    put(client, message)
    deadline = time.monotonic() + 300
    while client.llen(f"memline:celery:{queue_of(Stage.LINK)}") + client.hlen("memline:celery:unacked"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert worker.calls == []  # the ledger owns progress: the sweep sends a batch that nobody took again
