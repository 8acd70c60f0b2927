"""A part that may hang: waited for no longer than there is time, by no more threads than so many, and left alone after it failed.

While a part is away an outage costs one search a wait, not every search: the next ones go on without it at once, and after a rest one of
them, and only one, tries it again.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

from memline.contracts.errors import ServiceUnavailable
from memline.search.deadline import NoThread, call_within

__all__ = ["MOST_CALLS", "REST", "Guard"]

T = TypeVar("T")

#: Seconds that a part is left alone after a call that was not answered.
REST = 5.0
#: Calls of one part on their way at a time, those that hang among them: so many threads are lost to it at most.
MOST_CALLS = 32


class Guard:
    """Calls one part (*what*, as a message names it). Thread-safe; a forked child begins with none on their way.

    *rest* 0: it is never left alone, since nothing can take its place. *timer*: seconds, only ever growing. *hint*: what to do about it.
    """

    def __init__(
        self,
        what: str,
        *,
        rest: float = REST,
        most: int = MOST_CALLS,
        timer: Callable[[], float] = time.monotonic,
        hint: str = "",
    ) -> None:
        self.what, self._hint = what, f" {hint}" if hint else ""
        self._rest, self._most, self._timer = rest, most, timer
        #: Calls that were not answered in time, that failed so that the part was left alone, and that were not made because it was.
        self.late = self.failed = self.skipped = 0
        self._begin()
        _guards.add(self)

    def _begin(self) -> None:
        self._state = threading.Condition()
        self._on_their_way = 0
        self._away_until: float | None = None
        self._trying = False

    @property
    def on_their_way(self) -> int:
        """Calls that have not come back, waited for or not."""
        return self._on_their_way

    @property
    def away(self) -> bool:
        """The last call was not answered, and none was since."""
        return self._away_until is not None

    def call(self, function: Callable[[], T], seconds: float, *, rests_on: type[Exception] | tuple[type[Exception], ...] = ()) -> T:
        """*function*'s result within *seconds*.

        Raises ServiceUnavailable where it is late, where so many calls are on their way that none is left, and where the part is being
        left alone; otherwise what *function* raises. One of *rests_on*, like lateness, has the part left alone for a while.
        """
        trial = self._enter()
        try:
            waited = self._take_place(0.0 if trial else seconds)
            found = call_within(self._counted(function), seconds - waited)
        except NoThread:
            self._leave_place()
            self._away(late=True)
            raise ServiceUnavailable(f"{self.what} was not asked: this process can start no other thread.") from None
        except TimeoutError:
            self._away(late=True)
            raise ServiceUnavailable(f"{self.what} did not answer within {max(seconds, 0):.2g} s.{self._hint}") from None
        except rests_on:
            self._away(late=False)
            raise
        except Exception:
            self._away_until = None  # it answered, if only with a no
            raise
        finally:
            if trial:
                self._trying = False
        self._away_until = None
        return found

    def _enter(self) -> bool:
        """True for the one that tries a part again."""
        with self._state:
            if self._away_until is None:
                return False
            if self._trying or self._timer() < self._away_until:
                self.skipped += 1
                raise ServiceUnavailable(f"{self.what} did not answer a moment ago, and is asked again in at most {self._rest:g} s.")
            self._trying = True
            return True

    def _take_place(self, seconds: float) -> float:
        """Seconds that were waited for one; TimeoutError where none became free."""
        with self._state:
            waited = 0.0
            if self._on_their_way >= self._most:
                began = self._timer()
                if not self._state.wait_for(lambda: self._on_their_way < self._most, timeout=max(seconds, 0)):
                    raise TimeoutError
                waited = self._timer() - began
            self._on_their_way += 1
            return waited

    def _leave_place(self) -> None:
        with self._state:
            self._on_their_way -= 1
            self._state.notify()

    def _counted(self, function: Callable[[], T]) -> Callable[[], T]:
        def call() -> T:
            try:
                return function()
            finally:
                self._leave_place()

        return call

    def _away(self, *, late: bool) -> None:
        with self._state:
            if late:
                self.late += 1
            else:
                self.failed += 1
            if self._rest > 0:
                self._away_until = self._timer() + self._rest


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for guard in list(_guards):
        guard._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
