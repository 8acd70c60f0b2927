"""The producer: takes a turn from a caller in about a millisecond, into Redis or, while that is away, onto this disk."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from memline.contracts import failpoints, metrics
from memline.contracts.clock import Clock
from memline.contracts.errors import Closed, MemlineError, ServiceUnavailable
from memline.contracts.ids import IdSource
from memline.contracts.receipt import Status
from memline.contracts.scope import Scope
from memline.contracts.turn import Turn
from memline.producer.build import DEFAULT_MAX_TURN, build_turn
from memline.producer.lane_numbers import LaneNumbers, Stripe
from memline.producer.policy import WritePolicy
from memline.producer.spool import Spool
from memline.producer.stream import TurnStream, was_refused

__all__ = ["Counts", "Producer"]

_logger = logging.getLogger("memline.producer")


@dataclass(slots=True)
class Counts:
    """What this producer instance did, in turns."""

    #: Went straight into Redis.
    queued: int = 0
    #: Went to the spool.
    spooled: int = 0
    #: Went from this producer's spool into Redis.
    drained: int = 0
    #: Went into Redis from the spools of dead producers.
    adopted: int = 0
    #: Could not be taken at all.
    refused: int = 0


class Producer:
    """One producer instance: hands turns over and keeps their order in each lane (guarantee G5).

    *retry_every* is in seconds, *max_turn* in bytes; *vision*: the workers have a model that describes images. While Redis is away no
    caller waits for it: turns go to the spool, and a thread of this instance asks for Redis every *retry_every* and sends them. A forked
    child is a new instance by itself: its own id, numbers, connection and spool file. Safe between threads.
    """

    def __init__(
        self,
        redis_url: str,
        spool_folder: str | Path,
        ids: IdSource,
        clock: Clock,
        prefix: str = "memline",
        max_turn: int = DEFAULT_MAX_TURN,
        retry_every: float = 1.0,
        vision: bool = False,
        policy: WritePolicy | None = None,
    ) -> None:
        self._redis_url = redis_url
        self._spool_folder = Path(spool_folder)
        self._ids = ids
        self._clock = clock
        self._prefix = prefix
        self._max_turn = max_turn
        self._vision = vision
        self._policy = policy
        self._retry_every = retry_every
        self._closed = False
        self._begin()
        if self.spool.orphans():
            self._start_thread()
        _living.add(self)

    def _begin(self) -> None:
        """Everything that belongs to one instance in one process."""
        self.id = self._ids.new()
        self.stream = TurnStream(self._redis_url, prefix=self._prefix)
        self.spool = Spool(self._spool_folder, self.id)
        self.counts = Counts()
        self._numbers = LaneNumbers(self.id, self._ids.new)
        self._down = False
        self._guard = threading.Lock()  # the counts, `_down`, and the start of the thread
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._moved = threading.Condition()  # told after every round of the thread

    # Handing over

    def hand_over(
        self,
        scope: Scope,
        messages: object,
        *,
        metadata: object = None,
        infer: object = True,
        prompt: object = None,
        expiration_date: object = None,
        timestamp: object = None,
        idempotency_key: object = None,
        memory_type: object = None,
        masked: Mapping[str, int] | None = None,
    ) -> tuple[Turn, Status]:
        """Take a turn; where it is now is QUEUED (in Redis) or SPOOLED (on this disk).

        Raises InvalidInput (nothing changed), Closed, and ServiceUnavailable when neither Redis nor the spool takes it.
        """
        if self._closed:
            raise Closed()
        turn = build_turn(
            scope,
            messages,
            ids=self._ids,
            clock=self._clock,
            metadata=metadata,
            infer=infer,
            prompt=prompt,
            expiration_date=expiration_date,
            timestamp=timestamp,
            idempotency_key=idempotency_key,
            memory_type=memory_type,
            vision=self._vision,
            max_turn=self._max_turn,
            policy=self._policy,
            masked=masked,
        )
        lane = scope.lane
        stripe = self._numbers.stripe(lane)
        # Number and place under one lock: two threads in one lane must not swap between the two.
        with stripe.lock:
            self._numbers.roll_over(stripe, lane)
            turn = replace(turn, producer=stripe.producer, number=stripe.peek(lane))
            status = self._place(turn, lane, stripe)
            stripe.take(lane)
        metrics.HANDED_OVER.add(1, receipt=status.value)
        return turn, status

    def _place(self, turn: Turn, lane: str, stripe: Stripe) -> Status:
        lost_answer = False
        if not self._down and not self.spool.holds(lane):
            try:
                failpoints.hit("hand_over.before_xadd")
                self.stream.append(turn.to_wire())
                failpoints.hit("hand_over.after_xadd")
                self._count(queued=1)
                return Status.QUEUED
            except ServiceUnavailable as error:
                lost_answer = not was_refused(error)
                self._went_down(error)
        try:
            failpoints.hit("hand_over.before_spool")
            self.spool.append(turn)
            failpoints.hit("hand_over.after_spool")
        except ServiceUnavailable as error:
            self._count(refused=1)
            if not lost_answer:
                raise
            # Redis may have the turn under this number: a gap is waited out, but two turns of one number would hide one.
            stripe.take(lane)
            raise ServiceUnavailable(
                f"{error} Redis was asked first and its answer was lost, so it may have the turn all the same: "
                "with an idempotency_key the turn counts once, however often you hand it over."
            ) from error
        self._count(spooled=1)
        self._start_thread()
        return Status.SPOOLED

    def _went_down(self, error: ServiceUnavailable) -> None:
        with self._guard:
            first, self._down = not self._down, True
        if first:
            _logger.warning("%s Turns go to the spool %s until it does.", error, self.spool.folder)
        self._start_thread()

    def _came_back(self) -> None:
        with self._guard:
            first, self._down = self._down, False
        if first:
            _logger.info("Redis at %s answers again.", self.stream.place)

    def _count(self, queued: int = 0, spooled: int = 0, drained: int = 0, adopted: int = 0, refused: int = 0) -> None:
        with self._guard:
            counts = self.counts
            counts.queued += queued
            counts.spooled += spooled
            counts.drained += drained
            counts.adopted += adopted
            counts.refused += refused

    # Looking

    @property
    def redis_is_down(self) -> bool:
        """Redis failed at the last try; the thread goes on asking."""
        return self._down

    def locate(self, turn_id: str, belongs: Callable[[bytes], bool] | None = None) -> Status | None:
        """Where a turn is on its way to the ledger: SPOOLED, QUEUED, or None when it is in neither, or its JSON does not *belong* there.

        A turn only moves from spool to stream to ledger, so whoever asks the ledger after this misses none. Raises
        ServiceUnavailable when it is not in the spool and Redis does not answer.
        """
        if self.spool.find(turn_id, belongs):
            return Status.SPOOLED
        return Status.QUEUED if self.stream.find(turn_id, belongs) else None

    # Draining

    def flush(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds until this instance's spool is empty; whether it is."""
        deadline = monotonic() + timeout
        self._wake.set()
        with self._moved:
            while self.spool.pending() and (left := deadline - monotonic()) > 0:
                self._moved.wait(left)
        return self.spool.pending() == 0

    def close(self, timeout: float = 5.0) -> None:
        """End the thread, send what is spooled for up to *timeout* seconds, close.

        What remains is sent by the next process that opens the folder, or by `memline spool send`.
        """
        if self._closed:
            return
        self._closed = True
        _living.discard(self)
        deadline = monotonic() + timeout
        self._stop.set()
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join()  # at most one call to Redis long
        with self._reported():
            self.spool.drain(self._send_own, stop=lambda: monotonic() >= deadline)
        with self._reported():
            self.spool.close()
        self.stream.close()

    def _start_thread(self) -> None:
        with self._guard:
            if self._thread is None and not self._closed:
                # The thread holds its producer weakly between rounds, so that one that is forgotten can go.
                arguments = (weakref.ref(self), self._wake, self._stop, self._retry_every)
                self._thread = threading.Thread(target=_keep_draining, args=arguments, name="memline-spool", daemon=True)
                self._thread.start()

    def _round(self) -> None:
        """Send what waits, if Redis answers."""
        with self._reported():
            if self._down:
                self.stream.ping()
            self.spool.drain(self._send_own, stop=self._stop.is_set)
            self._came_back()
            self.spool.adopt(self._send_adopted, stop=self._stop.is_set)
        with self._moved:
            self._moved.notify_all()

    def _send_own(self, wire: str) -> None:
        self._send(wire)
        self._count(drained=1)

    def _send_adopted(self, wire: str) -> None:
        self._send(wire)
        self._count(adopted=1)

    def _send(self, wire: str) -> None:
        try:
            self.stream.append(wire)
        except ServiceUnavailable as error:
            self._went_down(error)
            raise
        self._came_back()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """A round that fails is told and tried again; nothing is lost by it, what was not sent is still in its file."""
        try:
            yield
        except MemlineError as error:
            _logger.log(logging.DEBUG if self._down else logging.WARNING, "the spool waits: %s", error)

    # Forking

    def _after_fork(self) -> None:
        self.spool.abandon()
        self._begin()


def _keep_draining(producer: weakref.ref[Producer], wake: threading.Event, stop: threading.Event, every: float) -> None:
    while not stop.is_set():
        if (found := producer()) is None:
            return
        try:
            found._round()
        except Exception as error:  # noqa: BLE001
            # Turns wait for this thread: whatever it is, say it and go on. An exception's own words may hold some of a turn.
            _logger.error("draining the spool failed (%s); it is tried again", type(error).__name__)
        del found
        wake.wait(every)
        wake.clear()


_living: weakref.WeakSet[Producer] = weakref.WeakSet()


def _renew_after_fork() -> None:
    for producer in list(_living):
        producer._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)
