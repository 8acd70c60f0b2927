"""What the loops of this process say of themselves, and the beat that carries it to the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from memline.contracts.clock import Clock
from memline.contracts.errors import MemlineError
from memline.ledger.heartbeats import FAILING, MISSED, Beat, Process, beat, forget_old, leave
from memline.ledger.session import Ledger

__all__ = ["BEAT_EVERY", "LONG_ROUND", "LOOK_EVERY", "PATIENCE", "Pulse"]

#: Seconds between two beats.
BEAT_EVERY = 10.0

#: Seconds between two looks whether a beat is due.
LOOK_EVERY = 1.0

#: Seconds that a round may take, beside a loop's own rest: longer than any call's deadline.
PATIENCE = 90.0

#: The same of a loop that works through a budget, and whose last page may wait for a slow index.
LONG_ROUND = 600.0

#: Beats between two looks for processes that are long gone.
_FORGET_EACH = 30


@dataclass(slots=True)
class _Said:
    """What one loop said last."""

    within: timedelta
    round_by: datetime | None
    round_at: datetime | None = None
    good_at: datetime | None = None
    failures: int = 0
    reason: str | None = None


class Pulse:
    """Keeps what loops say, in memory, and writes it about every *every* seconds: one statement for all of them. Thread-safe."""

    def __init__(self, ledger: Ledger, clock: Clock, process: Process, *, every: float = BEAT_EVERY) -> None:
        self.every = every
        self.process = process
        self._ledger = ledger
        self._clock = clock
        self._said: dict[str, _Said] = {}
        self._lock = threading.Lock()
        self._beats = 0
        self._changed = False
        self._next = process.started_at + timedelta(seconds=every)
        self._looked: datetime | None = None

    def expect(self, loop: str, *, rest: float = 0.0, patience: float = PATIENCE) -> Callable[[BaseException | None], None]:
        """Adds a loop that rests at most *rest* seconds between two rounds; returns what it calls at the end of each, with its error."""
        within = timedelta(seconds=rest + patience)
        with self._lock:
            self._said[loop] = _Said(within, self._clock.now() + within)
        return lambda error: self.ended(loop, error)

    def ended(self, loop: str, error: BaseException | None = None) -> None:
        """A round of *loop* ended, well or with *error*."""
        now = self._clock.now()
        with self._lock:
            said = self._said[loop]
            self._changed |= said.good_at is None or (error is None) != (said.failures == 0) or said.failures + 1 == FAILING
            said.round_at, said.round_by = now, now + said.within
            if error is None:
                said.good_at, said.failures, said.reason = now, 0, None
            else:
                said.failures += 1
                # errors of memline are free of content by contract; of others the class is told
                said.reason = str(error) if isinstance(error, MemlineError) else type(error).__name__

    def waits(self, loop: str, reason: str) -> None:
        """*loop* can't work until something outside is there again; that is no hanging."""
        with self._lock:
            said = self._said[loop]
            self._changed |= said.round_by is not None
            said.round_by = None
            said.failures += 1
            said.reason = reason

    def run_once(self) -> int:
        """For a loop that looks every second: beats when it is time, at the first look, and when a loop began to fail or to work."""
        self._follow_clock()
        if self._changed or not self._beats or self._is_due():
            self.beat()
        return 0

    def _follow_clock(self) -> None:
        """Between two looks lies about a second. Where the clock says otherwise it was set, or all of the process stood still: no loop
        had more time by that, so that none is taken to hang.
        """
        now, before = self._clock.now(), self._looked
        self._looked = now
        if before is None or timedelta() <= now - before <= timedelta(seconds=self.every * MISSED):
            return
        with self._lock:
            for said in self._said.values():
                if said.round_by is not None:
                    said.round_by += now - before
            self._changed = True

    def _is_due(self) -> bool:
        """Also where the clock was set back to long before the next beat."""
        return not timedelta() < self._next - self._clock.now() <= timedelta(seconds=self.every)

    def beat(self) -> None:
        """Writes what was said."""
        now = self._clock.now()
        self._next = now + timedelta(seconds=self.every)  # also where it can't be written: who calls has other work
        beats = self._now(now)
        with self._ledger.write() as tx:
            beat(tx, beats)
            if self._beats % _FORGET_EACH == 0:
                forget_old(tx, now=now)
        self._beats += 1

    def beat_when_due(self) -> None:
        """The same, at most once in *every* seconds, first after so long: for who has no thread for it and may live but a moment."""
        if self._is_due():
            self.beat()

    def leave(self) -> None:
        """The process ends as it was asked to: nobody has to wonder where it is."""
        if self._beats:
            with self._ledger.write() as tx:
                leave(tx, self.process.name)

    def _now(self, now: datetime) -> list[Beat]:
        beat_by = now + timedelta(seconds=self.every * MISSED)
        with self._lock:
            self._changed = False
            return [
                Beat(self.process, loop, now, beat_by, said.round_at, said.round_by, said.good_at, said.failures, said.reason)
                for loop, said in self._said.items()
            ]
