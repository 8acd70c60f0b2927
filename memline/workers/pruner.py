"""Every few minutes: what is over age leaves the ledger, a batch a transaction, within a budget of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from memline.contracts.clock import Clock
from memline.ledger.prune import Retention, begin_pass, prune_feed, prune_keys, prune_producers, prune_receipts, save_place, visit_jobs
from memline.ledger.session import Ledger

__all__ = ["Pruner"]


class Pruner:
    """Prunes a ledger that several processes share: one of them at a time, each pass where the last one stopped.

    *every* and *budget* are in seconds; *batch* is a number of rows a transaction.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        keep: Retention | None = None,
        *,
        every: float = 300.0,
        budget: float = 10.0,
        batch: int = 500,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every = every
        self._ledger = ledger
        self._clock = clock
        self._keep = keep or Retention()
        self._budget = budget
        self._batch = batch
        self._seconds = seconds

    def run_once(self) -> int:
        """A pass, if one is due; how many things it removed."""
        with self._ledger.write() as tx:
            after = begin_pass(tx, now=self._clock.now(), every=timedelta(seconds=self.every))
        return 0 if after is None else self.run_from(after)

    def run_from(self, after: int) -> int:
        """Visits the jobs after number *after*, then keys, receipts, producers and the feed, until the end or until the budget is spent."""
        until = self._seconds() + self._budget
        removed = 0
        going = True
        # Jobs go before the keys that name them, so that a job never ends in the pass in which its key did.
        while going:
            with self._ledger.write() as tx:
                visit = visit_jobs(tx, after, keep=self._keep, now=self._clock.now(), limit=self._batch)
                save_place(tx, visit.after or 0)
            removed += visit.removed.total()
            after = visit.after or 0
            going = visit.after is not None and self._seconds() < until
        for verb in (prune_keys, prune_receipts, prune_producers, prune_feed):
            found = self._batch
            # at least one batch of each, so that none of them waits for ever behind the others
            while found >= self._batch:
                with self._ledger.write() as tx:
                    found = verb(tx, keep=self._keep, now=self._clock.now(), limit=self._batch)
                removed += found
                if self._seconds() >= until:
                    break
        return removed
