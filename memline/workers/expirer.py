"""Every few minutes: what is over its last day is marked as expired, and what expired long enough ago is purged, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from sqlalchemy.engine import Connection

from memline.contracts.clock import Clock
from memline.ledger.expire import expire_due
from memline.ledger.history import HistoryMode
from memline.ledger.passes import claim_pass, reopen_pass
from memline.ledger.purge import first_day_kept, purge_expired
from memline.ledger.session import Ledger

__all__ = ["GRACE", "Expirer"]

#: Days that an expired memory is kept.
GRACE = 30

_PASS = "expire"

#: One batch in the caller's transaction: how many memories it was about.
_Verb = Callable[[Connection], int]


class Expirer:
    """Expires and purges in a ledger that several processes share, one of them at a time, a batch a transaction.

    *grace* in days, *every* and *budget* in seconds, *batch* in memories: few, since a batch holds its owners' locks.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        grace: int = GRACE,
        every: float = 300.0,
        budget: float = 10.0,
        batch: int = 100,
        keep: HistoryMode = HistoryMode.FULL,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every = every
        self._ledger = ledger
        self._clock = clock
        self._grace = grace
        self._budget = budget
        self._batch = batch
        self._keep = keep
        self._seconds = seconds

    def run_once(self) -> int:
        """A pass, if one is due; how many memories it was about. One whose budget ended before its work may be called again at once."""
        with self._ledger.write() as tx:
            if not claim_pass(tx, _PASS, now=self._clock.now(), every=timedelta(seconds=self.every)):
                return 0
        return self.run()

    def run(self) -> int:
        """A pass, due or not."""
        until = self._seconds() + self._budget
        done = 0
        for verb in self._verbs():
            found = self._batch
            # at least one batch of each, so that neither waits for ever behind the other
            while found >= self._batch:
                with self._ledger.write() as tx:
                    found = verb(tx)
                done += found
                if found >= self._batch and self._seconds() >= until:
                    with self._ledger.write() as tx:
                        reopen_pass(tx, _PASS)
                    break
        return done

    def _verbs(self) -> Iterator[_Verb]:
        yield lambda tx: expire_due(tx, now=self._clock.now(), limit=self._batch, keep=self._keep)
        yield lambda tx: purge_expired(
            tx,
            before=first_day_kept(self._clock.now(), self._grace),
            limit=self._batch,
            now=self._clock.now(),
            keep=self._keep,
        )
