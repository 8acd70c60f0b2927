"""Threads that call something again and again, and survive what it raises: visibly, and with growing pauses."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from memline.contracts import incidents, metrics
from memline.contracts.about import about, line_of, told
from memline.contracts.errors import MemlineError

__all__ = ["Loop"]

_log = logging.getLogger("memline.loop")

#: Seconds between two tries while a part is down: from the first to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Loop:
    """Calls *work* until it is stopped. `work` returns how much it did; after nothing to do the loop rests *idle* seconds.

    *ended* is called at the end of each round, with what it raised; it raises nothing itself.
    """

    def __init__(
        self, name: str, work: Callable[[], int], *, idle: float, ended: Callable[[BaseException | None], None] | None = None
    ) -> None:
        self.name = name
        self.failures = 0
        self._work = work
        self.idle = idle
        self.ended = ended
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"memline-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the loop to end after its present round."""
        self._stop.set()

    def join(self, timeout: float) -> bool:
        """Waits for the end, of one that was started; False when it did not come in *timeout* seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        _log.info("loop started", extra=told(loop=self.name))
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                with about(loop=self.name):
                    done = self._work()
                pause = _FIRST_PAUSE
                incidents.round_ended(self.name, every=self.idle, seconds=time.monotonic() - began)
                if self.ended is not None:
                    self.ended(None)
                if not done:
                    self._stop.wait(self.idle)
            except Exception as error:  # noqa: BLE001
                # A loop must outlive what it meets. MemlineErrors are free of content by contract; of others the class is told.
                self.failures += 1
                metrics.LOOP_FAILURES.add(1, loop=self.name)
                incidents.round_ended(self.name, every=self.idle, seconds=time.monotonic() - began, error=error)
                incidents.broke(f"loop {self.name}", error)
                if self.ended is not None:
                    self.ended(error)
                reason = error if isinstance(error, MemlineError) else type(error).__name__
                _log.error("%s: %s", self.name, reason, extra=told(loop=self.name, at=line_of(error)))
                self._stop.wait(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)
        _log.info("loop ended", extra=told(loop=self.name))
