"""Lanes under faults: each keeps the order of its producers, none waits for another, and a poison turn harms nobody but itself.

`make test` runs 20 scopes × 10 turns; with `MEMLINE_CHAOS_FULL=1` (`make chaos`) it is 50 × 40.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memline import Memory
from memline.compose import House
from memline.ledger.counters import read_counters
from memline.ledger.schema import jobs, memories, messages
from memline.ledger.session import Ledger
from memline.outbox.verify import verify
from tests.integration.path.stacks import PATIENT, Stack, celery_stack
from tests.services import PostgresServer, RedisServer
from tests.workers import Worker

pytestmark = pytest.mark.chaos

SCOPES, TURNS = (50, 40) if os.environ.get("MEMLINE_CHAOS_FULL") else (20, 10)
#: Seconds over which the producers hand over, so that faults fall in between.
SPREAD = 8.0 if os.environ.get("MEMLINE_CHAOS_FULL") else 4.0
WORKERS = 4

PRODUCERS = ("a", "b", "c")
#: Where what the test itself hands over lies, apart from what they do.
MORE = "more"
OF_THE_PRODUCERS = [jobs.c.namespace != MORE]

#: Hands over the turns of one producer, or of two: the second is forked from the first after its first round. Turn *n* of a scope is of
#: producer n mod 3, so all three work on every lane at the same time. At half of them they wait for Redis to be away.
PROGRAM = """
import os, sys, time
from memline import Memory
scopes, turns, spread, names, away = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]
memory = Memory()
def hand_over(name, numbers):
    for number in numbers:
        while number >= turns // 2 and not os.path.exists(away):
            time.sleep(0.01)
        for scope in range(scopes):
            memory.add(f"lamp {name} {number:03}", user_id=f"user-{scope:02}")
        time.sleep(spread * 3 / turns)
def numbers_of(name):
    return range("abc".index(name), turns, 3)
if len(names) == 1:
    hand_over(names, numbers_of(names))
else:
    hand_over(names[0], numbers_of(names[0])[:1])
    child = os.fork()
    if child == 0:
        hand_over(names[1], numbers_of(names[1]))
        memory.close()
        os._exit(0)
    hand_over(names[0], numbers_of(names[0])[1:])
    assert os.waitpid(child, 0)[1] == 0
memory.close()
"""


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def variables(marks: Path, **given: str) -> dict[str, str]:
    return {
        "MEMLINE_EXTRACTOR": "tests.chaos.marked:MarkedExtractor",
        "MEMLINE_EMBEDDER": "tests.chaos.small_parts:SmallEmbedder",
        "MEMLINE_TEST_MARKS": str(marks),
        # a killed worker's turns are found after a third of it, while Redis may be away: with the others a slow machine takes its time
        "MEMLINE_ORDER_WAIT": "45",
        "MEMLINE_MAX_ATTEMPTS": "30",  # a lease of few seconds runs out on a busy machine, too
    } | given


def eventually(holds: Callable[[], bool], what: str, timeout: float = 300) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"after {timeout:g} s: not yet {what}"
        time.sleep(0.05)


@contextmanager
def looking(stack: Stack) -> Iterator[Ledger]:
    ledger = Ledger(stack.variables["MEMLINE_LEDGER_URL"])
    try:
        yield ledger
    finally:
        ledger.close()


def rows(ledger: Ledger, *columns: Any, where: Sequence[Any] = (), order: Sequence[Any] = ()) -> list[Any]:
    with ledger.read() as connection:
        return list(connection.execute(sa.select(*columns).where(*where).order_by(*order)))


def unfinished(ledger: Ledger) -> int:
    with ledger.read() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(jobs).where(jobs.c.finished_at.is_(None))).scalar_one()


# Order


def test_each_lane_keeps_the_order_of_its_producers_while_workers_die_and_redis_goes_away(
    tmp_path: Path, marks: Path, postgres_server: PostgresServer
) -> None:
    with RedisServer() as redis, celery_stack(tmp_path, redis, postgres_server, workers=0, **variables(marks)) as stack:
        workers = _start_workers(stack, WORKERS)
        try:
            with looking(stack) as ledger:
                _hand_over_under_faults(stack, ledger, redis, workers, tmp_path)
                eventually(lambda: len(rows(ledger, jobs.c.id, where=OF_THE_PRODUCERS)) >= SCOPES * TURNS, "all accepted")
                eventually(lambda: unfinished(ledger) == 0, "all finished")
                _check_order(ledger)
            with stack.memory(extractor="rules") as memory:
                memory.flush(300)
                memory.in_namespace(MORE).flush(300)
            _check_sound(stack)
        finally:
            for worker in workers:
                worker.stop()


def _start_workers(stack: Stack, number: int) -> list[Worker]:
    """The first of them is killed with turns in its hands that it read and did not accept: others accept later ones before those."""
    dies = {"MEMLINE_FAILPOINTS": "accept.before_commit=kill@2"}
    workers = [Worker(stack.variables | (dies if index == 0 else {}), "--concurrency", "2") for index in range(number)]
    workers[0].start()  # the first one makes the ledger's schema
    with ThreadPoolExecutor(number) as pool:
        list(pool.map(lambda worker: worker.start(timeout=120), workers[1:]))
    return workers


def _hand_over_under_faults(stack: Stack, ledger: Ledger, redis: RedisServer, workers: list[Worker], tmp_path: Path) -> None:
    """Three producers hand over; two workers are killed and one starts; Redis is away for a moment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMLINE_")}
    environment |= stack.variables | {"MEMLINE_EXIT_DRAIN": "200"}
    away = tmp_path / "redis-is-away"
    producers = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(SCOPES), str(TURNS), str(SPREAD), names, str(away)], env=environment)
        for names in ("ac", "b")
    ]
    spool = tmp_path / "spool"
    try:
        eventually(lambda: len(rows(ledger, jobs.c.no)) > SCOPES * TURNS / 4, "some accepted")
        with stack.memory(MORE, extractor="rules") as memory:
            eventually(lambda: _has_died(workers[0], memory), "a worker died over what it accepts")
        redis.kill()
        away.touch()
        eventually(lambda: any(file.stat().st_size for file in spool.glob("**/*") if file.is_file()), "something spooled")
        time.sleep(SPREAD / 4)
        redis.restart()
        late = Worker(stack.variables, "--concurrency", "2")
        starting = threading.Thread(target=late.start, kwargs={"timeout": 120})
        starting.start()
        eventually(lambda: len(rows(ledger, memories.c.no)) > SCOPES * TURNS / 4, "some committed")
        workers[1].kill()
        codes = [producer.wait(400) for producer in producers]
        starting.join()
        workers.append(late)
        assert codes == [0, 0]
    finally:
        for producer in producers:
            producer.kill()
            producer.wait()


