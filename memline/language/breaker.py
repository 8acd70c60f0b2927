"""A breaker a server: after some outages in a row nobody calls it for a while, then one tries.

An outage is a connection that fails, an answer that does not come in time, a 5xx. A 429 is none: the server is there, and asks to wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from memline.contracts import metrics
from memline.language.lazy import ForkLock

__all__ = ["Breaker", "BreakerTimes"]


@dataclass(frozen=True, slots=True)
class BreakerTimes:
    """Seconds, and a count."""

    #: Outages in a row that open it.
    failures: int = 5
    #: How long it stays open first; twice as long after each probe that fails, at most `longest`.
    first: float = 5.0
    longest: float = 60.0
    #: A probe that says nothing for so long is taken for lost, and another one is let through.
    probe: float = 60.0


@dataclass(slots=True)
class _State:
    failures: int = 0
    #: 0: closed. Else how long it is open now, and until when.
    seconds: float = 0.0
    until: float = 0.0
    probed_at: float | None = None
    #: The thread that tries.
    probed_by: int = 0


class Breaker:
    """Of the servers that this process calls. Thread-safe. *clock* gives seconds that only grow."""

    def __init__(self, times: BreakerTimes | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._times, self._clock = times or BreakerTimes(), clock
        self._lock = ForkLock()
        self._states: dict[str, _State] = {}

    @property
    def failures(self) -> int:
        """Outages in a row that open it."""
        return self._times.failures

    def enter(self, server: str) -> float:
        """0: the call may be made, by a half-open breaker as the one that tries. Else the seconds that it stays open."""
        with self._lock:
            state = self._states.setdefault(server, _State())
            now = self._clock()
            if not state.seconds:
                return 0.0
            if now < state.until:
                return state.until - now
            if state.probed_at is not None and now < state.probed_at + self._times.probe:
                return min(self._times.first, state.probed_at + self._times.probe - now)
            state.probed_at, state.probed_by = now, threading.get_ident()
            return 0.0

    def is_open(self, server: str) -> bool:
        """Whether it has not closed again since it opened."""
        with self._lock:
            return bool(self._states.setdefault(server, _State()).seconds)

    def answered(self, server: str) -> None:
        """The server answered, whatever it said."""
        with self._lock:
            state = self._states.setdefault(server, _State())
            was_open, state.failures, state.seconds, state.probed_at = bool(state.seconds), 0, 0.0, None
        if was_open:
            metrics.BREAKER_OPEN.set(0, server=server)

    def failed(self, server: str) -> None:
        """A call met an outage."""
        with self._lock:
            state = self._states.setdefault(server, _State())
            now = self._clock()
            state.failures += 1
            if state.seconds and now < state.until:
                return  # begun before it opened
            if state.seconds:
                state.seconds = min(self._times.longest, 2 * state.seconds)
            elif state.failures >= self._times.failures:
                state.seconds = self._times.first
            else:
                return
            state.until, state.probed_at = now + state.seconds, None
        metrics.BREAKER_OPEN.set(1, server=server)

    def left(self, server: str) -> None:
        """A call that this thread was let through for was not made after all: where it was the one that tries, another one may."""
        with self._lock:
            state = self._states.setdefault(server, _State())
            if state.probed_by == threading.get_ident():
                state.probed_at = None
