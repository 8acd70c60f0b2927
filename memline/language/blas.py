"""Small products on one BLAS thread: several threads wait for one another longer than they work, and burn what others could use.

OpenBLAS takes as many threads as the machine has cores, and those that wait spin. Measured on 2 busy cores: one question embedded in 11 ms
instead of 2.6, a product of 5,000 vectors and one in 10.6 ms instead of 0.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memline.language.lazy import ForkLock, Lazy

__all__ = ["one_blas_thread"]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within the block the process' BLAS uses one thread; after the last such block of all threads as many as before the first."""
    _GATE.enter()
    try:
        yield
    finally:
        _GATE.leave()


class _Gate:
    """Counts who is inside: each by itself would restore what it found, and one of two that overlap would find the other's limit."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._inside = 0
        self._before: list[int] = []
        self._libraries: Lazy[list[Any]] = Lazy(_libraries)

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                libraries = self._libraries.get()
                self._before = [library.num_threads for library in libraries]
                _set(libraries, [1] * len(libraries))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _set(self._libraries.get(), self._before)


def _libraries() -> list[Any]:
    import numpy  # noqa: F401 - the libraries that are loaded by now are looked at, once
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set(libraries: list[Any], numbers: list[int]) -> None:
    for library, number in zip(libraries, numbers, strict=True):
        library.set_num_threads(number)
        # the thread that sets a number keeps the others from it until it gives that up; whoever comes out last is to lift the limit
        if (give_up := getattr(library, "clear_controlling_thread", None)) is not None:
            give_up()


_GATE = _Gate()
