"""The crash matrix with a provider that fails: chat and embeddings come from a real HTTP server, which the fault meets.

What must hold beside everything else: an outage spends no attempt; no answer that reached the ledger is bought again, and one that was lost
is counted; what a model says that is no reply fails the job visibly, with the reply kept, and a replay finds the memory.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from memline import Memory
from memline.cli.simulator import Faults, Simulator, extraction_reply
from memline.cli.simulator.server import CHAT, EMBEDDINGS
from memline.ledger.counters import read_counters
from memline.ledger.jobs import retry_job
from memline.ledger.results import load_replies
from memline.ledger.schema import jobs
from memline.ledger.usage import usage_by
from tests.chaos.scenario import Case, Run, Servers
from tests.services import free_port

__all__ = ["PROVIDER_FAULTS", "REPRESENTATIVE", "ProviderRun", "provider_cases"]

#: Every fault of a provider, and what happens for `AWAY` seconds.
PROVIDER_FAULTS = {
    "provider down": "nobody listens at its address",
    "provider hangs": "calls are taken and not answered",
    "provider 500": "every call is answered 500",
    "429 storm": "every call is answered 429 with Retry-After",
    "answers cut off": "every answer ends in the middle",
    "garbage replies": "the model says what is no reply",
}

#: Seconds that the fault lasts.
AWAY = 3.0

_BEFORE = ("extract.before_ask", "embed.before_call")
_AFTER = ("extract.after_ask", "extract.after_store", "embed.after_call")
#: Faults in which nobody is answered, so that nothing may be spent.
_SPENDS_NOTHING = ("provider down", "provider 500", "429 storm")

#: A few that stand for the others, for every run of the tests.
REPRESENTATIVE = (
    Case("extract.before_ask", "provider down", "provider"),
    Case("embed.before_call", "429 storm", "provider"),
    Case("extract.before_ask", "garbage replies", "provider"),
    Case("extract.after_ask", "SIGKILL", "provider"),
)


def provider_cases() -> list[Case]:
    """Every fault of a provider before a call, and the worker's death around the answer. Garbage comes from a chat model alone."""
    cases = [Case(point, fault, "provider") for point in _BEFORE for fault in PROVIDER_FAULTS]
    cases.remove(Case("embed.before_call", "garbage replies", "provider"))
    return cases + [Case(point, "SIGKILL", "provider") for point in (*_BEFORE, *_AFTER)]


