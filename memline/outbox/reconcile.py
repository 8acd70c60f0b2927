"""Repairs an index: what differs from the committed set is written to the outbox again, and the relay does the rest (G8)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from memline.contracts.clock import Clock
from memline.contracts.index_object import Kind
from memline.ledger.memories import should_be_indexed, versions_of
from memline.ledger.outbox import enqueue
from memline.ledger.reconciling import next_stop, save_stop
from memline.ledger.session import Ledger
from memline.outbox.compare import PAGE, Difference, Drift, compare, namespaces_of
from memline.search.index.port import Index

__all__ = ["Pass", "Reconciler", "refill"]

KINDS: tuple[Kind, ...] = ("memory", "entity")


@dataclass
class Pass:
    """What a pass, or a part of one, found and repaired."""

    compared_namespaces: int = 0
    drift: Counter[str] = field(default_factory=Counter)
    #: It came to the end; otherwise the next one goes on where it stopped.
    complete: bool = False

    @property
    def repaired(self) -> int:
        return sum(number for drift, number in self.drift.items() if drift != Drift.LAG)


class Reconciler:
    """Compares namespace by namespace, in order, within a budget of seconds, and goes on where it stopped."""

    def __init__(self, ledger: Ledger, index: Index, clock: Clock, *, timer: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._index = index
        self._clock = clock
        self._timer = timer

    def run(self, *, budget: float | None = None, deep: bool = False, namespaces: Sequence[str] | None = None) -> Pass:
        """One pass over every namespace (or *namespaces*). *budget*: seconds after which it stops, to go on at the next call.

        Raises ServiceUnavailable where a side does not answer; what was found until then is repaired.
        """
        done = Pass()
        deadline = None if budget is None else self._timer() + budget
        resumable = namespaces is None and budget is not None
        at, after = self._stop() if resumable else ("", "")
        for kind_and_namespace in self._places(namespaces):
            if kind_and_namespace < at:
                continue
            start = after if kind_and_namespace == at else ""
            kind_name, _, namespace = kind_and_namespace.partition(":")
            kind: Kind = "memory" if kind_name == "memory" else "entity"
            stopped = self._one(done, kind, namespace, start, deep=deep, deadline=deadline)
            if stopped is not None:
                if resumable:
                    self._save(kind_and_namespace, stopped)
                return done
            done.compared_namespaces += 1
        if resumable:
            self._save("", "")
        done.complete = True
        return done

    def _places(self, namespaces: Sequence[str] | None) -> list[str]:
        names = namespaces_of(self._ledger, self._index) if namespaces is None else namespaces
        return sorted(f"{kind}:{name}" for kind in KINDS for name in names)

    def _one(self, done: Pass, kind: Kind, namespace: str, after: str, *, deep: bool, deadline: float | None) -> str | None:
        """Compares one kind of one namespace; the id it stopped at where the budget ended."""
        found: list[Difference] = []
        for step in compare(self._ledger, self._index, kind, namespace, after=after, deep=deep):
            if isinstance(step, Difference):
                found.append(step)
                continue
            self._repair(done, kind, namespace, found)
            found = []
            if deadline is not None and self._timer() >= deadline:
                return step
        self._repair(done, kind, namespace, found)
        return None

    def _repair(self, done: Pass, kind: Kind, namespace: str, found: Sequence[Difference]) -> None:
        done.drift.update(difference.drift.value for difference in found)
        broken = {difference.key.id: (namespace, difference.version) for difference in found if difference.drift is not Drift.LAG}
        if broken:
            with self._ledger.write() as tx:
                enqueue(tx, kind, broken, now=self._clock.now())

    def _stop(self) -> tuple[str, str]:
        with self._ledger.read() as connection:
            return next_stop(connection)

    def _save(self, place: str, after: str) -> None:
        with self._ledger.write() as tx:
            save_stop(tx, place, after)


def refill(ledger: Ledger, clock: Clock, namespaces: Sequence[str]) -> int:
    """Writes every object of *namespaces* to the outbox: an empty index is filled from the ledger's own vectors, nothing is embedded."""
    total = 0
    for namespace in namespaces:
        for kind in KINDS:
            after = ""
            while True:
                with ledger.write() as tx:
                    ids = should_be_indexed(tx, kind, namespace, after=after, limit=PAGE)
                    versions = versions_of(tx, kind, ids)
                    enqueue(tx, kind, {object_id: (namespace, version) for object_id, version in versions.items()}, now=clock.now())
                total += len(ids)
                if len(ids) < PAGE:
                    break
                after = ids[-1]
    return total
