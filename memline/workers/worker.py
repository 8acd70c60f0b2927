"""A worker process: some of accept and dispatch, stages, relay and sweep, until it is told to stop."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from memline.contracts.errors import MemlineError, ServiceUnavailable
from memline.ledger.counters import count
from memline.ledger.jobs import STAGES, Stage
from memline.ledger.leases import Lease, hand_back_all
from memline.outbox.relay import Relay
from memline.pipeline.parts import Parts
from memline.pipeline.runner import give_back_waiting, run_stage
from memline.workers.accept_loop import AcceptLoop, Entries
from memline.workers.after_pool import when_the_pool_stands
from memline.workers.celery_app import CelerySend, make_app, queue_of
from memline.workers.consumer_beat import watch_consumer
from memline.workers.expirer import Expirer
from memline.workers.loops import Loop
from memline.workers.pruner import Pruner
from memline.workers.pulse import LONG_ROUND, PATIENCE, Pulse
from memline.workers.pulse import LOOK_EVERY as BEAT_LOOK
from memline.workers.reconcile_loop import LOOK_EVERY, ReconcileTurns
from memline.workers.stopping import Stop
from memline.workers.sweep import SWEEP_EVERY, sweep_once

__all__ = ["Roles", "run_worker"]

#: Seconds between two looks at an empty outbox.
RELAY_EVERY = 0.05


#: Milliseconds after which the name of a worker that says nothing is forgotten in the stream.
FORGET_CONSUMERS = 86_400_000


_log = logging.getLogger("memline.worker")

#: Loops that work through a budget.
_LONG = ("prune", "expire", "reconcile")

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
        #: Of this process alone: host and pid may come again, and what it holds is handed back by this name.
        self.name = f"{socket.gethostname()}-{os.getpid()}-{parts.ids.new()[-6:]}"
        self.stop: Stop | None = None

    def run(self, stage: Stage, lease_id: str, epoch: int) -> Lease | None:
        assert self.send is not None  # set before the app works
        if self.stop is not None and self.stop.asked:  # not begun: somebody else's, at once
            give_back_waiting(self.parts, [Lease(lease_id, epoch, stage, alone=False)])
            return None
        return run_stage(self.parts, lease_id, epoch, stage, worker=self.name, send=self.send)

    def hand_back(self) -> int:
        """Gives what this process, its pool's processes included, has taken back to the ledger; how many batches."""
        with self.parts.ledger.write() as tx:
            return hand_back_all(tx, self.name, now=self.parts.clock.now())

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
    pulse: Pulse | None = None,
    log_level: str = "WARNING",
    stop_within: float = 25.0,
    up: Callable[[], None] = lambda: None,
) -> None:
    """Works until SIGTERM or SIGINT; what a stage has begun is finished first, or handed back after *stop_within* seconds.

    *up* is called where no stage is served, once this process works; where one is, Celery says so itself.

    Celery's worker can end by itself: kombu raises where it acknowledges on a connection that Redis closed. Then this process starts
    again, as new, under the same process id.
    """
    work = _Work(parts)
    app = make_app(redis_url, prefix=prefix, run=work.run, too_new=work.count_too_new)
    work.send = CelerySend(app)
    loops = _loops(parts, relay, stream, work.send, roles, consumer=work.name)
    if roles.sweep and pruner is not None:
        loops.append(Loop("prune", _prune(pruner, stream), idle=pruner.every))
    if roles.sweep and expirer is not None:
        loops.append(Loop("expire", expirer.run_once, idle=expirer.every))
    if roles.sweep and reconcile is not None:
        loops.append(Loop("reconcile", reconcile.run_once, idle=LOOK_EVERY))
    if pulse is not None:
        loops.append(_beating(pulse, loops, app, roles.stages))

    def begin_no_more() -> None:
        if reconcile is not None:
            reconcile.stop()
        for loop in loops:
            if loop.name != "beat":  # which says until the end that this process is there
                loop.stop()

    stop = work.stop = Stop(stop_within, begin=begin_no_more, hand_back=work.hand_back, leave=_leave_at_once)
    stop.listen(_tell_celery if roles.stages else lambda: None)

    def start() -> None:
        for loop in loops:
            loop.start()

    try:
        if roles.stages:
            when_the_pool_stands(app, start)
            _serve(app, roles, log_level)
        else:
            start()
            up()
            stop.wait()
    finally:
        begin_no_more()
        for loop in loops:
            loop.stop()
        for loop in loops:
            loop.join(10)
        if pulse is not None:
            _leave(pulse)
    if not stop.asked:
        _start_again(stream)


def _beating(pulse: Pulse, loops: Sequence[Loop], app: object, stages: Sequence[Stage]) -> Loop:
    """The loop that writes what the others, and Celery's consumer in *app*, say of themselves."""
    for loop in loops:
        loop.ended = pulse.expect(loop.name, rest=loop.idle, patience=LONG_ROUND if loop.name in _LONG else PATIENCE)
    if stages:
        watch_consumer(app, pulse, stages)
    return Loop("beat", pulse.run_once, idle=BEAT_LOOK)


def _tell_celery() -> None:
    """Runs in the signal's handler: Celery's worker takes no further message and returns when its pool is done."""
    from celery.worker import state

    state.should_stop = 0


def _leave_at_once(code: int) -> None:
    """Ends this process, and those of its pool, whatever they are doing."""
    from billiard import active_children

    for child in active_children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    os._exit(code)


def _leave(pulse: Pulse) -> None:
    try:
        pulse.leave()
    except MemlineError as error:
        _log.warning("%s The heartbeats of this process are left to be forgotten.", error)


def _start_again(stream: Stream) -> None:
    """Replaces this process by a new run of its own command, once Redis answers."""
    _log.error("Celery's worker ended by itself; the process starts again. Leases that it held are taken over by the sweep.")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
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


def _serve(app: object, roles: Roles, log_level: str) -> None:
    """Serves the stages until Celery's worker ends: because it was told to, or by itself."""
    from celery.apps.worker import install_cry_handler
    from celery.signals import worker_process_init

    # a signal to a whole group, as an init system sends it, is the parent's to obey: it waits for what its pool has begun
    worker_process_init.connect(_leave_the_end_to_the_parent, weak=False)

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
    worker.install_platform_tweaks = lambda _worker: install_cry_handler()  # its other handlers know no limit: Stop's stand
    worker.start()


def _leave_the_end_to_the_parent(**_told: object) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
