"""Handing turns over: to a real Redis, to the spool while that is away, and back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from memline.contracts.clock import SystemClock
from memline.contracts.errors import Closed, InvalidMessage, ServiceUnavailable
from memline.contracts.ids import TimeOrderedIds
from memline.contracts.receipt import Status
from memline.contracts.scope import Scope
from memline.contracts.turn import Turn
from memline.producer import Producer, Spool, TurnStream
from tests.services import Proxy, RedisServer, in_child

Make = Callable[..., Producer]
Hurry = Callable[[TurnStream], None]


def scope(user: str = "ann") -> Scope:
    return Scope.of("default", user_id=user)


def turns_in(stream: TurnStream) -> list[Turn]:
    """Everything in the stream, in its order."""
    with redis.Redis.from_url(stream._url, socket_timeout=120) as client:
        return [Turn.from_wire(fields[b"turn"]) for _, fields in client.xrange(stream.key)]


def first_arrivals(turns: list[Turn]) -> dict[str, list[Turn]]:
    """Each lane's turns as the ledger takes them: an id that arrives again is the same turn."""
    seen: set[str] = set()
    lanes: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        if turn.id not in seen:
            seen.add(turn.id)
            lanes[turn.scope.lane].append(turn)
    return lanes


def eventually(true: Callable[[], bool], timeout: float = 300) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def answers(stream: TurnStream) -> bool:
    try:
        stream.ping()
    except ServiceUnavailable:
        return False
    return True


