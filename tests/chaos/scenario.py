"""One fault at one point: a real worker (or producer) reaches a named point, a real fault happens there, and then everything must hold.

The same small conversation each time: 12 turns in 4 lanes, one turn handed over twice under its key, one fact said twice.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from memline import Memory, Receipt, Status
from memline.compose import House
from memline.contracts.clock import SystemClock
from memline.contracts.ids import TimeOrderedIds
from memline.contracts.scope import Scope
from memline.errors import MemlineError
from memline.ledger.jobs import Stage
from memline.ledger.leases import Lease
from memline.ledger.schema import jobs, leases, outbox
from memline.producer import TurnStream, build_turn
from memline.settings import Settings, load_settings
from memline.workers.celery_app import CelerySend, make_app
from tests.chaos import changes, repairs
from tests.chaos.checks import (
    SCOPES,
    TURNS,
    problems_of_the_ledger,
    problems_of_the_receipts,
    problems_of_the_searches,
    problems_of_the_stores,
    said,
)
from tests.chaos.faulty_index import put_fault
from tests.chaos.remote_index import RemoteIndex
from tests.integration.path.stacks import be_patient
from tests.services import PostgresServer, RedisServer
from tests.workers import Worker

__all__ = ["FAULTS", "LEASE", "Case", "Outcome", "Run", "Servers"]

#: Seconds; short, so that a lease that runs out is soon over, but for the last one, since a process that starts or stalls for longer than
#: it waits for is a gap in the order, which the product allows and the checks do not. Where turns are lost each gap is waited out.
LEASE, RESEND, ORDER_WAIT, ORDER_WAIT_OF_LOST = 3, 0.5, 24, 6

#: Every fault, and what happens at the point.
FAULTS = {
    "exception": "the code at the point raises",
    "SIGKILL": "the process is killed",
    "duplicated delivery": "every Celery message and stream entry is delivered again",
    "reordered delivery": "the turns reach the stream in reverse",
    "lease expiry, zombie wakes": "the worker hangs past its lease, another takes over, then it wakes",
    "XADD answer lost": "Redis has the turn, the producer is told of an error",
    "Redis restarted": "Redis is killed and started again (AOF)",
    "Redis FLUSHALL": "Redis is emptied",
    "PostgreSQL restarted": "PostgreSQL is killed and started again",
    "index down": "the next writes to the index fail",
    "index partial": "the index refuses every second object of the next writes",
    "index answer lost": "the index applies a write, its answer is lost",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A point, a fault, and which matrix it is of: the index in use (embedded, weaviate), or `provider`."""

    point: str
    fault: str
    index: str = "embedded"


@dataclass(slots=True)
class Outcome:
    """What came of a case. `problems`: what did not hold."""

    case: Case
    reached: bool = False
    problems: list[str] = field(default_factory=list)
    lost: int = 0
    allowed_to_be_lost: int = 0
    #: What a reconcile pass after the fault had to repair, where there is one.
    drift: int = 0
    #: Searches that were asked during the fault, and how many of them the ledger answered alone.
    searches: int = 0
    without_index: int = 0
    #: From the fault to quiet, and of the whole case.
    lag_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def held(self) -> bool:
        return not self.problems


@dataclass(slots=True)
class Servers:
    """A Redis, a PostgreSQL and, where the index is one, a Weaviate behind proxies, all of which may be killed."""

    redis: RedisServer
    postgres: PostgresServer
    #: A database to copy.
    template: str
    remote: RemoteIndex | None = None


