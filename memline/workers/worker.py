"""A worker process: some of accept and dispatch, stages, relay and sweep, until it is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from memline.contracts.errors import ServiceUnavailable
from memline.ledger.counters import count
from memline.ledger.jobs import STAGES, Stage
from memline.ledger.leases import Lease
from memline.outbox.relay import Relay
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_stage
from memline.workers.accept_loop import AcceptLoop, Entries
from memline.workers.celery_app import CelerySend, make_app, queue_of
from memline.workers.expirer import Expirer
from memline.workers.loops import Loop
from memline.workers.pruner import Pruner
from memline.workers.reconcile_loop import LOOK_EVERY, ReconcileTurns
from memline.workers.sweep import SWEEP_EVERY, sweep_once

__all__ = ["Roles", "run_worker"]

#: Seconds between two looks at an empty outbox.
RELAY_EVERY = 0.05


#: Milliseconds after which the name of a worker that says nothing is forgotten in the stream.
FORGET_CONSUMERS = 86_400_000


_log = logging.getLogger("memline.worker")

#: Seconds before a worker whose Celery ended by itself starts again, and between two looks whether Redis is back.
_PAUSE = 1.0


class Stream(Entries, Protocol):
    """What a worker needs of the stream."""

    def forget_consumers(self, *, idle_ms: int) -> int: ...

    def ping(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Roles:
    """What a process does."""

    accept: bool = True
    relay: bool = True
    sweep: bool = True
    stages: Sequence[Stage] = STAGES
    #: Threads (or processes, with the pool `prefork`) that run stages.
    concurrency: int = 4
    pool: str = "threads"


class _Work:
    """Builds the parts of this process when the first task comes: after the fork of a prefork pool."""

    def __init__(self, parts: Parts, send: CelerySend | None = None) -> None:
        self.parts = parts
        self.send = send
        self.name = f"{socket.gethostname()}-{os.getpid()}"

    def run(self, stage: Stage, lease_id: str, epoch: int) -> Lease | None:
        assert self.send is not None  # set before the app works
        return run_stage(self.parts, lease_id, epoch, stage, worker=self.name, send=self.send)

    def count_too_new(self) -> None:
        with self.parts.ledger.write() as tx:
            count(tx, "messages_too_new")


def run_worker(
    parts: Parts,
    relay: Relay,
    stream: Stream,
    *,
    redis_url: str,
    prefix: str,
    roles: Roles,
    pruner: Pruner | None = None,
    reconcile: ReconcileTurns | None = None,
    expirer: Expirer | None = None,
    log_level: str = "WARNING",
) -> None:
    """Works until SIGTERM or SIGINT; what a stage has begun is finished first.

    Celery's worker can end by itself: kombu raises where it acknowledges on a connection that Redis closed. Then this process starts
    again, as new, under the same process id.
    """
    work = _Work(parts)
    app = make_app(redis_url, prefix=prefix, run=work.run, too_new=work.count_too_new)
    work.send = CelerySend(app)
    loops = _loops(parts, relay, stream, work.send, roles, consumer=f"{work.name}-{parts.ids.new()[-6:]}")
    if roles.sweep and pruner is not None:
        loops.append(Loop("prune", _prune(pruner, stream), idle=pruner.every))
    if roles.sweep and expirer is not None:
        loops.append(Loop("expire", expirer.run_once, idle=expirer.every))
    if roles.sweep and reconcile is not None:
        loops.append(Loop("reconcile", reconcile.run_once, idle=LOOK_EVERY))
    for loop in loops:
        loop.start()
    asked_to_end = False
    try:
        if roles.stages:
            asked_to_end = _serve(app, roles, log_level)
        else:
            _wait_for_signal()
            asked_to_end = True
    finally:
        if reconcile is not None:
            reconcile.stop()
        for loop in loops:
            loop.stop()
        for loop in loops:
            loop.join(10)
    if not asked_to_end:
        _start_again(stream)


def _start_again(stream: Stream) -> None:
    """Replaces this process by a new run of its own command, once Redis answers."""
    _log.error("Celery's worker ended by itself; the process starts again. Leases that it held are taken over by the sweep.")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    while True:
        time.sleep(_PAUSE)
        try:
            stream.ping()
            break
        except ServiceUnavailable as error:
            _log.warning("%s", error)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606


def _prune(pruner: Pruner, stream: Stream) -> Callable[[], int]:
    def prune() -> int:
        stream.forget_consumers(idle_ms=FORGET_CONSUMERS)
        return pruner.run_once()

    return prune


def _loops(parts: Parts, relay: Relay, stream: Stream, send: CelerySend, roles: Roles, *, consumer: str) -> list[Loop]:
    found: list[Loop] = []
    if roles.accept:
        found.append(Loop("accept", AcceptLoop(stream, parts, send, consumer=consumer).run_once, idle=0))
    if roles.relay:
        found.append(Loop("relay", relay.run_once, idle=RELAY_EVERY))
    if roles.sweep:

        def sweep() -> int:
            sweep_once(parts, send)
            return 0

        found.append(Loop("sweep", sweep, idle=SWEEP_EVERY))
    return found


def _serve(app: object, roles: Roles, log_level: str) -> bool:
    """Serves the stages; False when the worker ended without having been asked to."""
    from celery.worker import state

    worker = app.Worker(  # type: ignore[attr-defined]
        pool=roles.pool,
        concurrency=roles.concurrency,
        queues=[queue_of(stage) for stage in roles.stages],
        loglevel=log_level,
        hostname=f"memline-{os.getpid()}@{socket.gethostname()}",
        without_gossip=True,
        without_mingle=True,
        optimization="fair",
        quiet=True,
    )
    worker.start()
    return state.should_stop is not None or state.should_terminate is not None


def _wait_for_signal() -> None:
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.wait(1):
        pass
