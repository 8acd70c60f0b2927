"""Every quarter of an hour, in one process at a time: the index is compared with the ledger, and what drifted is repaired."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from memline.contracts.clock import Clock
from memline.ledger.reconciling import end_turn, is_turn_due, take_turn
from memline.ledger.session import Ledger
from memline.outbox.reconcile import Reconciler

__all__ = ["LOOK_EVERY", "ReconcileTurns"]

_log = logging.getLogger("memline.reconcile")

#: Seconds between two looks whether a turn is due, and before the first: a process that lives shorter than that never begins a pass.
LOOK_EVERY = 5.0


class ReconcileTurns:
    """Takes turns with the other processes on a ledger: whoever sees first that a turn is due has it.

    *every* and *budget* are in seconds: a turn is due *every* seconds after the last one ended, and ends at the next page after
    *budget*; the one after it goes on there. *holder* names this process.
    """

    def __init__(self, reconciler: Reconciler, ledger: Ledger, clock: Clock, holder: str, *, every: float, budget: float) -> None:
        self.every = every
        self._reconciler = reconciler
        self._ledger = ledger
        self._clock = clock
        self._holder = holder
        self._budget = budget
        self._stopped = threading.Event()
        self._waited = False

    def stop(self) -> None:
        """A pass that is under way ends at its next page."""
        self._stopped.set()

    def run_once(self) -> int:
        """A turn, if one is due; none at the first call. Returns 0: what it found, the relay has to do."""
        if not self._waited or self._stopped.is_set():
            self._waited = True
            return 0
        with self._ledger.read() as connection:
            if not is_turn_due(connection, now=self._clock.now()):
                return 0
        with self._ledger.write() as tx:
            # longer than a turn takes, whose last page may wait for a slow index; two at a time would do no harm
            mine = take_turn(tx, self._holder, now=self._clock.now(), seconds=2 * self._budget + 60)
        if not mine:
            return 0
        try:
            done = self._reconciler.run(budget=self._budget, stopped=self._stopped.is_set)
        finally:
            with self._ledger.write() as tx:
                end_turn(tx, self._holder, next_at=self._clock.now() + timedelta(seconds=self.every))
        if done.repaired or done.revived:
            _log.warning("reconcile: %s", ", ".join(f"{number} {name}" for name, number in _told(done.to_json())))
        return 0


def _told(document: dict[str, object]) -> list[tuple[str, object]]:
    drift = document["drift"]
    assert isinstance(drift, dict)
    return [(name, number) for name, number in (*drift.items(), ("tried again", document["revived"])) if number]
