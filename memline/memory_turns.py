"""Turns on their way: receipts, and waiting for what was handed over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from memline.contracts.errors import ServiceUnavailable, UnknownReceipt, WaitTimeout
from memline.contracts.filters import ScopeIds
from memline.contracts.ids import handed_over_at
from memline.contracts.options import check_handle, check_timeout
from memline.contracts.receipt import ReceiptState, Status
from memline.contracts.within import check_within, line_within
from memline.memory_handle import Handle, refuse_unknown
from memline.receipt import Receipt

__all__ = ["Turns"]


class Turns(Handle):
    """What became of what was handed over."""

    def receipt(self, /, turn_id: str, *, within: Mapping[str, Any] | None = None, **unknown: object) -> Receipt:
        """The receipt of a turn, from any process: looks in this machine's spool, the stream, then the ledger.

        Raises UnknownReceipt for an id that no turn of this namespace has, or none inside *within*. Of a turn that is nowhere any more
        (lost, or its subject erased) nobody knows whose it was: inside *within* it is unknown.
        """
        refuse_unknown("receipt", unknown)
        self._check_open()
        bound = check_within(within)

        def look(turn: str) -> ReceiptState:
            return self._look(turn, bound)

        return Receipt(look(check_handle("turn_id", turn_id)), look)

    def _look(self, turn_id: str, within: ScopeIds | None = None) -> ReceiptState:
        from memline.ledger.receipts import note_lost, receipt_state

        def belongs(line: bytes) -> bool:
            return line_within(line, self.namespace, within)

        house = self._house
        if house.uses_redis:
            # A turn only moves from spool to stream to ledger, so looking in this order misses none.
            away: ServiceUnavailable | None = None
            try:
                status = house.producer.locate(turn_id, belongs)
            except ServiceUnavailable as error:
                status, away = None, error  # the ledger may know it all the same
            if status is Status.QUEUED:
                return ReceiptState(turn_id, status)
        with house.ledger.read() as connection:
            state = receipt_state(connection, turn_id, namespace=self.namespace, within=within)
        if state is not None:
            return state
        if house.uses_redis and status is not None:
            return ReceiptState(turn_id, status)
        if house.uses_redis and away is not None:
            raise away
        handed_at = handed_over_at(turn_id)
        if handed_at is None or not house.uses_redis or within is not None:
            raise UnknownReceipt(
                f"No turn {turn_id} was handed over in namespace {self.namespace}. Is it the id of a memory, or another namespace's?"
            )
        now = house.clock.now()
        if now - handed_at >= timedelta(days=house.settings.keep_jobs):
            raise UnknownReceipt(
                f"Turn {turn_id} was handed over more than {house.settings.keep_jobs:g} days ago (MEMLINE_KEEP_JOBS), and no memory came "
                "from it: what became of it is no longer kept."
            )
        if now - handed_at <= timedelta(seconds=house.settings.order_wait):
            return ReceiptState(turn_id, Status.QUEUED)
        if house.producer.locate(turn_id) is None:  # on its way for somebody else: no loss
            with house.ledger.write() as tx:
                note_lost(tx, turn_id, now=now)
        return ReceiptState(turn_id, Status.LOST, reason="it was queued in Redis and is nowhere now", finished=True)

    def flush(self, /, timeout: float = 30, **unknown: object) -> None:
        """Waits until everything handed over in this namespace has ended and the index shows it; WaitTimeout after *timeout* seconds."""
        from memline.ledger.pending import pending_work

        refuse_unknown("flush", unknown)
        self._check_open()
        house = self._house
        deadline = time.monotonic() + check_timeout(timeout)
        pause = 0.002
        while True:
            on_the_way = self._unaccepted()
            with house.ledger.read() as connection:
                jobs, outbox = pending_work(connection, self.namespace)
            if not (on_the_way or jobs or outbox):
                return
            if not house.uses_redis:
                house.engine.wake()
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"After {timeout:g} s {on_the_way} turns, {jobs} jobs and {outbox} index writes are still on their way.")
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)

    def _unaccepted(self) -> int:
        if not self._house.uses_redis:
            return 0
        producer = self._house.producer
        return producer.spool.pending() + producer.stream.length()
