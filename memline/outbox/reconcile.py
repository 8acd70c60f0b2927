"""Repairs an index: what differs from the committed set is written to the outbox again, and the relay does the rest (G8)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memline.contracts import failpoints
from memline.contracts.clock import Clock
from memline.contracts.index_object import Kind
from memline.ledger.counters import count
from memline.ledger.memories import namespaces_with_lanes, should_be_indexed, versions_of
from memline.ledger.meta import check_own_embedder
from memline.ledger.outbox import enqueue
from memline.ledger.reconciling import mark_shown, next_stop, revive_parked, save_stop
from memline.ledger.session import Ledger
from memline.outbox.compare import KINDS, PAGE, Difference, Drift, compare, namespaces_of
from memline.search.index.port import Index, OfSpace

__all__ = ["Pass", "Reconciler", "refill"]


@dataclass(slots=True)
class Pass:
    """What a pass, or a part of one, found and repaired."""

    #: Namespaces (each of its two kinds of objects counts) that were compared to their end.
    compared: int = 0
    #: How often each `Drift` was found.
    drift: Counter[str] = field(default_factory=Counter)
    #: Outbox rows that had been set aside and are tried again.
    revived: int = 0
    #: It came to the end; otherwise the next one goes on where it stopped.
    complete: bool = False

    @property
    def repaired(self) -> int:
        """Objects that were written to the outbox again."""
        return sum(number for drift, number in self.drift.items() if drift != Drift.LAG)

    def to_json(self) -> dict[str, Any]:
        drift = {kind.value: self.drift[kind.value] for kind in Drift if kind is not Drift.LAG}
        return {"complete": self.complete, "drift": drift, "repaired": self.repaired, "revived": self.revived, "lag": self.drift[Drift.LAG]}


class Reconciler:
    """Compares namespace by namespace, in order, within a budget of seconds, and goes on where it stopped.

    Several at a time do no harm: what both find is one outbox row.
    """

    def __init__(self, ledger: Ledger, index: Index, clock: Clock, *, timer: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._index = index
        self._clock = clock
        self._timer = timer

    def run(
        self,
        *,
        budget: float | None = None,
        deep: bool = False,
        namespaces: Sequence[str] | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Pass:
        """One pass over every namespace (or *namespaces*); the relay has to show the index what it finds.

        *budget*: seconds after which it stops, at the next page, to go on at the next call. *stopped*: asked at each page, too.
        *deep*: vectors are compared, too.
        Raises ServiceUnavailable where a side does not answer; what was found until then is repaired. Raises EmbedderMismatch where the
        ledger moved to another embedder than the index is of.
        """
        done = Pass()
        if isinstance(self._index, OfSpace) and (space := self._index.space) is not None:
            with self._ledger.read() as connection:
                check_own_embedder(connection, space.model, space.dimension)
        deadline = None if budget is None else self._timer() + budget

        def over() -> bool:
            return stopped() or (deadline is not None and self._timer() >= deadline)

        resumable = namespaces is None and budget is not None
        at, after = self._stop() if resumable else ("", "")
        if not at:
            with self._ledger.write() as tx:
                done.revived = revive_parked(tx, now=self._clock.now())
        for place in self._places(namespaces):
            if place < at:
                continue
            kind_name, _, namespace = place.partition(":")
            kind: Kind = "memory" if kind_name == "memory" else "entity"
            if done.compared and over():
                stop: str | None = ""
            else:
                stop = self._one(done, kind, namespace, after if place == at else "", deep=deep, over=over)
            if stop is not None:
                if resumable:
                    self._save(place, stop)
                return done
            done.compared += 1
        done.complete = True
        if namespaces is None:
            with self._ledger.write() as tx:
                save_stop(tx, "", "")
                mark_shown(tx, now=self._clock.now())
        return done

    def _places(self, namespaces: Sequence[str] | None) -> list[str]:
        names = namespaces_of(self._ledger, self._index) if namespaces is None else namespaces
        return sorted(f"{kind}:{name}" for kind in KINDS for name in names)

    def _one(self, done: Pass, kind: Kind, namespace: str, after: str, *, deep: bool, over: Callable[[], bool]) -> str | None:
        """Compares one kind of one namespace; the id it stopped at where the budget ended."""
        found: list[Difference] = []
        for step in compare(self._ledger, self._index, kind, namespace, after=after, deep=deep):
            if isinstance(step, Difference):
                found.append(step)
                continue
            self._repair(done, kind, namespace, found)
            found = []
            if over():
                return step
        self._repair(done, kind, namespace, found)
        return None

    def _repair(self, done: Pass, kind: Kind, namespace: str, found: Sequence[Difference]) -> None:
        drift = Counter(difference.drift.value for difference in found)
        done.drift.update(drift)
        broken = [difference.key.id for difference in found if difference.drift is not Drift.LAG]
        if not broken:
            return
        with self._ledger.write() as tx:
            versions = versions_of(tx, kind, broken)
            enqueue(tx, kind, {object_id: (namespace, versions.get(object_id, 0)) for object_id in broken}, now=self._clock.now())
            for name, number in sorted(drift.items()):
                if name != Drift.LAG:
                    count(tx, f"drift_{name}", number)
            count(tx, "drift_repaired", len(broken))
            failpoints.hit("reconcile.before_repair")
        failpoints.hit("reconcile.after_repair")

    def _stop(self) -> tuple[str, str]:
        with self._ledger.read() as connection:
            return next_stop(connection)

    def _save(self, place: str, after: str) -> None:
        with self._ledger.write() as tx:
            save_stop(tx, place, after)


def refill(
    ledger: Ledger, clock: Clock, namespaces: Sequence[str] | None = None, *, told: Callable[[int], None] = lambda number: None
) -> int:
    """Writes every object of *namespaces* (None: of all) to the outbox: an empty index is filled from the ledger, nothing is embedded.

    Returns how many there are; *told* is called with how many it is at, page by page.
    """
    if namespaces is None:
        with ledger.read() as connection:
            namespaces = namespaces_with_lanes(connection)
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
                told(total)
                if len(ids) < PAGE:
                    break
                after = ids[-1]
    return total