class Run:
    """The course of one case; `stop` ends what it started."""

    #: Whether a reconcile pass comes before the stores are compared, also where the point is none of the reconciler's.
    reconciles = False

    def __init__(self, found: Servers, case: Case, folder: Path, ledger_url: str, prefix: str) -> None:
        self.servers, self.case, self.folder = found, case, folder
        self.outcome = Outcome(case)
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.variables = {
            "MEMLINE_HOME": str(folder / "home"),
            "MEMLINE_REDIS_URL": found.redis.url,
            "MEMLINE_REDIS_PREFIX": prefix,
            "MEMLINE_LEDGER_URL": ledger_url,
            "MEMLINE_LEASE": str(LEASE),
            "MEMLINE_MODEL_TIMEOUT": "1",
            "MEMLINE_RESEND": str(RESEND),
            "MEMLINE_ORDER_WAIT": str(ORDER_WAIT_OF_LOST if case.fault == "Redis FLUSHALL" else ORDER_WAIT),
            "MEMLINE_MAX_ATTEMPTS": "30",  # a lease of so few seconds runs out on a busy machine, too
            "MEMLINE_EXTRACTOR": "model",
            "MEMLINE_CHAT_MODEL": "bench.instant:InstantChat",
            "MEMLINE_EMBEDDER": "tests.chaos.small_parts:SmallEmbedder",
            "MEMLINE_TEST_INDEX_FAULT": str(folder / "fault"),
        }
        if case.fault.startswith("index"):
            self.variables["MEMLINE_INDEX"] = "tests.chaos.faulty_index:FaultyIndex"
        verb = case.point.partition(".")[0]
        #: Whether a worker meets the fault.
        self.in_worker = verb not in ("hand_over", repairs.POINTS_OF, *changes.VERBS)
        if self.reconciles or verb == repairs.POINTS_OF:
            self.variables["MEMLINE_RECONCILE_EVERY"] = "0"  # a worker's own pass would repair it before
        (folder / "home").mkdir()
        self.workers: list[Worker] = []
        self.receipts: list[Receipt] = []
        self.changed: list[str] = []
        self.memory: Memory | None = None

    # The course of a case

    def go(self) -> Outcome:
        verb = self.case.point.partition(".")[0]
        self.prepare()
        self.start_worker(failpoints=self.failpoints() if self.in_worker else "")
        memory = self.memory = Memory(settings=self.settings())
        be_patient(memory)
        if verb in changes.VERBS:
            self.change_in_a_process_that_fails(memory, verb)
        elif verb == "hand_over":
            self.hand_over_in_a_process_that_fails(memory)
        elif verb == repairs.POINTS_OF:
            self.reconcile_in_a_process_that_fails(memory)
        else:
            if self.case.fault == "reordered delivery":
                self.hand_over_reversed(memory)
            else:
                self.hand_over(memory, 0, TURNS)
            self.fault_at_the_point()
        if self.case.fault == "SIGKILL" and self.in_worker and self.outcome.reached:
            self.workers[0].wait()  # the mark is made just before the end
        if not any(worker.exit_code is None for worker in self.workers) or self.case.fault.startswith("lease expiry"):
            self.start_worker()
        started = time.monotonic()
        self.wait_for_quiet()
        self.outcome.lag_seconds = time.monotonic() - started
        self.check(memory)
        if verb in changes.VERBS:
            self.outcome.problems += changes.problems_of(verb, memory, self.changed)
        return self.outcome

    def prepare(self) -> None:
        """What is there before the worker that meets the fault starts."""

    def house(self) -> House:
        """The parts of a process that no fault is made for."""
        return House(self.settings())

    def settings(self) -> Settings:
        fields = {name.removeprefix("MEMLINE_").lower(): value for name, value in self.variables.items() if "TEST" not in name}
        return load_settings(**(fields | {"index": "embedded"}))  # the faults are the workers'; the file is the same

    def failpoints(self) -> str:
        if self.case.fault == "exception":
            return f"{self.case.point}=raise"
        if self.case.fault == "SIGKILL":
            return f"{self.case.point}=kill"
        if self.case.fault == "XADD answer lost":
            return f"{self.case.point}=drop"
        if self.case.fault.startswith("lease expiry"):
            return f"{self.case.point}=sleep:{LEASE + 2}"
        return f"{self.case.point}=sleep:1"

    def start_worker(self, failpoints: str = "") -> None:
        variables = self.variables | {"MEMLINE_FAILPOINTS": failpoints, "MEMLINE_FAILPOINTS_DIR": str(self.marks)}
        self.workers.append(Worker(variables, "--concurrency", "4"))
        with suppress(RuntimeError):  # a point may kill it before it is up
            self.workers[-1].start()

    def hand_over(self, memory: Memory, first: int, last: int) -> None:
        for number in range(first, last):
            self.receipts.append(memory.add(said(number), user_id=f"user-{number % SCOPES}", idempotency_key=f"turn-{number}"))
        if last == TURNS:
            self.receipts.append(memory.add(said(0), user_id="user-0", idempotency_key="turn-0"))  # handed over twice
            self.receipts.append(memory.add(said(1), user_id="user-1"))  # said twice

    def hand_over_reversed(self, memory: Memory) -> None:
        """Numbered in order, delivered in reverse: as when one of two accept loops dies with the first half."""
        ids, clock = TimeOrderedIds(), SystemClock()
        stream = TurnStream(self.servers.redis.url, prefix=self.variables["MEMLINE_REDIS_PREFIX"])
        producer = ids.new()
        wires = []
        for number in range(TURNS):
            scope = Scope.of("default", f"user-{number % SCOPES}")
            turn = build_turn(scope, said(number), ids=ids, clock=clock, idempotency_key=f"turn-{number}")
            wires.append((turn.id, json.dumps({**json.loads(turn.to_wire()), "producer": producer, "number": number // SCOPES + 1})))
        for _, wire in reversed(wires):
            stream.append(wire)
        stream.close()
        self.receipts = [memory.receipt(turn_id) for turn_id, _ in wires]

    def hand_over_in_a_process_that_fails(self, memory: Memory) -> None:
        """The application dies or is told an error; like a real one it hands over again, under the same keys."""
        program = (
            "from memline import Memory\nmemory = Memory()\n"
            f"for n in range({TURNS}):\n"
            f"    memory.add('I bought lamp number %d.' % n, user_id='user-%d' % (n % {SCOPES}), idempotency_key='turn-%d' % n)\n"
        )
        away = self.case.point.endswith("_spool")
        if away:
            self.servers.redis.kill()
        variables = self.variables | {
            "MEMLINE_FAILPOINTS": self.failpoints(),
            "MEMLINE_FAILPOINTS_DIR": str(self.marks),
            "MEMLINE_EXIT_DRAIN": "0",
        }
        producer = subprocess.Popen([sys.executable, "-c", program], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.fault_at_the_point()
        producer.wait(240)
        if away and not self.case.fault.startswith("Redis"):
            self.servers.redis.restart()
        self.hand_over(memory, 0, TURNS)

    def change_in_a_process_that_fails(self, memory: Memory, verb: str) -> None:
        """The application dies, or is told an error, while it updates or deletes, beside the conversation."""
        self.changed = changes.prepare(memory)
        self.hand_over(memory, 0, TURNS)
        variables = self.variables | {"MEMLINE_FAILPOINTS": self.failpoints(), "MEMLINE_FAILPOINTS_DIR": str(self.marks)}
        caller = changes.begin(verb, self.changed, variables)
        self.fault_at_the_point()
        caller.wait(240)
        changes.call_until_done(verb, memory, self.changed)

    def reconcile_in_a_process_that_fails(self, memory: Memory) -> None:
        """The index was damaged, and the fault meets who repairs it; a worker goes on meanwhile."""
        self.hand_over(memory, 0, TURNS)
        self.wait_for_quiet()
        house = self.house()
        repairs.damage(house)
        house.close(1)
        reconciler = repairs.begin(self.variables | {"MEMLINE_FAILPOINTS": self.failpoints(), "MEMLINE_FAILPOINTS_DIR": str(self.marks)})
        self.fault_at_the_point()
        reconciler.wait(240)

    def fault_at_the_point(self) -> None:
        self.outcome.reached = self.wait_for_mark(120)  # a process that loads its models takes a while
        if self.case.fault == "Redis FLUSHALL" and not self.case.point.endswith("_spool"):
            self.outcome.allowed_to_be_lost = self.still_queued()
        self.do_fault()

    def do_fault(self) -> None:
        fault, redis, postgres = self.case.fault, self.servers.redis, self.servers.postgres
        if fault == "Redis restarted":
            redis.restart(kill=True)
        elif fault == "Redis FLUSHALL":
            if self.case.point.endswith("_spool"):
                redis.restart()
            self.flush_redis()
        elif fault == "PostgreSQL restarted":
            postgres.restart(kill=True)
        elif fault == "duplicated delivery":
            self.deliver_again()
        elif fault.startswith("index"):
            word = {"index down": "down 3", "index partial": "partial 3", "index answer lost": "lost 2"}[fault]
            put_fault(self.folder / "fault", word)
            assert self.memory is not None
            self.receipts.append(self.memory.add("I bought a chair.", user_id="user-0"))  # something to write

    def flush_redis(self) -> None:
        import redis

        with redis.Redis.from_url(self.servers.redis.url) as client:
            client.flushall()

    def deliver_again(self) -> None:
        house = House(self.settings())
        with house.ledger.read() as connection:
            out = [Lease(row.id, row.epoch, Stage(row.stage), row.alone) for row in connection.execute(sa.select(leases))]
            raw = connection.execute(sa.select(jobs)).mappings().all()
        send = CelerySend(make_app(self.servers.redis.url, prefix=self.variables["MEMLINE_REDIS_PREFIX"]))
        send(out)
        send(out)
        for row in raw:
            user = f"user-{int(row['key'].removeprefix('turn-')) % SCOPES}" if row["key"] else "user-1"
            wire = {
                "v": 1, "id": row["id"], "namespace": "default", "user_id": user, "messages": row["messages"], "metadata": {},
                "infer": True, "prompt": None, "expires_on": None, "occurred_at": None, "handed_at": row["handed_at"].isoformat(),
                "key": row["key"], "producer": row["producer"], "number": row["number"], "spooled": False,
            }  # fmt: skip
            house.stream.append(json.dumps(wire))
        house.close(1)

    # Waiting

    def wait_for_mark(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if (self.marks / self.case.point).exists():
                return True
            time.sleep(0.02)
        return False

    def still_queued(self) -> int:
        number = 0
        for receipt in self.receipts:
            with suppress(MemlineError):
                number += receipt.status in (Status.QUEUED, Status.SPOOLED)
        return number

    def wait_for_quiet(self) -> None:
        house = self.house()
        deadline = time.monotonic() + 240
        try:
            while time.monotonic() < deadline:
                with suppress(MemlineError):
                    if self.quiet(house):
                        return
                time.sleep(0.1)
            self.outcome.problems.append("it did not become quiet in 240 s")
        finally:
            house.close(1)

    def quiet(self, house: House) -> bool:
        for receipt in self.receipts:
            if not receipt.refresh().status.ended:
                return False
        with house.ledger.read() as connection:
            unfinished = connection.execute(sa.select(sa.func.count()).select_from(jobs).where(jobs.c.finished_at.is_(None))).scalar_one()
            rest = [connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in (leases, outbox)]
        return unfinished == 0 and rest == [0, 0] and house.stream.length() == 0

    # Checking

    def check(self, memory: Memory) -> None:
        problems = self.outcome.problems
        found, lost = problems_of_the_receipts(self.receipts, may_be_lost=self.outcome.allowed_to_be_lost)
        problems += found
        self.outcome.lost = lost
        house = self.house()
        problems += problems_of_the_ledger(house, lost=lost)
        if self.reconciles or self.case.point.startswith(repairs.POINTS_OF):
            self.reconcile(house)
        problems += problems_of_the_stores(house)
        if not lost:
            problems += problems_of_the_searches(memory)
        house.close(1)

    def reconcile(self, house: House) -> None:
        """One full pass; the workers' relay shows the index what it finds."""
        done = house.reconciler.run()
        self.outcome.drift = done.repaired
        if not done.complete:
            self.outcome.problems.append("the reconcile pass did not come to its end")
        self.wait_for_quiet()

    def stop(self) -> None:
        if self.memory is not None:
            with suppress(MemlineError):
                self.memory.close()
        for worker in self.workers:
            worker.signal(signal.SIGCONT) if worker.exit_code is None else None
            worker.kill()