def stands(pid: int) -> bool:
    """Whether a process is stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


def test_a_turn_goes_straight_into_redis(produce: Make) -> None:
    producer = produce()
    turn, status = producer.hand_over(scope(), "I moved to Lyon.", metadata={"channel": "web"}, idempotency_key="k")
    assert status is Status.QUEUED
    assert turns_in(producer.stream) == [turn]
    assert (turn.producer, turn.number, turn.spooled) == (producer.id, 1, False)
    assert (producer.counts.queued, producer.counts.spooled) == (1, 0)
    assert not producer.spool.folder.exists()


def test_bad_input_changes_nothing_and_uses_no_number(produce: Make) -> None:
    producer = produce()
    with pytest.raises(InvalidMessage):
        producer.hand_over(scope(), [{"role": "nobody", "content": "x"}])
    assert producer.stream.length() == 0
    assert producer.hand_over(scope(), "x")[0].number == 1


def test_an_image_is_taken_where_the_workers_can_describe_it(produce: Make, server: RedisServer, tmp_path: Path) -> None:
    said = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://pictures.example/dog.png"}}]}]
    with pytest.raises(InvalidMessage, match="MEMLINE_VISION_MODEL"):
        produce().hand_over(scope(), said)
    seeing = Producer(server.url, tmp_path / "other", TimeOrderedIds(), SystemClock(), vision=True)
    turn, status = seeing.hand_over(scope(), said)
    seeing.close(timeout=0)
    assert (status, turn.number, len(turn.messages[0].images)) == (Status.QUEUED, 1, 1)


def test_threads_that_share_a_lane_keep_its_numbers_in_the_streams_order(produce: Make) -> None:
    producer = produce()
    start = threading.Barrier(8)

    def work(index: int) -> None:
        start.wait()
        for number in range(40):
            producer.hand_over(scope(f"user-{(index + number) % 3}"), f"turn {number} of thread {index}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lanes = first_arrivals(turns_in(producer.stream))
    assert len(lanes) == 3
    assert sum(map(len, lanes.values())) == producer.counts.queued == 320
    for turns in lanes.values():
        assert [turn.number for turn in turns] == list(range(1, len(turns) + 1))


def test_redis_killed_in_the_middle_loses_nothing_and_keeps_each_lanes_order(server: RedisServer, produce: Make) -> None:
    producer = produce()
    handed: dict[str, list[tuple[str, Status]]] = defaultdict(list)
    half, killed = threading.Barrier(5, timeout=300), threading.Event()

    def work(user: str) -> None:
        for number in range(60):
            if number == 20:
                half.wait()  # Redis is killed from here on
            if number == 50:
                assert killed.wait(300)  # and the last ones meet none
            turn, status = producer.hand_over(scope(user), f"turn {number}")
            handed[turn.scope.lane].append((turn.id, status))

    threads = [threading.Thread(target=work, args=(f"user-{index}",)) for index in range(4)]
    for thread in threads:
        thread.start()
    half.wait()
    server.kill()
    killed.set()
    for thread in threads:
        thread.join()
    assert producer.redis_is_down
    assert {status for turns in handed.values() for _, status in turns} == {Status.QUEUED, Status.SPOOLED}
    spooled = next(turn_id for turn_id, status in reversed(next(iter(handed.values()))) if status is Status.SPOOLED)
    assert producer.locate(spooled) is Status.SPOOLED

    server.start()
    after, _ = producer.hand_over(scope("user-0"), "the last one")
    handed[after.scope.lane].append((after.id, Status.SPOOLED))
    assert producer.flush(300)
    assert producer.locate(spooled) is Status.QUEUED

    lanes = first_arrivals(turns_in(producer.stream))
    assert {lane: [turn.id for turn in turns] for lane, turns in lanes.items()} == {
        lane: [turn_id for turn_id, _ in turns] for lane, turns in handed.items()
    }
    for turns in lanes.values():
        assert [turn.number for turn in turns] == list(range(1, len(turns) + 1))
    assert any(turn.spooled for turn in turns_in(producer.stream))
    assert producer.hand_over(scope("user-0"), "straight again")[1] is Status.QUEUED


def test_a_turn_handed_over_while_its_lane_is_drained_lines_up_behind(
    server: RedisServer, produce: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = produce(retry_every=30)
    server.kill()
    for number in range(5):
        producer.hand_over(scope(), f"turn {number}")
    between: list[Status] = []
    append = producer.stream.append

    def appending(wire: str) -> str:
        done = append(wire)
        if len(between) < 2 and Turn.from_wire(wire).spooled:
            between.append(Status.QUEUED)  # so that this is done twice only
            between[-1] = producer.hand_over(scope(), "in between")[1]
        return done

    monkeypatch.setattr(producer.stream, "append", appending)
    server.start()
    assert producer.flush(300)
    assert between[1] is Status.SPOOLED
    assert [turn.number for turn in first_arrivals(turns_in(producer.stream))[scope().lane]] == [1, 2, 3, 4, 5, 6, 7]


def test_only_the_thread_asks_for_a_redis_that_is_known_to_be_down(
    server: RedisServer, produce: Make, hurry: Hurry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Redis that hangs may hold up one caller once, not each caller every time."""
    producer = produce(retry_every=30)
    hurry(producer.stream)
    asked: list[str] = []
    append = producer.stream.append

    def asking(wire: str) -> str:
        asked.append(wire)
        return append(wire)

    monkeypatch.setattr(producer.stream, "append", asking)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        eventually(lambda: stands(server.pid))
        assert producer.hand_over(scope(), "first")[1] is Status.SPOOLED
        assert producer.hand_over(scope("bob"), "second")[1] is Status.SPOOLED
        assert len(asked) == 1
        with pytest.raises(ServiceUnavailable):
            producer.locate(TimeOrderedIds().new())
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert producer.flush(300)
    assert {turn.number for turn in turns_in(producer.stream)} == {1}