class ProviderRun(Run):
    """A case whose model and embedder are a simulator that the fault meets."""

    def __init__(self, found: Servers, case: Case, folder: Path, ledger_url: str, prefix: str) -> None:
        super().__init__(found, case, folder, ledger_url, prefix)
        self._garbage = False
        self._calls: Counter[str] = Counter()
        # at a port that no connection of this machine takes while nobody listens there
        self._simulator = Simulator(free_port(), chat=self._said, dimension=64).start()
        short = case.fault in ("SIGKILL", "provider hangs")  # in which a lease, or a call, must run out
        self.variables |= {
            "MEMLINE_CHAT_MODEL": "gpt-5-mini",
            "MEMLINE_EMBEDDER": "openai",
            "MEMLINE_EMBEDDING_DIMENSION": "64",
            "MEMLINE_OPENAI_BASE_URL": self._simulator.url,
            "MEMLINE_OPENAI_API_KEY": "anything",
            # an answer that comes late on a busy machine is not one that the fault lost
            "MEMLINE_LEASE": "8" if short else "40",
            "MEMLINE_MODEL_TIMEOUT": "6" if short else "30",
        }

    def do_fault(self) -> None:
        fault = self.case.fault
        if fault not in PROVIDER_FAULTS:
            return
        if fault == "provider down":
            port = int(self._simulator.url.rsplit(":", 1)[1].split("/")[0])
            self._simulator.close()
            self._count()
            time.sleep(AWAY)
            self._simulator = Simulator(port, chat=self._said, dimension=64).start()
            return
        kinds = {"provider hangs": "hang", "provider 500": "500", "429 storm": "429", "answers cut off": "cut"}
        self._garbage = fault == "garbage replies"
        self._simulator.faults = Faults(1.0, (kinds[fault],)) if fault in kinds else None
        if self._garbage:
            assert self.memory is not None
            self.receipts.append(self.memory.add("I bought a chair.", user_id="user-0"))  # the others may all be answered by now
            self._wait_for_a_failure()
        else:
            time.sleep(AWAY)
        self._garbage, self._simulator.faults = False, None

    def wait_for_quiet(self) -> None:
        super().wait_for_quiet()
        if self.case.fault == "garbage replies":
            self._replay()
            super().wait_for_quiet()

    def check(self, memory: Memory) -> None:
        # before the searches, whose calls are not the workers'
        self._count()
        house = self.house()
        with house.ledger.read() as connection:
            counters = read_counters(connection)
            recorded = Counter({row["call"]: row["calls"] for row in usage_by(connection, ["call"])})
            spent = connection.execute(sa.select(sa.func.max(jobs.c.attempts))).scalar_one()
        house.close(1)
        problems = self.outcome.problems
        lost = self._calls[CHAT] - recorded["extract"]
        vectors_lost = self._calls[EMBEDDINGS] - recorded["embed"]
        if lost + vectors_lost > counters["repeated_calls"]:
            problems.append(f"{lost} replies and {vectors_lost} vectors were lost, {counters['repeated_calls']} repeated calls are counted")
        if min(lost, vectors_lost) < 0:
            problems.append(f"{lost}, {vectors_lost}: more calls are recorded than were answered")
        if self.case.fault in ("provider 500", "429 storm", "garbage replies") and (lost or vectors_lost):
            problems.append(f"{lost} replies and {vectors_lost} vectors were bought and not recorded")
        if self.case.fault in _SPENDS_NOTHING and spent > counters["leases_expired"]:  # on a busy machine a lease runs out
            problems.append(f"an outage spent {spent} attempts, {counters['leases_expired']} leases ran out")
        if self.case.fault == "SIGKILL" and self.case.point in ("extract.after_ask", "embed.after_call") and not counters["repeated_calls"]:
            problems.append("a call was made again and not counted")
        super().check(memory)

    def stop(self) -> None:
        super().stop()
        self._simulator.close()

    def _said(self, body: Mapping[str, Any]) -> str:
        return "I am so sorry, I lost my train of thought." if self._garbage else extraction_reply(body)

    def _count(self) -> None:
        """Adds the calls that the simulator answered as it should, which are those that are paid for."""
        self._calls += self._simulator.answered
        self._simulator.answered = Counter()

    def _wait_for_a_failure(self) -> None:
        house = self.house()
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            with house.ledger.read() as connection:
                if connection.execute(sa.select(jobs.c.no).where(jobs.c.state == "failed").limit(1)).first() is not None:
                    break
            time.sleep(0.1)
        else:
            self.outcome.problems.append("garbage failed no job")
        house.close(1)

    def _replay(self) -> None:
        """Each failed job says why and has its reply; then it is tried again."""
        house = self.house()
        with house.ledger.write() as tx:
            failed = tx.execute(sa.select(jobs.c.id, jobs.c.reason).where(jobs.c.state == "failed")).all()
            replies = load_replies(tx, "extract", [row.id for row in failed])
            for row in failed:
                if not (row.reason or "").startswith("ReplyUnreadable") or "train of thought" in row.reason:
                    self.outcome.problems.append("a job failed for another reason than its reply, or tells what it said")
                if not any("train of thought" in body for body in replies.get(row.id, [])):
                    self.outcome.problems.append("the reply of a failed job is not kept")
                retry_job(tx, row.id, now=house.clock.now())
        house.close(1)
        assert self.memory is not None
        self.receipts = [self.memory.receipt(receipt.id) for receipt in self.receipts]  # an ended one asks no more
