"""Faults at random, the same ones for the same seed; and a limit of requests and tokens a minute, with the headers that tell of it."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from memline.cli.simulator.steps import Step
from memline.contracts.errors import InvalidInput

__all__ = ["FAULTS", "Faults", "MinuteLimit"]

#: By name, what a fault does; of embeddings alone where it says so.
FAULTS: dict[str, Step] = {
    "500": Step(status=500),
    "503": Step(status=503, retry_after=1),
    "429": Step(status=429, retry_after=1),
    "drop": Step(drop=True),
    "cut": Step(cut=True),
    "hang": Step(hang=True),
    "garbage": Step(raw="{\x01 this is no answer"),
    "truncated": Step(reply='{"memory": [{"text": "User li', finish="length"),
    "prose": Step(reply="Sure! I have noted down everything that was said."),
    "dimension": Step(dimension=3),
    "count": Step(count=0),
    "nan": Step(numbers="nan"),
}

_OF_CHAT, _OF_EMBEDDINGS = ("truncated", "prose"), ("dimension", "count", "nan")


@dataclass(frozen=True, slots=True)
class Faults:
    """A share of calls (0 to 1) that fail, each with one of `kinds` (names of `FAULTS`)."""

    share: float = 0.0
    kinds: Sequence[str] = ("500", "429", "drop")
    seed: int = 1
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InvalidInput("The share of faults must be from 0 to 1.")
        if not self.kinds or (unknown := [kind for kind in self.kinds if kind not in FAULTS]):
            told = ", ".join(unknown) if self.kinds else "none"
            raise InvalidInput(f"Faults are {', '.join(FAULTS)}; not {told}.")
        object.__setattr__(self, "_random", random.Random(self.seed))  # noqa: S311

    def next(self, endpoint: str) -> Step | None:
        """The fault that meets the next call of *endpoint* (chat, embeddings); None: none."""
        kinds = [kind for kind in self.kinds if kind not in (_OF_EMBEDDINGS if endpoint == "chat" else _OF_CHAT)]
        if self._random.random() >= self.share or not kinds:
            return None
        return FAULTS[self._random.choice(kinds)]


class MinuteLimit:
    """At most so many requests and tokens in any sixty seconds. Thread-safe. *clock* gives seconds that only grow."""

    def __init__(self, requests: int | None = None, tokens: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = (requests, tokens)
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: deque[tuple[float, int]] = deque()
        #: Calls that were refused.
        self.refused = 0

    def enter(self, tokens: int) -> tuple[float, tuple[tuple[str, str], ...]]:
        """Seconds to wait (0: the call is taken), and the headers that say what is left, as OpenAI's server names them."""
        requests_limit, tokens_limit = self._limits
        with self._lock:
            now = self._clock()
            while self._calls and self._calls[0][0] <= now - 60:
                self._calls.popleft()
            used = sum(number for _, number in self._calls)
            over = (requests_limit is not None and len(self._calls) >= requests_limit) or (
                tokens_limit is not None and bool(self._calls) and used + tokens > tokens_limit
            )
            if over:
                self.refused += 1
            else:
                self._calls.append((now, tokens))
                used += tokens
            wait = self._calls[0][0] + 60 - now if over and self._calls else 0.0
            headers: list[tuple[str, str]] = []
            for name, limit, taken in (("requests", requests_limit, len(self._calls)), ("tokens", tokens_limit, used)):
                if limit is not None:
                    headers.append((f"x-ratelimit-limit-{name}", str(limit)))
                    headers.append((f"x-ratelimit-remaining-{name}", str(max(0, limit - taken))))
        return wait, tuple(headers)
