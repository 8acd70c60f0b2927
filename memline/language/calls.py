"""How a server is called: behind a breaker, within limits, tried again with jitter inside a budget of time.

What does not succeed within it is raised, with the seconds after which another try makes sense; the job then goes back to the ledger.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memline.contracts import metrics
from memline.contracts.errors import ProviderError, ProviderRefused, ProviderUnavailable
from memline.language.breaker import Breaker
from memline.language.limits import Limiter, LocalLimiter, Rates
from memline.language.usage import Use, tell

__all__ = ["CallTimes", "Calls", "Link"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Seconds, and a count."""

    #: A call with all its tries. Shorter than the lease, so that a call never outlives it.
    budget: float = 45.0
    tries: int = 4
    #: The wait before the second try is at most this, and at most twice as long before each further one (full jitter).
    first_delay: float = 0.5
    longest_delay: float = 8.0
    #: A longer wait, for a limit or for what a server asks for, is left to the ledger.
    patience: float = 10.0
    #: The share of the budget that must be left for a try to begin: one that can't be answered in time is paid for nothing.
    least: float = 0.1
    #: Counted by the limits, and not held back by them: somebody waits for the answer.
    first: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """What the calls of one process share. *uniform* gives numbers from 0 to 1, *clock* seconds that only grow."""

    limiter: Limiter = field(default_factory=LocalLimiter)
    breaker: Breaker = field(default_factory=Breaker)
    uniform: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Link:
    """The way to one model at one server for one kind of call (`metrics.CALL_KINDS`)."""

    server: str
    model: str
    call: str = "extract"
    rates: Rates = field(default_factory=Rates)
    times: CallTimes = field(default_factory=lambda: CallTimes(tries=1))
    calls: Calls = field(default_factory=Calls)

    @property
    def key(self) -> str:
        """What breaker and limits are kept by."""
        return f"{self.server}/{self.model}"

    def deadline(self) -> float:
        """By `Calls.clock`, when a call that begins now must have ended."""
        return self.calls.clock() + self.times.budget

    def make(self, once: Callable[[float], T], *, tokens: int, deadline: float) -> tuple[T, int]:
        """What `once(seconds it may take)` returns, and how many tries before it lost an answer that may have been paid.

        *tokens* is an estimate; `used` corrects it. Where it raises, what was repeated among its own tries is told (`usage.tell`). Raises
        ProviderRefused at once, ProviderUnavailable when time or tries are used up,
        when the breaker is open, or when a limit asks for more patience.
        """
        lost = 0
        for number in range(1, self.times.tries + 1):
            self._enter(tokens, deadline, lost)
            left = deadline - self.calls.clock()
            try:
                answer = once(max(0.05, left))
            except ProviderUnavailable as error:
                lost += error.answer_lost
                pause = self._after(error, number)
                late = pause > self.times.patience or self.calls.clock() + pause >= self._last_start(deadline)
                if number == self.times.tries or late or self._is_open(error):
                    raise self._given_up(error, lost) from None
                self.calls.sleep(pause)
            except ProviderError as error:
                self._answered("refused" if isinstance(error, ProviderRefused) else "unreadable")
                self._repeated(lost)
                raise
            except BaseException:
                self.calls.breaker.left(self.key)
                raise
            else:
                self._answered("ok")
                return answer, lost
        raise AssertionError("unreachable: the last try returns or raises")

    def used(self, reserved: int, tokens: int) -> None:
        """A call that reserved so many tokens used so many."""
        if self.rates.tokens is not None and reserved != tokens:
            self.calls.limiter.correct(self.key, self.rates, tokens - reserved)

    def _last_start(self, deadline: float) -> float:
        return deadline - self.times.least * self.times.budget

    def _repeated(self, calls: int) -> None:
        """So many answers were lost whose calls were made again."""
        if calls > 0:
            tell(Use(self.model, 0, repeated=calls))

    def _enter(self, tokens: int, deadline: float, lost: int) -> None:
        if (closed_for := self.calls.breaker.enter(self.key)) > 0:
            self._count("open")
            self._repeated(lost - 1)
            raise ProviderUnavailable(
                f"The model {self.model} at {self.server} was away {self.calls.breaker.failures} times in a row: "
                f"it is left alone for {closed_for:.0f} s.",
                retry_after=self._spread(closed_for),
                cause="held",
                answer_lost=lost > 0,
            )
        patience = max(0.0, min(self.times.patience, self._last_start(deadline) - self.calls.clock()))
        granted = self.calls.limiter.reserve(self.key, self.rates, tokens, patience=patience, first=self.times.first)
        if not granted.reserved:
            self.calls.breaker.left(self.key)
            self._count("budget")
            self._repeated(lost - 1)
            raise ProviderUnavailable(
                f"The limit of calls of the model {self.model} at {self.server} is used up for {granted.wait:.0f} s.",
                retry_after=self._spread(granted.wait),
                cause="held",
                answer_lost=lost > 0,
            )
        if granted.wait > 0:
            self.calls.sleep(granted.wait)

    def _after(self, error: ProviderUnavailable, number: int) -> float:
        """Tells breaker and limits of a failed try; the seconds to wait before the next one."""
        self._count("unreadable" if error.cause == "answer" else "unavailable")
        longest = min(self.times.longest_delay, self.times.first_delay * 2.0 ** (number - 1))
        pause = longest * self.calls.uniform()
        if error.cause == "outage":
            self.calls.breaker.failed(self.key)
            return max(pause, error.retry_after or 0.0)
        self.calls.breaker.answered(self.key)
        if error.cause == "limit":
            # everybody waits, this call too: for its reservation
            self.calls.limiter.hold(self.key, error.retry_after or longest)
        return pause

    def _is_open(self, error: ProviderUnavailable) -> bool:
        return error.cause == "outage" and self.calls.breaker.is_open(self.key)

    def _given_up(self, error: ProviderUnavailable, lost: int) -> ProviderUnavailable:
        self._repeated(lost - 1)  # the last one is repeated by whoever calls again
        after = None if error.retry_after is None else self._spread(error.retry_after)
        return ProviderUnavailable(str(error), retry_after=after, cause=error.cause, answer_lost=lost > 0)

    def _spread(self, seconds: float) -> float:
        """A little later, each a little else: those that were held back together do not come together."""
        return seconds + self.calls.uniform() * min(max(seconds, 1.0), 10.0)

    def _answered(self, outcome: str) -> None:
        self.calls.breaker.answered(self.key)
        self._count(outcome)

    def _count(self, outcome: str) -> None:
        metrics.CALLS.add(call=self.call, model=self.model, outcome=outcome)

    def for_call(self, call: str, times: CallTimes | None = None) -> Link:
        """The same way, for another kind of call."""
        return replace(self, call=call, times=times or self.times)
