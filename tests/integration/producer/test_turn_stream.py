"""The stream between producers and the accept loop, on a real Redis."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from memline.contracts.erasing import Sought
from memline.contracts.errors import ConfigurationError, EvictingRedis, ServiceUnavailable
from memline.contracts.ids import TimeOrderedIds
from memline.contracts.scope import Scope
from memline.contracts.turn import Message, Turn
from memline.producer import Entry, TurnStream
from memline.producer.erase_stream import StreamEraser
from tests.services import Proxy, RedisServer, free_port

IDS = TimeOrderedIds()
ANN = Scope.of("default", user_id="ann")


def turn(number: int = 1, text: str = "I moved to Lyon.") -> Turn:
    return Turn(IDS.new(), ANN, (Message("user", text),), datetime(2026, 5, 1, tzinfo=UTC), producer="p", number=number)


def connect(stream: TurnStream) -> None:
    """Until it was answered in its own time."""
    deadline = monotonic() + 300
    while True:
        try:
            stream.ping()
            return
        except ServiceUnavailable:
            if monotonic() > deadline:
                raise


def ids_of(entries: list[Entry]) -> list[str]:
    return [entry.id for entry in entries]


def test_what_is_appended_is_read_in_order_with_its_version(stream: TurnStream) -> None:
    turns = [turn(1), turn(2, "我搬到里昂了 ☕")]
    appended = [stream.append(each.to_wire()) for each in turns]
    entries = stream.read("a", count=10, block_ms=0)
    assert ids_of(entries) == appended
    assert [Turn.from_wire(entry.wire or b"") for entry in entries] == turns
    assert [entry.fields["v"] for entry in entries] == [b"1", b"1"]


def test_the_version_of_a_line_from_a_newer_memline_is_kept(stream: TurnStream) -> None:
    stream.append(turn().to_wire().replace('"v":1', '"v":7', 1))
    stream.append('{"id":"x","v":8}')
    assert [entry.fields["v"] for entry in stream.read("a", block_ms=0)] == [b"7", b"8"]


def test_an_entry_is_read_by_one_consumer_only(stream: TurnStream) -> None:
    appended = [stream.append(turn(number).to_wire()) for number in range(1, 5)]
    assert ids_of(stream.read("a", count=3, block_ms=0)) == appended[:3]
    assert ids_of(stream.read("b", count=3, block_ms=0)) == appended[3:]
    assert stream.read("a", block_ms=0) == []
    assert stream.pending_count() == 4


def test_done_entries_leave_the_stream(stream: TurnStream) -> None:
    for number in range(1, 4):
        stream.append(turn(number).to_wire())
    entries = stream.read("a", count=2, block_ms=0)
    stream.done(ids_of(entries))
    stream.done([])
    assert (stream.length(), stream.pending_count()) == (1, 0)


def test_a_reader_waits_longer_than_a_socket_would(server: RedisServer, stream: TurnStream) -> None:
    stream.ensure_group()
    reader = TurnStream(server.url, socket_timeout=1)
    late = threading.Timer(1.2, stream.append, [turn().to_wire()])
    late.start()
    try:
        assert len(reader.read("a", block_ms=300_000)) == 1
        assert reader.read("a", block_ms=1200) == []
    finally:
        late.join()
        reader.close()


def test_the_entries_of_a_dead_consumer_are_claimed_by_another(stream: TurnStream) -> None:
    appended = [stream.append(turn(number).to_wire()) for number in range(1, 26)]
    stream.read("dead", count=25, block_ms=0)
    assert stream.claim_idle("b", min_idle_ms=60_000) == []
    sleep(0.05)
    first = stream.claim_idle("b", min_idle_ms=20, count=10)
    assert ids_of(first) == appended[:10]
    stream.done(ids_of(first))
    assert ids_of(stream.claim_idle("c", min_idle_ms=20, count=100)) == appended[10:]
    assert stream.pending_count() == 15


def test_claiming_goes_on_behind_entries_that_are_not_idle(stream: TurnStream) -> None:
    """Redis looks at ten times *count* entries a page; the idle ones may all be on a later page."""
    for number in range(60):
        stream.append(turn(number).to_wire())
    stream.read("busy", count=50, block_ms=0)
    rest = ids_of(stream.read("dead", count=10, block_ms=0))
    with redis.Redis.from_url(stream._url, socket_timeout=120) as client:
        client.xclaim(stream.key, stream.group, "dead", 0, rest, idle=3_600_000)
    assert ids_of(stream.claim_idle("b", min_idle_ms=1_800_000, count=3)) == rest[:3]


def test_a_group_that_is_gone_is_made_again_and_the_loop_goes_on(server: RedisServer, stream: TurnStream) -> None:
    assert stream.read("a", block_ms=0) == []
    with redis.Redis.from_url(server.url, socket_timeout=120) as client:
        client.flushall()
        assert stream.claim_idle("a", min_idle_ms=0) == []
        client.flushall()
        assert stream.pending_count() == 0
        client.flushall()
        stream.append(turn().to_wire())
        assert len(stream.read("a", block_ms=0)) == 1
        client.xgroup_destroy(stream.key, stream.group)
        assert len(stream.read("a", block_ms=0)) == 1, "what the stream still holds is delivered once more"


def test_a_blocked_reader_survives_a_flush(server: RedisServer, stream: TurnStream) -> None:
    stream.ensure_group()

    def flush_then_append() -> None:
        with redis.Redis.from_url(server.url, socket_timeout=120) as client:
            client.flushall()
        stream.append(turn().to_wire())

    later = threading.Timer(0.2, flush_then_append)
    later.start()
    try:
        assert len(stream.read("a", block_ms=300_000)) == 1
    finally:
        later.join()


def test_the_stream_and_its_group_survive_a_killed_redis(server: RedisServer, stream: TurnStream) -> None:
    appended = [stream.append(turn(number).to_wire()) for number in (1, 2, 3)]
    stream.read("a", count=1, block_ms=0)
    server.restart(kill=True)
    assert ids_of(stream.read("a", block_ms=0)) == appended[1:]
    assert stream.pending_count() == 3


def test_a_turn_is_found_on_any_page(stream: TurnStream) -> None:
    first = turn(1)
    stream.append(first.to_wire())
    for number in range(2, 1202):
        stream.append(turn(number).to_wire())
    assert stream.find(first.id)
    assert not stream.find(IDS.new())


def test_an_id_that_is_only_mentioned_is_not_found(stream: TurnStream) -> None:
    mentioned = IDS.new()
    stream.append(turn(1, text=f'{{"id":"{mentioned}"}}').to_wire())
    stream.append(json.dumps({"v": 1, "id": "x", "metadata": {"id": mentioned}}, separators=(",", ":")))
    assert not stream.find(mentioned)
    assert stream.find("x")


def test_an_entry_that_is_no_turn_is_read_and_says_so(server: RedisServer, stream: TurnStream) -> None:
    with redis.Redis.from_url(server.url, socket_timeout=120) as client:
        client.xadd(stream.key, {b"\xff": b"\x00"})
    assert [entry.wire for entry in stream.read("a", block_ms=0)] == [None]
    assert not stream.find("x")


def test_prefixes_are_streams_of_their_own(server: RedisServer, stream: TurnStream) -> None:
    other = TurnStream(server.url, prefix="staging")
    other.append(turn().to_wire())
    assert (other.key, other.length(), stream.length()) == ("staging:turns", 1, 0)
    other.close()


def test_a_redis_that_keeps_everything_is_accepted(stream: TurnStream) -> None:
    assert stream.check_policy() is None


def test_an_evicting_redis_is_refused_with_both_policies() -> None:
    with RedisServer(appendonly=False, policy="allkeys-lru") as server:
        stream = TurnStream(server.url)
        with pytest.raises(EvictingRedis, match=r"allkeys-lru.*noeviction"):
            stream.check_policy()
        stream.close()


def test_a_redis_that_forbids_config_is_judged_by_its_info() -> None:
    with RedisServer(appendonly=False, policy="volatile-ttl", options=("--rename-command", "CONFIG", "")) as server:
        stream = TurnStream(server.url)
        with pytest.raises(EvictingRedis, match="volatile-ttl"):
            stream.check_policy()
        stream.close()


def test_a_redis_that_does_not_tell_its_policy_gives_a_warning() -> None:
    hidden = ("--rename-command", "CONFIG", "", "--rename-command", "INFO", "")
    with RedisServer(appendonly=False, options=hidden) as server:
        stream = TurnStream(server.url)
        assert "noeviction" in (stream.check_policy() or "")
        stream.close()


def test_a_redis_that_is_away_is_named_without_its_password() -> None:
    port = free_port()
    stream = TurnStream(f"redis://:s3cret@127.0.0.1:{port}/0")
    with pytest.raises(ServiceUnavailable, match=f"127.0.0.1:{port}") as caught:
        stream.append(turn().to_wire())
    assert "s3cret" not in str(caught.value)


def test_what_is_no_redis_url_is_a_matter_of_the_settings() -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_REDIS_URL"):
        TurnStream("http://127.0.0.1:6379").length()


def test_a_refusal_shows_its_code_and_never_the_turn(server: RedisServer, stream: TurnStream) -> None:
    with redis.Redis.from_url(server.url, socket_timeout=120) as client:
        client.set(stream.key, "in the way")
    with pytest.raises(ServiceUnavailable, match="WRONGTYPE") as caught:
        stream.append(turn(text="my secret").to_wire())
    assert "secret" not in str(caught.value)


def test_an_append_is_tried_once(server: RedisServer, hurry: Callable[[TurnStream], None]) -> None:
    """What a lost answer means is the producer's to decide; the client's own tries would hold the caller up."""
    proxy = Proxy(server.port)
    stream = TurnStream(proxy.url)
    try:
        stream.append(turn().to_wire())
        hurry(stream)
        connect(stream)
        connections = proxy.connections
        proxy.swallow = True
        with pytest.raises(ServiceUnavailable, match="TimeoutError"):
            stream.append(turn().to_wire())
        assert (proxy.connections, stream.key) == (connections, "memline:turns")
    finally:
        stream.close()
        proxy.close()


def test_consumers_that_are_silent_and_have_nothing_unfinished_are_forgotten(redis_url: str) -> None:
    stream = TurnStream(redis_url)
    stream.ensure_group()
    for reader in ("dead-with-an-entry", "dead", "busy"):
        stream.append('{"v":1,"id":"a"}')
        found = stream.read(reader, block_ms=0)
        if reader != "dead-with-an-entry":
            stream.done([entry.id for entry in found])
    assert stream.forget_consumers(idle_ms=3_600_000) == 0
    sleep(0.05)
    with redis.Redis.from_url(redis_url, socket_timeout=120) as client:
        idle = {told["name"]: told["idle"] for told in client.xinfo_consumers(stream.key, stream.group)}[b"dead"]
        assert idle > 0
        last = stream.append('{"v":1,"id":"b"}')

        def work_and_eval(*given: str | int) -> Any:
            with client.pipeline(transaction=True) as pipe:  # in one moment of Redis, so that "busy" can't be silent meanwhile
                pipe.xreadgroup(stream.group, "busy", {stream.key: ">"})
                pipe.xack(stream.key, stream.group, last)
                pipe.eval(*given)  # type: ignore[arg-type]
                return pipe.execute()[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stream, "_asking_client", lambda: SimpleNamespace(eval=work_and_eval))
            assert stream.forget_consumers(idle_ms=idle) == 1
        names = {told["name"] for told in client.xinfo_consumers(stream.key, stream.group)}
    assert names == {b"dead-with-an-entry", b"busy"}
    assert stream.pending_count() == 1
    stream.close()


def test_a_redis_that_nobody_has_used_has_no_consumers_to_forget_and_nothing_unfinished(redis_url: str) -> None:
    with closing(TurnStream(redis_url)) as stream:
        assert stream.forget_consumers(idle_ms=0) == 0
        with redis.Redis.from_url(redis_url, socket_timeout=120) as client:
            client.xgroup_destroy(stream.key, stream.group)
        assert stream.forget_consumers(idle_ms=0) == 0 and stream.pending_count() == 0


def test_an_erasure_takes_what_is_left_of_a_turn_out_of_the_stream_too(stream: TurnStream) -> None:
    """What can't be read as a turn is set aside when a worker comes to it: after the erasure, that is."""
    damaged = json.dumps({"v": 1, "namespace": "default", "user_id": "ann", "messages": [{"text": "secret"}]})
    others = json.dumps({"v": 1, "namespace": "default", "user_id": "anna", "messages": []})
    kept = [stream.append(turn().to_wire().replace('"ann"', '"bob"')), stream.append(others)]
    stream.append(damaged)
    stream.append(turn().to_wire())
    eraser, sought = StreamEraser(stream), Sought(ANN.subjects[-1].key, "default", "user", "ann")
    recorded: list[str] = []
    assert eraser.count(sought) == 2
    assert eraser.erase(sought, lambda turns: recorded.extend(each.id for each in turns)) == 2
    assert eraser.count(sought) == 0 and len(recorded) == 1
    assert ids_of(stream.read("a", count=10, block_ms=0)) == kept
