"""How a `Memory` ends: closed once, drained at exit, renewed in a forked child."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from memline.contracts.errors import MemlineError

if TYPE_CHECKING:
    from memline.compose import House

__all__ = ["Lifetime", "at_last"]


class Lifetime:
    """Of a house that must be closed once: by whichever of its handles, or at exit."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.closed = False
        _open_houses.add(self)

    def close(self) -> None:
        """Closes the house, at the first call."""
        if not self.closed:
            self.closed = True
            _open_houses.discard(self)
            self.house.close(self.house.settings.exit_drain)


#: What is called at exit when all houses are closed.
_last: list[Callable[[], None]] = []

#: Held until they are closed: a Memory that nobody holds any more may still have turns to finish at exit.
_open_houses: set[Lifetime] = set()


@atexit.register
def _close_all() -> None:
    for opened in list(_open_houses):
        try:
            opened.close()
        except MemlineError as error:
            # The interpreter is ending: what was accepted is safe, and this is the last chance to say what did not close.
            sys.stderr.write(f"memline: closing failed: {error}\n")
    for call in _last:
        call()


def at_last(call: Callable[[], None]) -> None:
    """Has *call*, which raises nothing, called at exit after the last house is closed: it hears of what they did on their way."""
    _last.append(call)


def _after_fork() -> None:
    for opened in list(_open_houses):
        opened.house.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
