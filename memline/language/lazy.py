"""Something heavy, made when it is first needed: once a process, by one thread, and rightly after a fork."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["ForkLock", "Lazy"]

T = TypeVar("T")


class ForkLock:
    """A lock that a forked child finds open, whoever held it in the parent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.Lock()


class Lazy(Generic[T]):
    """The value of *make*, made at the first `get`; an exception is raised to the caller and the next `get` tries again.

    With *per_process* a forked child makes its own (connections must not be shared over a fork).
    """

    def __init__(self, make: Callable[[], T], *, per_process: bool = False) -> None:
        self._make = make
        self._per_process = per_process
        self._lock = ForkLock()
        #: The value and the process that made it, replaced as one so that a reader needs no lock.
        self._made: tuple[T, int] | None = None

    def get(self) -> T:
        made = self._made
        if made is not None and self._usable(made):
            return made[0]
        with self._lock:
            if self._made is None or not self._usable(self._made):
                self._made = (self._make(), os.getpid())
            return self._made[0]

    def drop(self) -> T | None:
        """Forgets the value and returns it if this process may still use it; the next `get` makes another."""
        with self._lock:
            made, self._made = self._made, None
        return made[0] if made is not None and self._usable(made) else None

    def _usable(self, made: tuple[T, int]) -> bool:
        return not self._per_process or made[1] == os.getpid()


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew_locks() -> None:
    for lock in list(_LOCKS):
        lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
