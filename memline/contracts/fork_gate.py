"""A fork waits for what other threads are in the middle of, and can't be in the middle of in a child."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ForkGate"]

_log = logging.getLogger(__name__)


class ForkGate:
    """Lets threads pass, except while the process forks, and a fork while no other thread is inside.

    Who is inside may enter again, and may fork; who forks may enter, as its signal handlers do. A fork can't be refused: after *patience*
    seconds it goes on, and says so; *what* names what is inside. One a process and kind, made at import: it hears of forks for as long as
    the process lives.
    """

    def __init__(self, what: str, patience: float) -> None:
        self._what = what
        self._patience = patience
        self._state = threading.Condition()
        #: How deep inside a thread is, by its ident.
        self._inside: dict[int, int] = {}
        #: Threads whose fork waits or is happening.
        self._forking: set[int] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before, after_in_parent=self._after_in_parent, after_in_child=self._after_in_child)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Around something that ends by itself; no thread inside may wait for one that is about to enter."""
        thread = threading.get_ident()
        with self._state:
            if thread not in self._inside:
                self._state.wait_for(lambda: not self._forking - {thread})
            self._inside[thread] = self._inside.get(thread, 0) + 1
        try:
            yield
        finally:
            with self._state:
                self._inside[thread] -= 1
                if not self._inside[thread]:
                    del self._inside[thread]
                    self._state.notify_all()

    def _before(self) -> None:
        thread = threading.get_ident()
        with self._state:
            self._forking.add(thread)
            if not self._state.wait_for(lambda: not self._inside.keys() - {thread}, timeout=self._patience):
                _log.warning("fork: %s did not end in %g s: the child may not be able to use it", self._what, self._patience)

    def _after_in_parent(self) -> None:
        with self._state:
            self._forking.discard(threading.get_ident())
            self._state.notify_all()

    def _after_in_child(self) -> None:
        thread = threading.get_ident()
        self._state = threading.Condition()
        self._inside = {thread: self._inside[thread]} if thread in self._inside else {}
        self._forking = set()
