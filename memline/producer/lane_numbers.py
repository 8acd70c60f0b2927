"""The numbers of turns in their lanes, and the locks under which they are given out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["LaneNumbers", "Stripe"]


@dataclass(slots=True)
class Stripe:
    """Lanes that share a lock. Hold `lock` from `peek` until the turn is placed and `take` was called."""

    producer: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    last: dict[bytes, int] = field(default_factory=dict)

    def peek(self, lane: str) -> int:
        """The next number of *lane*, from 1; the same again until it is taken."""
        return self.last.get(bytes.fromhex(lane), 0) + 1

    def take(self, lane: str) -> None:
        """The next number of *lane* was used."""
        key = bytes.fromhex(lane)
        self.last[key] = self.last.get(key, 0) + 1


class LaneNumbers:
    """Numbers from 1 in each lane of one producer instance.

    A process may live through any number of lanes (every run is one), so numbers can't be kept for ever: a stripe that knows
    *lanes_per_stripe* lanes goes on as a new producer instance with a new id and numbers from 1. That keeps the order: what it
    numbered before is already in the stream, or in the spool, where the lane's new turns line up behind it.
    """

    def __init__(self, producer: str, new_producer: Callable[[], str], *, stripes: int = 64, lanes_per_stripe: int = 1024) -> None:
        self._stripes = tuple(Stripe(producer) for _ in range(stripes))
        self._new_producer = new_producer
        self._lanes_per_stripe = lanes_per_stripe

    def stripe(self, lane: str) -> Stripe:
        """The stripe of *lane* (32 hex digits)."""
        return self._stripes[int(lane[:8], 16) % len(self._stripes)]

    def roll_over(self, stripe: Stripe, lane: str) -> None:
        """Make *stripe* a new instance if *lane* is one more than it may know; its lock must be held."""
        if len(stripe.last) >= self._lanes_per_stripe and bytes.fromhex(lane) not in stripe.last:
            stripe.producer = self._new_producer()
            stripe.last = {}