def test_an_append_whose_answer_was_lost_is_one_turn_by_its_id(server: RedisServer, produce: Make, hurry: Hurry) -> None:
    proxy = Proxy(server.port)
    try:
        producer = produce(proxy.url)
        first, _ = producer.hand_over(scope(), "first")
        hurry(producer.stream)
        eventually(lambda: answers(producer.stream))  # and so it is connected
        proxy.swallow = True
        second, status = producer.hand_over(scope(), "second")
        assert status is Status.SPOOLED
        behind = TurnStream(server.url)
        eventually(lambda: behind.find(second.id))  # it was sent; how long the proxy takes for it nobody knows
        behind.close()
        third, status = producer.hand_over(scope(), "third")
        assert status is Status.SPOOLED
        proxy.swallow = False
        assert producer.flush(300)
        everything = turns_in(producer.stream)
        assert [turn.id for turn in everything].count(second.id) >= 2, "the lost answer was to an append that was made"
        (lane,) = first_arrivals(everything).values()
        assert [(turn.id, turn.number) for turn in lane] == [(first.id, 1), (second.id, 2), (third.id, 3)]
        producer.close()
    finally:
        proxy.close()


def test_a_full_redis_sends_turns_to_the_spool(tmp_path: Path) -> None:
    with RedisServer(appendonly=False, options=("--maxmemory", "3mb")) as server:
        producer = Producer(server.url, tmp_path / "spool", TimeOrderedIds(), SystemClock(), retry_every=0.05)
        statuses = [producer.hand_over(scope(), "x" * 100_000)[1] for _ in range(60)]
        assert statuses[0] is Status.QUEUED
        assert statuses[-1] is Status.SPOOLED
        with redis.Redis.from_url(server.url, socket_timeout=120) as client:
            client.config_set("maxmemory", 0)
        assert producer.flush(300)
        (lane,) = first_arrivals(turns_in(producer.stream)).values()
        assert [turn.number for turn in lane] == list(range(1, 61))
        producer.close()


