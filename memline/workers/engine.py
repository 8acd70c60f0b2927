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

from memline.contracts import incidents, metrics
from memline.contracts.about import line_of, told
from memline.contracts.errors import MemlineError
from memline.ledger.leases import Lease
from memline.outbox.relay import Relay
from memline.pipeline.parts import Parts
from memline.pipeline.runner import claim_and_send, give_back_waiting, run_through
from memline.workers.expirer import Expirer
from memline.workers.loops import Loop
from memline.workers.pruner import Pruner
from memline.workers.pulse import LONG_ROUND, Pulse
from memline.workers.reconcile_loop import LOOK_EVERY, ReconcileTurns
from memline.workers.sweep import SWEEP_EVERY, sweep_once

__all__ = ["Engine"]

_log = logging.getLogger("memline.engine")

#: The name under which it beats.
_LOOP = "engine"


class Engine:
    """Runs what was accepted, in one thread, until it is stopped."""

    def __init__(
        self,
        parts: Parts,
        relay: Relay,
        pruner: Pruner | None = None,
        reconcile: ReconcileTurns | None = None,
        expirer: Expirer | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self._parts = parts
        self._relay = relay
        self._pruner = pruner
        self._expirer = expirer
        self._reconcile = reconcile
        # a thread of its own: turns do not wait while a million objects are compared
        self._reconciling = None if reconcile is None else Loop("reconcile", reconcile.run_once, idle=LOOK_EVERY)
        self._worker = f"engine-{os.getpid()}"
        self._pulse = pulse
        if pulse is not None:
            pulse.expect(_LOOP)
            if self._reconciling is not None:
                self._reconciling.ended = pulse.expect("reconcile", rest=LOOK_EVERY, patience=LONG_ROUND)
        self._waiting: deque[Lease] = deque()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._draining = False
        self._thread = threading.Thread(target=self._run, name="memline-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()
        if self._reconciling is not None:
            self._reconciling.start()

    def wake(self) -> None:
        """Something was accepted."""
        self._wake.set()

    def stop(self, timeout: float) -> None:
        """Finishes what is ready, for at most *timeout* seconds; the rest goes on at the next start."""
        self._draining = True
        self._wake.set()
        if self._reconcile is not None and self._reconciling is not None:
            self._reconcile.stop()
            self._reconciling.stop()
        self._thread.join(timeout)
        self._stop.set()
        self._wake.set()
        # A call that is under way is left to its lease: whoever starts next takes its jobs over.
        self._thread.join(1.0)
        if self._reconciling is not None:
            self._reconciling.join(1.0)

    def _run(self) -> None:
        try:
            self._rounds()
        finally:
            try:
                give_back_waiting(self._parts, self._waiting)
                if self._pulse is not None:
                    self._pulse.leave()
            except MemlineError as error:
                _log.warning("engine: %s", error)  # then they are sent again after a while

    def _rounds(self) -> None:
        next_sweep = self._parts.clock.now()
        next_prune = next_expire = next_sweep
        while not self._stop.is_set():
            self._wake.clear()
            draining = self._draining  # asked before the round: what was accepted before the end began is found in a whole one after it
            try:
                if self._parts.clock.now() >= next_sweep:
                    sweep_once(self._parts, self._take)
                    next_sweep = self._parts.clock.now() + timedelta(seconds=SWEEP_EVERY)
                if self._pruner is not None and not self._draining and self._parts.clock.now() >= next_prune:
                    next_prune = self._parts.clock.now() + timedelta(seconds=self._pruner.every)
                    self._pruner.run_once()
                if self._expirer is not None and not self._draining and self._parts.clock.now() >= next_expire:
                    more = self._expirer.run_once()  # what it could not do in its budget is looked for again soon
                    next_expire = self._parts.clock.now() + timedelta(seconds=SWEEP_EVERY if more else self._expirer.every)
                busy = self._work()
                self._say(None)
                if busy:
                    continue
            except Exception as error:  # noqa: BLE001
                # The ledger does not answer, or worse: nothing is lost, and the engine must outlive what it meets. Errors of memline's
                # are free of content by contract; of others the class is told.
                metrics.LOOP_FAILURES.add(1, loop=_LOOP)
                incidents.broke("engine", error)
                reason = error if isinstance(error, MemlineError) else type(error).__name__
                _log.warning("engine: %s", reason, extra=told(at=line_of(error)))
                self._say(error)
            if draining:
                return
            self._wake.wait(SWEEP_EVERY)

    def _say(self, error: Exception | None) -> None:
        """A round ended: the heartbeat of this engine, by its own thread, since most processes live shorter than a beat."""
        if self._pulse is None:
            return
        self._pulse.ended(_LOOP, error)
        try:
            self._pulse.beat_when_due()
        except Exception as missed:  # noqa: BLE001
            # no beat is worth the engine: who looks takes it for dead, which is what it looks like to the ledger
            _log.warning("engine: %s", missed if isinstance(missed, MemlineError) else type(missed).__name__)

    def _work(self) -> bool:
        """One round; False when there was nothing to do."""
        claimed = claim_and_send(self._parts, self._take)
        while self._waiting and not self._stop.is_set():
            run_through(self._parts, self._waiting.popleft(), worker=self._worker, send=self._take, stopped=self._stop.is_set)
            self._relay.run_once()
            self._say(None)
        return bool(claimed + self._relay.run_once())

    def _take(self, leases: Sequence[Lease]) -> None:
        self._waiting.extend(leases)
