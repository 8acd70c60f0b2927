"""The engine of the embedded mode: a thread of this process that leases from the same ledger file and runs the same stages.

Several processes may have an engine on one file; a batch is run by one of them.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from memline.contracts.errors import MemlineError
from memline.ledger.leases import Lease
from memline.outbox.relay import Relay
from memline.pipeline.parts import Parts
from memline.pipeline.runner import claim_and_send, give_back_waiting, run_through
from memline.workers.sweep import SWEEP_EVERY, sweep_once

__all__ = ["Engine"]

_log = logging.getLogger("memline.engine")


class Engine:
    """Runs what was accepted, in one thread, until it is stopped."""

    def __init__(self, parts: Parts, relay: Relay) -> None:
        self._parts = parts
        self._relay = relay
        self._worker = f"engine-{os.getpid()}"
        self._waiting: deque[Lease] = deque()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._draining = False
        self._thread = threading.Thread(target=self._run, name="memline-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something was accepted."""
        self._wake.set()

    def stop(self, timeout: float) -> None:
        """Finishes what is ready, for at most *timeout* seconds; the rest goes on at the next start."""
        self._draining = True
        self._wake.set()
        self._thread.join(timeout)
        self._stop.set()
        self._wake.set()
        # A call that is under way is left to its lease: whoever starts next takes its jobs over.
        self._thread.join(1.0)

    def _run(self) -> None:
        try:
            self._rounds()
        finally:
            try:
                give_back_waiting(self._parts, self._waiting)
            except MemlineError as error:
                _log.warning("engine: %s", error)  # then they are sent again after a while

    def _rounds(self) -> None:
        next_sweep = self._parts.clock.now()
        while not self._stop.is_set():
            self._wake.clear()
            try:
                if self._parts.clock.now() >= next_sweep:
                    sweep_once(self._parts, self._take)
                    next_sweep = self._parts.clock.now() + timedelta(seconds=SWEEP_EVERY)
                if self._work():
                    continue
            except Exception as error:  # noqa: BLE001
                # The ledger does not answer, or worse: nothing is lost, and the engine must outlive what it meets. Errors of memline's
                # are free of content by contract; of others the class is told.
                _log.warning("engine: %s", error if isinstance(error, MemlineError) else type(error).__name__)
            if self._draining:
                return
            self._wake.wait(SWEEP_EVERY)

    def _work(self) -> bool:
        """One round; False when there was nothing to do."""
        claimed = claim_and_send(self._parts, self._take)
        while self._waiting and not self._stop.is_set():
            run_through(self._parts, self._waiting.popleft(), worker=self._worker, send=self._take, stopped=self._stop.is_set)
            self._relay.run_once()
        return bool(claimed + self._relay.run_once())

    def _take(self, leases: Sequence[Lease]) -> None:
        self._waiting.extend(leases)
