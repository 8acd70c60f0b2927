"""How a process ends in time: what it holds is finished or handed back to the ledger within a limit, whatever hangs."""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from memline.contracts.errors import MemlineError

__all__ = ["Stop"]

_log = logging.getLogger("memline.worker")

#: Of the limit, at most so many seconds (and at most a fifth) are kept for handing back what was not finished.
_RESERVE = 2.0

#: Seconds that a second signal leaves for handing back: it asks for the end at once, and without it the jobs wait for the lease.
_AT_ONCE = 1.0

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Leave(Protocol):
    """Ends the process here and now, with an exit code."""

    def __call__(self, code: int, /) -> object: ...


class Stop:
    """One process's way to its end: asked by a signal, over within *within* seconds.

    *begin* is called once, at the first signal, from a thread: what begins work should begin no more. What is under way then has until
    shortly before the limit; if the process is still there by then, *hand_back* gives its batches to others, and *leave* ends it with
    exit code 0. A second signal hands back and ends at once, with 128 + its number.
    """

    def __init__(self, within: float, *, begin: Callable[[], None], hand_back: Callable[[], int], leave: Leave = os._exit) -> None:
        self.within = within
        self.asked = False
        self._begin = begin
        self._hand_back = hand_back
        self._leave = leave
        # a handler may put into this queue whatever the thread that it interrupted holds; an Event or a Lock could deadlock there
        self._told: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._begun = threading.Event()
        self._on_signal: Callable[[], None] = lambda: None
        self._guard = threading.Thread(target=self._watch, name="memline-stop", daemon=True)

    def listen(self, on_signal: Callable[[], None] = lambda: None) -> None:
        """From now on SIGTERM, SIGINT and SIGHUP end this process; *on_signal* runs in the handler itself. Main thread only."""
        self._on_signal = on_signal
        self._guard.start()
        for number in _SIGNALS:
            # nohup's: who wants to outlive the terminal does
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._heard)

    def wait(self) -> None:
        """Returns when the first signal has come."""
        self._begun.wait()

    def now(self, number: int = signal.SIGTERM) -> None:
        """As if the signal *number* had come."""
        self.asked = True
        self._told.put(number)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        self.now(number)
        self._on_signal()

    def _watch(self) -> None:
        first = self._told.get()
        limit = time.monotonic() + self.within - min(_RESERVE, self.within / 5)
        self._begun.set()
        _log.info("stop: %s; what is under way has %g s", signal.Signals(first).name, self.within)
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001
            _log.error("stop: %s", error if isinstance(error, MemlineError) else type(error).__name__)  # the guard must stand
        try:
            again = self._told.get(timeout=max(0.0, limit - time.monotonic()))
        except queue.Empty:
            _log.warning("stop: this process is not done in time; what it still holds is handed back")
            self._out(min(_RESERVE, self.within / 5), 0)
        else:
            self._out(_AT_ONCE, 128 + again)

    def _out(self, seconds: float, code: int) -> None:
        """Hands back, for at most *seconds* in all: a ledger that does not answer holds up nobody; then the lease runs out."""
        worker = threading.Thread(target=self._give, name="memline-hand-back", daemon=True)
        worker.start()
        worker.join(seconds * 0.9)
        if worker.is_alive():
            _log.error("stop: the ledger does not answer; what this process holds goes on when its lease runs out")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._leave(code)

    def _give(self) -> None:
        try:
            if number := self._hand_back():
                _log.warning("stop: %d batches were handed back", number)
        except Exception as error:  # noqa: BLE001
            _log.error("stop: %s", error if isinstance(error, MemlineError) else type(error).__name__)