def _has_died(worker: Worker, memory: Memory) -> bool:
    """While it has not it is given more to accept: it may have stood still while the others took all that there was."""
    if worker.exit_code is not None:
        return True
    memory.add("one more", user_id="user", infer=False)
    return False


def _check_order(ledger: Ledger) -> None:
    of_producers = [messages.c.job_id.in_(sa.select(jobs.c.id).where(*OF_THE_PRODUCERS))]
    said = rows(ledger, messages.c.lane, messages.c.text, where=of_producers, order=[messages.c.lane, messages.c.place, messages.c.ordinal])
    made = rows(ledger, memories.c.lane, memories.c.text, where=[memories.c.namespace != MORE], order=[memories.c.lane, memories.c.no])
    expected = {name: [f"lamp {name} {number:03}" for number in range(PRODUCERS.index(name), TURNS, 3)] for name in PRODUCERS}
    for found in (said, made):
        lanes = {row.lane for row in found}
        assert len(lanes) == SCOPES
        for lane in lanes:
            texts = [row.text for row in found if row.lane == lane]
            by_producer = {name: [text for text in texts if text.split()[1] == name] for name in PRODUCERS}
            assert by_producer == expected  # in order, none lost, none doubled
    states = {row.state for row in rows(ledger, jobs.c.state)}
    assert states <= {"searchable", "committed"}
    with ledger.read() as connection:
        counters = read_counters(connection)
    assert (counters["order_gaps"], counters["late_turns"], counters["jobs_failed"]) == (0, 0, 0)
    # the fork is an instance of its own: its numbers do not run into its parent's
    assert len({row.producer for row in rows(ledger, jobs.c.producer, where=OF_THE_PRODUCERS)}) == len(PRODUCERS)


def _check_sound(stack: Stack) -> None:
    house = House(stack.settings(extractor="rules"))
    report = verify(house.ledger, house.index)
    house.close(0)
    assert report.sound, report.to_json()


# No lane waits for another


