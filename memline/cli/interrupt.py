"""Ctrl-C at points that a command chooses, and not in the middle of whatever it is doing.

Python raises KeyboardInterrupt wherever the main thread is; inside a callback of the garbage collector it is written to stderr and lost,
and the command goes on as if nobody had pressed a key.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["Interrupt", "interruptible"]

#: Seconds between two looks while a command waits.
_LOOK = 0.1

_Line = TypeVar("_Line")


class Interrupt:
    """Whether Ctrl-C was pressed; `check` and `wait` raise KeyboardInterrupt then."""

    def __init__(self) -> None:
        self.asked = False
        #: Whether Ctrl-C acts at once, as it does without this.
        self.at_once = False

    def check(self) -> None:
        if self.asked:
            raise KeyboardInterrupt

    def wait(self, seconds: float) -> None:
        """Waits so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, _LOOK))
        self.check()

    def reading(self, lines: Iterable[_Line]) -> Iterator[_Line]:
        """The same lines; Ctrl-C ends the wait for one at once, since a pipe or a terminal may be silent for ever."""
        taken = iter(lines)
        while True:
            self.at_once = True
            try:
                self.check()
                line = next(taken)
            except StopIteration:
                return
            finally:
                self.at_once = False
            yield line


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Inside, the first Ctrl-C is an `Interrupt`; a second one acts as it did before, at once. Whoever ignores Ctrl-C goes on to do so."""
    found = Interrupt()
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, None) or threading.current_thread() is not threading.main_thread():
        yield found
        return

    def heard(_number: int, _frame: object) -> None:
        found.asked = True
        signal.signal(signal.SIGINT, before)
        if found.at_once:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, heard)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)
