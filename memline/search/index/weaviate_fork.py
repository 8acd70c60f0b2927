"""A fork waits for calls of gRPC to end: a child that is born while a thread of its parent is inside one can never use gRPC."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["GATE", "PATIENCE", "ForkGate"]

#: Seconds that a fork waits for calls that are on their way.
PATIENCE = 5.0


class ForkGate:
    """Lets calls pass, except while the process forks, and a fork while no call is under way."""

    def __init__(self) -> None:
        self._begin()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around a call of gRPC that ends by itself, as one with a deadline does."""
        with self._state:
            self._state.wait_for(lambda: not self._forking)
            self._calls += 1
        try:
            yield
        finally:
            with self._state:
                self._calls -= 1
                self._state.notify_all()

    def before(self) -> None:
        """Waits at most `PATIENCE` for the calls to end; a fork can't be refused."""
        with self._state:
            self._forking = True
            self._state.wait_for(lambda: self._calls == 0, timeout=PATIENCE)

    def after_in_parent(self) -> None:
        with self._state:
            self._forking = False
            self._state.notify_all()

    def _begin(self) -> None:
        self._state = threading.Condition()
        self._calls = 0
        self._forking = False

    after_in_child = _begin


#: The one of this process.
GATE = ForkGate()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=GATE.before, after_in_parent=GATE.after_in_parent, after_in_child=GATE.after_in_child)
