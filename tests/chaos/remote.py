"""The crash matrix with Weaviate as the index: what lies between breaks while memories are written, changed, deleted and searched."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from memline import Memory
from memline.compose import House
from memline.contracts.index_object import ObjectKey
from memline.errors import MemlineError, ServiceUnavailable
from memline.settings import Settings, load_settings
from tests.chaos.remote_index import AWAY, REMOTE_FAULTS, TIMEOUT, RemoteIndex
from tests.chaos.scenario import LEASE, Case, Run, Servers

__all__ = ["REPRESENTATIVE", "RemoteRun", "remote_cases"]

#: Seconds of a search, and how much longer it may take on a machine that has other things to do. A search that hangs takes 30 and more.
DEADLINE, SLACK = 2.0, 15.0

_RELAY = ("relay.claimed", "relay.before_write", "relay.after_write", "relay.before_settle", "relay.after_settle")
_STAGES = ("persist.after_commit", "extract.before_ask")
_RECONCILER = ("reconcile.before_walk", "reconcile.before_look")
_OF_THE_RELAY = ("SIGKILL", "lease expiry, zombie wakes")

#: A few that stand for the others, for every run of the tests: one a fault, each at another point.
REPRESENTATIVE = (
    Case("relay.before_write", "answers swallowed", "weaviate"),
    Case("relay.claimed", "cut in a write", "weaviate"),
    Case("persist.after_commit", "connections refused", "weaviate"),
    Case("reconcile.before_look", "answers delayed", "weaviate"),
    Case("relay.after_write", "server killed", "weaviate"),
)


def remote_cases() -> list[Case]:
    """Every fault of a remote index at the points where it can bite, and the relay's own death and sleep beside a real Weaviate.

    Left out, since they can't tell apart what these do: the other points of a stage (what the index does reaches a stage only where
    extract asks for context; what a stage writes for the index is in its commit, and after that of persist, link and save run while it is
    away); relay.after_settle and the reconciler's points around its commit with a fault of the index, which meets the relay's next round as
    at relay.claimed; hand_over, accept, dispatch, embed and dedup, which never touch an index; the faults of Redis, PostgreSQL and
    Celery, which the first matrix has; update and delete, which are called in every case during its fault.
    """
    cases = [Case(point, fault, "weaviate") for point in (*_RELAY[:-1], *_RECONCILER, *_STAGES) for fault in REMOTE_FAULTS]
    return cases + [Case(point, fault, "weaviate") for point in _RELAY for fault in _OF_THE_RELAY]


class RemoteRun(Run):
    """A case whose processes reach Weaviate through the proxies; the verifier asks it directly."""

    reconciles = True

    def __init__(self, found: Servers, case: Case, folder: Path, ledger_url: str, prefix: str) -> None:
        super().__init__(found, case, folder, ledger_url, prefix)
        if found.remote is None:
            raise ValueError("the servers have no Weaviate")
        self.remote: RemoteIndex = found.remote
        self.variables |= {
            "MEMLINE_INDEX": "weaviate",
            "MEMLINE_WEAVIATE_PREFIX": f"Chaos{os.urandom(6).hex()}",
            "MEMLINE_WEAVIATE_TIMEOUT": str(TIMEOUT),
            "MEMLINE_SEARCH_DEADLINE": str(DEADLINE),
            **self.remote.line.reached.settings(),
        }
        self._met_at = 0.0

    def settings(self) -> Settings:
        return load_settings(**self._fields())

    def house(self) -> House:
        return House(load_settings(**self._direct()))

    def failpoints(self) -> str:
        return f"{self.case.point}=sleep:2" if self.case.fault in REMOTE_FAULTS else super().failpoints()

    def prepare(self) -> None:
        """Three memories of the user `victim` in the index, made without a worker, so that no point is reached by them."""
        fields = {name: value for name, value in self._direct().items() if not name.startswith("redis")}
        with Memory(settings=load_settings(**fields)) as memory:
            for number in range(3):
                memory.add(f"I bought chair number {number}.", user_id="victim").wait(240)
            self.changed = sorted(item["id"] for item in _of_the_victim(memory)["results"])
        if len(self.changed) != 3:
            raise RuntimeError(f"{len(self.changed)} memories of the victim instead of 3")

    def fault_at_the_point(self) -> None:
        """What is written to the index at that moment are, among others, memories that are then changed again, and deleted."""
        assert self.memory is not None
        for memory_id in self.changed:
            self.memory.update(memory_id, f"User bought a blue chair with the mark {memory_id[-6:]}.")
        super().fault_at_the_point()

    def do_fault(self) -> None:
        self._met_at = time.monotonic()
        fault = self.case.fault
        if fault not in REMOTE_FAULTS:
            self.meanwhile(0.0)
            return
        self.remote.begin(fault)
        try:
            self.meanwhile(AWAY)
        finally:
            self.remote.end()

    def meanwhile(self, seconds: float) -> None:
        """An application that goes on: it deletes, updates, adds, and searches until the fault is over, once at least."""
        assert self.memory is not None
        until = time.monotonic() + seconds
        deleted, changed, kept = self.changed
        self.memory.delete(deleted)
        self.memory.update(changed, "User bought a red chair.")
        self.receipts.append(self.memory.add("I bought a chair.", user_id="user-0"))
        while True:
            self._search({changed, kept})
            if time.monotonic() >= until:
                return
            time.sleep(0.3)

    def check(self, memory: Memory) -> None:
        if self.case.fault.startswith("lease expiry"):
            time.sleep(max(0.0, self._met_at + LEASE + 3 - time.monotonic()))  # whoever slept has woken, and done what it will
        super().check(memory)
        house = self.house()
        if house.index.look([ObjectKey("memory", "default", self.changed[0])]):
            self.outcome.problems.append("a deleted memory is in the index")
        house.close(1)
        there = {item["id"]: item["memory"] for item in _of_the_victim(memory)["results"]}
        if set(there) != set(self.changed[1:]) or there.get(self.changed[1]) != "User bought a red chair.":
            self.outcome.problems.append("a change or a deletion during the fault has no effect")
        self._wait_for_a_whole_search(memory)

    def stop(self) -> None:
        super().stop()
        house = self.house()
        with suppress(MemlineError):
            house.index.drop()  # type: ignore[attr-defined]
        house.close(1)

    def _search(self, expected: set[str]) -> None:
        assert self.memory is not None
        outcome = self.outcome
        started = time.monotonic()
        try:
            answer = self.memory.search("which chair was bought?", filters={"user_id": "victim"}, top_k=100, threshold=0)
        except ServiceUnavailable as error:
            outcome.problems.append(f"a search during the fault: {error}")
            return
        outcome.searches += 1
        outcome.without_index += "index" in answer.get("missing", ())
        if time.monotonic() - started > DEADLINE + SLACK:
            outcome.problems.append("a search during the fault took much longer than its deadline")
        if {item["id"] for item in answer["results"]} != expected:
            outcome.problems.append("a search during the fault does not find what the ledger has, or more")

    def _wait_for_a_whole_search(self, memory: Memory) -> None:
        """A part that was down is left alone for some seconds; then it is asked again."""
        deadline = time.monotonic() + 240
        while "missing" in _found(memory):
            if time.monotonic() > deadline:
                self.outcome.problems.append("searches go on without the index although it is back")
                return
            time.sleep(0.25)

    def _fields(self) -> dict[str, Any]:
        return {name.removeprefix("MEMLINE_").lower(): value for name, value in self.variables.items() if "TEST" not in name}

    def _direct(self) -> dict[str, Any]:
        """Settings that go past the proxies, with time enough."""
        named = {name.removeprefix("MEMLINE_").lower(): value for name, value in self.remote.server.reached.settings().items()}
        return self._fields() | named | {"weaviate_timeout": 30.0, "search_deadline": 30.0}


def _of_the_victim(memory: Memory) -> dict[str, Any]:
    return memory.get_all(filters={"user_id": "victim"}, top_k=100)


def _found(memory: Memory) -> dict[str, Any]:
    return memory.search("which chair was bought?", filters={"user_id": "victim"}, threshold=0)
