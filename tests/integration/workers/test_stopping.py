"""A real worker is told to stop: what it holds is finished, or handed back within the limit; nothing is lost, and no attempt is spent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memline import Memory, Status
from memline.cli.simulator import Simulator
from memline.ledger.counters import read_counters
from memline.ledger.schema import jobs, leases
from memline.ledger.session import Ledger
from tests.integration.path.stacks import Stack, celery_stack
from tests.services import PostgresServer, RedisServer
from tests.workers import Worker

pytestmark = pytest.mark.services

#: So long that nothing in these tests can be due to a lease that ran out, or to a call that was given up.
PATIENT = {"MEMLINE_LEASE": "900", "MEMLINE_MODEL_TIMEOUT": "600", "MEMLINE_EMBEDDER": "local", "MEMLINE_EXTRACTOR": "model"}


class Patient(Worker):
    """One whose ledger has two minutes for what is handed back, where the product leaves it two seconds at most: here nothing that is slow
    is away. (What is done with a ledger that does not answer, the tests of `Stop` tell.)
    """

    program = (
        "-c",
        (
            "from memline.workers.stopping import Stop; out = Stop._out; Stop._out = lambda stop, _seconds, code: out(stop, 120, code); "
            "from runpy import run_module; run_module('memline', run_name='__main__', alter_sys=True)"
        ),
    )


@contextmanager
def stack_of(folder: Path, redis: RedisServer, postgres: PostgresServer, simulator: Simulator, **more: str) -> Iterator[Stack]:
    model = {"MEMLINE_OPENAI_BASE_URL": simulator.url, "MEMLINE_OPENAI_API_KEY": "none"}
    with celery_stack(folder, redis, postgres, workers=0, **PATIENT, **model, **more) as stack:
        yield stack


def chats(simulator: Simulator) -> int:
    return sum(call.path.endswith("chat/completions") for call in simulator.calls)


def until(true: Callable[[], bool], timeout: float = 300) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def seen(stack: Stack) -> tuple[list[Any], int, dict[str, int]]:
    """The jobs, the number of batches that are on their way, the counters."""
    ledger = Ledger(stack.variables["MEMLINE_LEDGER_URL"])
    try:
        with ledger.read() as connection:
            rows = list(connection.execute(sa.select(jobs).order_by(jobs.c.no)))
            taken = connection.execute(sa.select(sa.func.count()).select_from(leases).where(leases.c.taken)).scalar_one()
            return rows, taken, read_counters(connection)
    finally:
        ledger.close()


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def ask(memory: Memory, number: int = 1) -> Any:
    return memory.add(f"I bought lamp number {number} in Kyoto.", user_id=f"user-{number}")


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_call_shorter_than_the_limit_is_finished(
    tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer, pool: str
) -> None:
    with (
        Simulator(latency=1.5) as simulator,
        stack_of(tmp_path, redis_server, postgres_server, simulator, MEMLINE_STOP_WITHIN="100") as stack,
        stack.memory() as memory,
    ):
        worker = Worker(stack.variables, "--pool", pool, "--concurrency", "2").start()
        receipt = ask(memory)
        until(lambda: chats(simulator) == 1)
        for child in children(worker.pid):  # as an init system does that signals the whole group
            os.kill(child, signal.SIGTERM)
        worker.stop()
        assert worker.exit_code == 0, worker.output
        (job,), taken, counted = seen(stack)
        assert job.stage != "extract"
        assert (taken, counted["batches_handed_back"]) == (0, 0)
        with Worker(stack.variables):
            assert receipt.wait(300).status is Status.SEARCHABLE
        (job,), _, _ = seen(stack)
        assert (job.attempts, chats(simulator)) == (0, 1)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_call_longer_than_the_limit_is_handed_back_and_another_worker_goes_on_at_once(
    tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer, pool: str
) -> None:
    with (
        Simulator(latency=300) as simulator,
        stack_of(tmp_path, redis_server, postgres_server, simulator, MEMLINE_STOP_WITHIN="2") as stack,
        stack.memory() as memory,
    ):
        worker = Patient(stack.variables, "--pool", pool, "--concurrency", "2").start()
        pool_of = children(worker.pid)
        receipt = ask(memory)
        until(lambda: chats(simulator) == 1)
        worker.stop()
        assert worker.exit_code == 0, worker.output
        until(lambda: not any(Path(f"/proc/{child}").exists() for child in pool_of))  # nothing of its pool is left behind
        (job,), taken, counted = seen(stack)
        assert (job.stage, job.attempts, job.alone, job.finished_at) == ("extract", 0, False, None)
        assert (taken, counted["batches_handed_back"]) == (0, 1)
        simulator.latency = 0
        with Worker(stack.variables):
            assert receipt.wait(300).status is Status.SEARCHABLE  # long before the lease of 900 s would have run out
        (job,), _, counted = seen(stack)
        assert (job.attempts, counted["leases_expired"]) == (0, 0)
        assert (chats(simulator), counted["repeated_calls"]) == (2, 1)  # the one whose answer was lost is repeated, once, and counted


def test_a_second_signal_ends_at_once_and_still_hands_back(
    tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    with (
        Simulator(latency=300) as simulator,
        stack_of(tmp_path, redis_server, postgres_server, simulator, MEMLINE_STOP_WITHIN="600") as stack,
        stack.memory() as memory,
    ):
        worker = Patient(stack.variables).start()
        ask(memory)
        until(lambda: chats(simulator) == 1)
        worker.signal(signal.SIGTERM)
        until(lambda: any("stop: SIGTERM" in line for line in worker.output))
        worker.signal(signal.SIGTERM)
        worker.wait()
        worker.stop()
        assert worker.exit_code == 128 + signal.SIGTERM
        (job,), taken, counted = seen(stack)
        assert (job.attempts, taken, counted["batches_handed_back"]) == (0, 0, 1)
        simulator.latency = 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_process_of_loops_alone_ends_with_0(
    tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer, number: signal.Signals
) -> None:
    with celery_stack(tmp_path, redis_server, postgres_server, workers=0) as stack:
        worker = Worker(stack.variables, "--stages", "none").start()
        worker.signal(number)
        worker.wait()
        worker.stop()
        assert worker.exit_code == 0, worker.output


def test_workers_that_are_replaced_under_load_lose_nothing_and_spend_no_attempt(
    tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    with (
        Simulator(latency=0.2) as simulator,
        stack_of(tmp_path, redis_server, postgres_server, simulator, MEMLINE_STOP_WITHIN="100", MEMLINE_BATCH="4") as stack,
        stack.memory() as memory,
    ):
        old = Worker(stack.variables).start()
        receipts = [ask(memory, number) for number in range(40)]
        until(lambda: chats(simulator) >= 8)
        with Worker(stack.variables):
            old.stop()
            assert old.exit_code == 0
            for receipt in receipts:
                assert receipt.wait(300).status is Status.SEARCHABLE
        rows, taken, counted = seen(stack)
        assert {row.attempts for row in rows} == {0}
        assert (len(rows), taken, counted["leases_expired"], counted["batches_handed_back"]) == (40, 0, 0, 0)
        assert (chats(simulator), counted["repeated_calls"]) == (40, 0)