def test_no_lane_waits_for_one_whose_model_is_slow_or_busy(
    tmp_path: Path, marks: Path, redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    (marks / "slow").touch()
    (marks / "busy").touch()
    settings = variables(
        marks, **PATIENT, MEMLINE_EXTRACTOR="tests.chaos.marked:PaidMarkedExtractor", MEMLINE_IN_FLIGHT="2", MEMLINE_MAX_ATTEMPTS="30"
    )
    with celery_stack(tmp_path, redis_server, postgres_server, workers=0, **settings) as stack, stack.memory(extractor="rules") as memory:
        held = {
            name: [memory.add(f"{word} lamp {number}", user_id=name) for number in range(3)]
            for name, word in (("slow", "SLOW"), ("busy", "BUSY"))
        }
        others = [memory.add(f"lamp {number}", user_id=f"user-{scope}") for number in range(3) for scope in range(8)]
        with Worker(stack.variables):  # it finds all of them waiting, and claims them together
            for receipt in others:
                receipt.wait(300)
            assert all(not receipt.status.is_committed for group in held.values() for receipt in group)
            (marks / "slow").unlink()
            (marks / "busy").unlink()
            for name, group in held.items():
                for receipt in group:
                    receipt.wait(300)
                listed = memory.get_all(filters={"user_id": name})["results"]
                assert [item["memory"] for item in listed] == [f"{name.upper()} lamp {number}" for number in range(3)]


# Poison


def test_a_poison_turn_fails_alone_and_is_replayed_when_the_poison_is_gone(
    tmp_path: Path, marks: Path, redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    (marks / "raise").touch()
    (marks / "kill").touch()
    # One batch at a time, so that all of them are batch mates. The lease must outlast what a new process loads on a busy machine.
    settings = variables(marks, MEMLINE_IN_FLIGHT="1", MEMLINE_MAX_ATTEMPTS="2", MEMLINE_LEASE="20", MEMLINE_MODEL_TIMEOUT="1")
    with celery_stack(tmp_path, redis_server, postgres_server, workers=0, **settings) as stack, stack.memory(extractor="rules") as memory:
        texts = {(scope, number): f"lamp {scope} {number}" for number in range(3) for scope in range(6)}
        texts |= {(0, 1): "lamp POISON-RAISE", (1, 1): "lamp POISON-KILL"}
        receipts = {key: memory.add(text, user_id=f"user-{key[0]}") for key, text in texts.items()}
        poison = {kind: receipts[key] for kind, key in {"raise": (0, 1), "kill": (1, 1)}.items()}
        with Worker(stack.variables, "--pool", "prefork", "--concurrency", "2"), looking(stack) as ledger:
            eventually(lambda: len(rows(ledger, jobs.c.id)) == len(texts), "all accepted")
            eventually(lambda: unfinished(ledger) == 0, "all finished")
            states = {row.id: (row.state, row.attempts) for row in rows(ledger, jobs.c.id, jobs.c.state, jobs.c.attempts)}
            for key, receipt in receipts.items():
                if receipt in poison.values():
                    assert states[receipt.id] == ("failed", 2)
                else:
                    assert receipt.wait(300).status.is_committed, key
                    assert states[receipt.id][1] == 0, (key, receipt.reason)  # also of those behind the poison in its lane
            shown = {job["id"]: job for job in _memline(stack, "jobs", "--state", "failed", "--json")["jobs"]}
            assert {receipt.id for receipt in poison.values()} == set(shown)
            assert "RuntimeError" in shown[poison["raise"].id]["reason"]
            assert "secret" not in json.dumps(list(shown.values()))
            assert "died or hung" in shown[poison["kill"].id]["reason"]
            (marks / "raise").unlink()
            (marks / "kill").unlink()
            retried = _memline(stack, "jobs", "retry", *(receipt.id for receipt in poison.values()), "--json")["jobs"]
            assert [job["retried"] for job in retried] == [True, True]
            _wait_ended_well(ledger, [receipt.id for receipt in poison.values()])
            for scope in (0, 1):
                lane = [row.text for row in rows(ledger, messages.c.text, where=_of_user(scope), order=[messages.c.place])]
                assert lane == [texts[scope, number] for number in range(3)]  # at its place in the conversation
                listed = {item["memory"] for item in memory.get_all(filters={"user_id": f"user-{scope}"})["results"]}
                assert listed == {texts[scope, number] for number in range(3)}
        _check_sound(stack)


def _of_user(scope: int) -> list[Any]:
    lane_of = sa.select(memories.c.lane).where(memories.c.user_id == f"user-{scope}")
    return [messages.c.lane.in_(lane_of)]


def _wait_ended_well(ledger: Ledger, job_ids: Sequence[str]) -> None:
    def done() -> bool:
        found = rows(ledger, jobs.c.state, where=[jobs.c.id.in_(job_ids), jobs.c.finished_at.is_not(None)])
        return [row.state for row in found] == ["searchable"] * len(job_ids)

    eventually(done, "searchable and saved")


def _memline(stack: Stack, *arguments: str) -> Any:
    """What the command prints as JSON, run as an operator runs it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMLINE_")} | stack.variables
    done = subprocess.run(
        [sys.executable, "-m", "memline", *arguments], env=environment, capture_output=True, text=True, timeout=240, check=True
    )
    return json.loads(done.stdout)
