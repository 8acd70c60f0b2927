"""How many calls and tokens a minute a server is asked for: reservations, in one process (`LocalLimiter`) or shared (`limits_redis`).

The rule is GCRA, the leaky bucket as one time (ITU-T I.371, appendix): each call moves the time at which the bucket is empty on by what it
costs, and waits until that time is not further ahead than a tolerance. So a burst of a tenth of a minute's calls goes at once, the rest is
spread at nine tenths of the limit, and no minute has more than the limit (and the one call that exceeded its tokens).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from memline.language.lazy import ForkLock

__all__ = ["DEBT", "Granted", "Limiter", "LocalLimiter", "Rates"]

#: Of a limit a minute: what may go at once, and what is spread over the minute.
BURST, SPREAD = 0.1, 0.9
#: Seconds that calls which wait for nobody put off the others at most: a server counts one minute, however many they were.
DEBT = 60.0 + 60.0 * BURST / SPREAD


@dataclass(frozen=True, slots=True)
class Rates:
    """Most requests and tokens a minute; None: no limit of ours."""

    requests: float | None = None
    tokens: float | None = None

    def of(self, share: float) -> Rates:
        """A share of both."""
        return Rates(*(None if limit is None else limit * share for limit in (self.requests, self.tokens)))

    @staticmethod
    def interval(limit: float | None) -> float:
        """Seconds that one request, or token, takes from the minute; 0 without a limit."""
        return 0.0 if limit is None else 60.0 / (limit * SPREAD)

    @staticmethod
    def tolerance(limit: float | None) -> float:
        """Seconds that the bucket may be ahead of the time."""
        return 0.0 if limit is None else 60.0 * BURST / SPREAD


@dataclass(frozen=True, slots=True)
class Granted:
    """`wait`: seconds until the call may be made; it is reserved where it is not more than was asked for, else `reserved` is False."""

    wait: float
    reserved: bool


class Limiter(Protocol):
    """Reserves calls. *server* is a key: host and model. Thread-safe; raises nothing of its own."""

    def reserve(self, server: str, rates: Rates, tokens: int, *, patience: float, first: bool = False) -> Granted:
        """A call of about *tokens*, in at most *patience* seconds. *first*: it is counted, up to `DEBT`, and waits only for `hold`."""
        ...

    def correct(self, server: str, rates: Rates, tokens: int) -> None:
        """A call used so many tokens more (or less) than it reserved."""
        ...

    def hold(self, server: str, seconds: float) -> None:
        """The server asks to wait: nobody calls it for so long."""
        ...


@dataclass(slots=True)
class _Bucket:
    requests: float = 0.0
    tokens: float = 0.0
    held: float = 0.0


class LocalLimiter:
    """For the threads of one process. *clock* gives seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = ForkLock()
        self._buckets: dict[str, _Bucket] = {}

    def reserve(self, server: str, rates: Rates, tokens: int, *, patience: float, first: bool = False) -> Granted:
        with self._lock:
            now, bucket = self._clock(), self._buckets.setdefault(server, _Bucket())
            requests, used = max(bucket.requests, now), max(bucket.tokens, now)
            wait = max(0.0, bucket.held - now)
            if not first:
                wait = max(wait, requests - now - rates.tolerance(rates.requests), used - now - rates.tolerance(rates.tokens))
            if wait > patience:
                return Granted(wait, reserved=False)
            bucket.requests = requests + rates.interval(rates.requests)
            bucket.tokens = used + tokens * rates.interval(rates.tokens)
            if first:
                bucket.requests = max(requests, min(bucket.requests, now + DEBT))
                bucket.tokens = max(used, min(bucket.tokens, now + DEBT))
            return Granted(wait, reserved=True)

    def correct(self, server: str, rates: Rates, tokens: int) -> None:
        with self._lock:
            bucket = self._buckets.setdefault(server, _Bucket())
            bucket.tokens = max(bucket.tokens, self._clock()) + tokens * rates.interval(rates.tokens)

    def hold(self, server: str, seconds: float) -> None:
        with self._lock:
            bucket = self._buckets.setdefault(server, _Bucket())
            bucket.held = max(bucket.held, self._clock() + seconds)