def test_neither_redis_nor_disk_refuses_the_turn_and_uses_no_number(server: RedisServer, produce: Make, tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    producer = produce()
    producer.hand_over(scope(), "one")
    server.kill()
    try:
        with pytest.raises(ServiceUnavailable, match=r"NOT taken.*answer was lost.*idempotency_key"):
            producer.hand_over(scope(), "two")
        with pytest.raises(ServiceUnavailable, match="NOT taken") as caught:
            producer.hand_over(scope(), "three")
        assert "answer was lost" not in str(caught.value)
        assert producer.counts.refused == 2
    finally:
        server.start()
    eventually(lambda: not producer.redis_is_down)
    assert producer.hand_over(scope(), "four")[0].number == 3, "Redis may have number 2, nobody has the one after"


def test_a_forked_child_is_another_producer(produce: Make) -> None:
    producer = produce()
    producer.hand_over(scope(), "parent 1")

    def child() -> list[Any]:
        turn, status = producer.hand_over(scope(), "child 1")
        producer.close()
        return [producer.id, turn.producer, turn.number, status]

    child_id, child_producer, number, status = in_child(child)
    assert child_id == child_producer != producer.id
    assert (number, status) == (1, Status.QUEUED)
    assert producer.hand_over(scope(), "parent 2")[0].number == 2
    assert [turn.producer for turn in turns_in(producer.stream)] == [producer.id, child_id, producer.id]


def test_a_fork_in_the_middle_of_an_outage_leaves_each_its_own_spool(server: RedisServer, produce: Make) -> None:
    producer = produce()
    server.kill()
    first, _ = producer.hand_over(scope(), "parent 1")

    def child() -> list[Any]:
        turn, status = producer.hand_over(scope(), "child 1")
        alive = [each.owner_alive for each in producer.spool.status()]
        return [turn.id, status, turn.number, alive, producer.counts.spooled, producer._thread is not None and producer._thread.is_alive()]

    turn_id, status, number, alive, spooled, draining = in_child(child)
    assert (status, number, spooled, draining) == (Status.SPOOLED, 1, 1, True)
    assert alive == [True, True]
    assert [each.owner_alive for each in producer.spool.status()] == [True, False], "the child ended without closing"
    second, _ = producer.hand_over(scope(), "parent 2")
    server.start()
    assert producer.flush(300)
    eventually(lambda: producer.counts.adopted == 1)
    assert {turn.id for turn in turns_in(producer.stream)} == {first.id, turn_id, second.id}


def test_a_closed_producer_takes_nothing_and_has_sent_what_it_could(server: RedisServer, produce: Make) -> None:
    producer = produce(retry_every=30)
    server.kill()
    turn, _ = producer.hand_over(scope(), "one")
    server.start()
    producer.close(timeout=300)
    assert [found.id for found in turns_in(TurnStream(server.url))] == [turn.id]
    assert list(producer.spool.folder.iterdir()) == []
    with pytest.raises(Closed):
        producer.hand_over(scope(), "two")
    producer.close()


PRODUCER_PROCESS = textwrap.dedent(
    """
    import sys, time
    from memline.contracts.clock import SystemClock
    from memline.contracts.ids import TimeOrderedIds
    from memline.contracts.scope import Scope
    from memline.producer import Producer

    producer = Producer(sys.argv[1], sys.argv[2], TimeOrderedIds(), SystemClock())
    for number in range(20):
        turn, status = producer.hand_over(Scope.of("default", user_id="ann"), f"turn {number}")
        print(turn.id, status, flush=True)
    time.sleep(600)
    """
)


def killed_with_a_spool(url: str, folder: Path) -> list[str]:
    """The ids of 20 turns that a process spooled before it was killed."""
    process = subprocess.Popen([sys.executable, "-c", PRODUCER_PROCESS, url, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(20)]
        assert {status for _, status in lines} == {"spooled"}
        assert [each.owner_alive for each in Spool(folder).status()] == [True]
    finally:
        process.kill()
        process.communicate()
    return [turn_id for turn_id, _ in lines]


def test_the_spool_of_a_killed_process_is_sent_by_the_next_one(server: RedisServer, produce: Make, tmp_path: Path) -> None:
    server.kill()
    try:
        handed = killed_with_a_spool(server.url, tmp_path / "spool")
    finally:
        server.start()
    assert [(each.turns, each.owner_alive) for each in Spool(tmp_path / "spool").status()] == [(20, False)]
    producer = produce()
    eventually(lambda: producer.counts.adopted == 20)
    assert [turn.id for turn in turns_in(producer.stream)] == handed
    eventually(lambda: Spool(tmp_path / "spool").status() == [])


def test_a_killed_process_is_dead_even_if_a_child_of_it_lives(server: RedisServer, tmp_path: Path) -> None:
    server.kill()
    fork = "import os, signal\npid = os.fork()\nif pid == 0:\n    signal.pause()\nprint(pid, flush=True)\n"
    code = PRODUCER_PROCESS.replace("time.sleep", fork + "time.sleep")
    process = subprocess.Popen([sys.executable, "-c", code, server.url, str(tmp_path / "spool")], stdout=subprocess.PIPE, text=True)
    child = None
    try:
        assert process.stdout is not None
        child = int([process.stdout.readline() for _ in range(21)][-1])
        process.kill()
        process.wait()
        # The child closes its copy of the lock when it starts, which may be after its parent printed its id.
        eventually(lambda: [(each.turns, each.owner_alive) for each in Spool(tmp_path / "spool").status()] == [(20, False)])
    finally:
        process.kill()
        if child is not None:
            os.kill(child, signal.SIGKILL)
        process.communicate()
        server.start()


def test_a_spool_is_sent_by_hand_without_a_producer(server: RedisServer, stream: TurnStream, tmp_path: Path) -> None:
    server.kill()
    try:
        handed = killed_with_a_spool(server.url, tmp_path / "spool")
    finally:
        server.start()
    assert Spool(tmp_path / "spool").adopt(stream.append) == 20
    assert [turn.id for turn in turns_in(stream)] == handed


def test_a_producer_that_is_forgotten_ends_its_thread(server: RedisServer, tmp_path: Path) -> None:
    producer: Any = Producer(server.url, tmp_path / "spool", TimeOrderedIds(), SystemClock(), retry_every=0.02)
    producer._start_thread()
    thread = producer._thread
    producer.stream.close()
    del producer
    thread.join(300)
    assert not thread.is_alive()
