"""Threads that call something again and again, and survive what it raises: visibly, and with growing pauses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memline.contracts.errors import MemlineError

__all__ = ["Loop"]

_log = logging.getLogger("memline.loop")

#: Seconds between two tries while a part is down: from the first to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Loop:
    """Calls *work* until it is stopped. `work` returns how much it did; after nothing to do the loop rests *idle* seconds."""

    def __init__(self, name: str, work: Callable[[], int], *, idle: float) -> None:
        self.name = name
        self.failures = 0
        self._work = work
        self._idle = idle
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"memline-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the loop to end after its present round."""
        self._stop.set()

    def join(self, timeout: float) -> bool:
        """Waits for the end; False when it did not come in *timeout* seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            try:
                done = self._work()
                pause = _FIRST_PAUSE
                if not done:
                    self._stop.wait(self._idle)
            except Exception as error:  # noqa: BLE001
                # A loop must outlive what it meets. MemlineErrors are free of content by contract; of others the class is told.
                self.failures += 1
                _log.error("%s: %s", self.name, error if isinstance(error, MemlineError) else type(error).__name__)
                self._stop.wait(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)
