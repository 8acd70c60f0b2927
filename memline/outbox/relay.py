"""Shows the index what the ledger committed: takes outbox rows under a lease, writes the *current* state of their objects, and removes
each row only if the index took it in the version that the row still has.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.engine import Connection

from memline.contracts import failpoints, metrics, tracing
from memline.contracts.about import told
from memline.contracts.clock import Clock
from memline.contracts.errors import MemlineError, ServiceUnavailable
from memline.contracts.ids import IdSource
from memline.ledger.locks import lock_against_swap
from memline.ledger.memories import index_objects
from memline.ledger.meta import check_own_embedder
from memline.ledger.outbox import (
    OutboxRow,
    claim_outbox,
    disown,
    enqueue,
    lock_rows,
    mark_searchable,
    next_due,
    release,
    settle,
    unsettled,
)
from memline.ledger.session import Ledger, when_committed
from memline.search.index.port import Answer, Index, OfSpace, Write

__all__ = ["Relay", "RelayLimits"]

_log = logging.getLogger("memline.relay")


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """How much a relay takes at a time."""

    #: Rows a round.
    rows: int = 200
    #: Seconds for which a round has its rows; longer than any call to the index may take.
    lease: float = 60.0
    #: Tries before a row is set aside.
    attempts: int = 20
    #: Seconds that rows wait, at most, while the index does not answer at all (1 s, 2 s, 4 s, …); this spends no tries.
    longest_pause: float = 30.0


@dataclass(frozen=True, slots=True)
class _Away:
    """The index did not answer."""

    reason: str


class Relay:
    """One relay of a process. Several may run side by side: a row is taken by one of them at a time."""

    def __init__(self, ledger: Ledger, index: Index, clock: Clock, ids: IdSource, limits: RelayLimits | None = None) -> None:
        self._ledger = ledger
        self._index = index
        self._clock = clock
        self._ids = ids
        self._limits = limits or RelayLimits()
        #: When the index first did not answer, where it has not since.
        self._away_since: datetime | None = None
        self._space = index.space if isinstance(index, OfSpace) else None

    def run_once(self) -> int:
        """One round; returns how many rows it took (0: nothing is due).

        Raises EmbedderMismatch where the ledger moved to another embedder than the index is of: what waits is for another relay.
        """
        return self._in_one_transaction() if self._index.shares_ledger else self._in_two_transactions()

    def drain(self) -> int:
        """Rounds until nothing is due."""
        total = 0
        while taken := self.run_once():
            total += taken
        return total

    def _in_one_transaction(self) -> int:
        """The index lies in the ledger's file: its rows and the outbox change together or not at all."""
        lease = self._ids.new()
        with self._ledger.read() as connection:
            if not _anything_due(connection, self._clock):
                return 0
        with self._ledger.write() as tx:
            self._check_space(tx)
            rows = self._claim(tx, lease)
            failpoints.hit("relay.claimed")
            if rows:
                lock_rows(tx, rows)
                with _traced(rows):
                    answers = self._ask(_writes(tx, rows), tx)
                self._conclude(tx, rows, answers, lease)
            failpoints.hit("relay.before_settle")
        failpoints.hit("relay.after_settle")
        return len(rows)

    def _in_two_transactions(self) -> int:
        lease = self._ids.new()
        with self._ledger.read() as connection:
            if not _anything_due(connection, self._clock):
                return 0
        with self._ledger.write() as tx:
            self._check_space(tx)
            rows = self._claim(tx, lease)
        if not rows:
            return 0
        failpoints.hit("relay.claimed")
        with self._ledger.read() as connection:
            writes = _writes(connection, rows)
        failpoints.hit("relay.before_write")
        with _traced(rows):
            answers = self._ask(writes, None)
        failpoints.hit("relay.after_write")
        with self._ledger.write() as tx:
            lock_against_swap(tx)
            self._check_space(tx)  # what an index took that nobody asks any more is not settled
            lock_rows(tx, rows)
            late = disown(tx, rows, lease=lease)
            self._conclude(tx, rows, answers, lease)
            failpoints.hit("relay.before_settle")
        self._show_again(late)
        failpoints.hit("relay.after_settle")
        return len(rows)

    def _ask(self, writes: Sequence[Write], tx: Connection | None) -> Sequence[Answer] | _Away:
        """The index's answers. An error that is not an outage is some object's own: then each is written, and answered, alone."""
        try:
            # in the ledger's own transaction a failed write must not take what stood before it along
            with nullcontext() if tx is None else tx.begin_nested():
                return self._index.write(writes, tx=tx)
        except ServiceUnavailable as error:
            return _Away(f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001
            if len(writes) == 1:
                reason = f"{type(error).__name__}: {error}" if isinstance(error, MemlineError) else type(error).__name__
                return [Answer(writes[0].key, reason)]
        answers: list[Answer] = []
        for write in writes:
            answer = self._ask([write], tx)
            if isinstance(answer, _Away):
                return answer
            answers += answer
        return answers

    def _show_again(self, late: Sequence[OutboxRow]) -> None:
        """What this relay wrote after its lease, when another had shown the index what was newer."""
        for kind in sorted({row.key.kind for row in late}):
            with self._ledger.write() as tx:
                enqueue(
                    tx, kind, {row.key.id: (row.key.namespace, row.version) for row in late if row.key.kind == kind}, now=self._clock.now()
                )

    def _claim(self, tx: Connection, lease: str) -> list[OutboxRow]:
        limits = self._limits
        return claim_outbox(tx, lease=lease, seconds=limits.lease, limit=limits.rows, now=self._clock.now())

    def _check_space(self, tx: Connection) -> None:
        if self._space is not None:
            check_own_embedder(tx, self._space.model, self._space.dimension)

    def _conclude(self, tx: Connection, rows: Sequence[OutboxRow], answers: Sequence[Answer] | _Away, lease: str) -> None:
        """Each object's own answer decides its row; while the index is away, all of them wait."""
        now = self._clock.now()
        if isinstance(answers, _Away):
            # by how long it has been away, and not by how often it was asked: what is written meanwhile asks each time
            self._away_since = self._away_since or now
            pause = min(self._limits.longest_pause, 1.0 + (now - self._away_since).total_seconds())
            release(tx, rows, lease=lease, next_at=now + timedelta(seconds=pause), error=answers.reason)
            when_committed(tx, lambda: metrics.RELAY_ROWS.add(len(rows), answer="away"))
            _log.warning("the index is away", extra=told(objects=len(rows), reason=answers.reason, wait=pause))
            return
        self._away_since = None
        said = {answer.key: answer.error for answer in answers}
        errors = {row.key: said.get(row.key, "the index did not answer for this object") for row in rows}
        taken = [row for row in rows if errors[row.key] is None]
        refused = [(row, error) for row in rows if (error := errors[row.key]) is not None]
        gone = settle(tx, taken, lease=lease)
        unsettled(tx, refused, lease=lease, now=now, max_attempts=self._limits.attempts)
        release(tx, rows, lease=lease, next_at=now)  # what is left was written again meanwhile
        shown = mark_searchable(tx, gone, now=now)
        when_committed(tx, lambda: metrics.RELAY_ROWS.add(len(taken), answer="taken"))
        when_committed(tx, lambda: metrics.RELAY_ROWS.add(len(refused), answer="refused"))
        line = told(objects=len(taken), refused=len(refused), job=_single(shown), jobs=len(shown))
        when_committed(tx, lambda: _log.info("shown", extra=line))


def _anything_due(connection: Connection, clock: Clock) -> bool:
    due = next_due(connection)
    return due is not None and due <= clock.now()


def _single(job_ids: Sequence[str]) -> str | None:
    return job_ids[0] if len(job_ids) == 1 else None


def _traced(rows: Sequence[OutboxRow]) -> AbstractContextManager[None]:
    """A span in each trace that a row is of, named by one of its objects."""
    by_trace = {row.trace: row.key.id for row in rows if row.trace is not None}
    return tracing.each("memline index write", {object_id: trace for trace, object_id in by_trace.items()}, key="object", objects=len(rows))


def _writes(connection: Connection, rows: Sequence[OutboxRow]) -> list[Write]:
    found = index_objects(connection, [row.key for row in rows])
    return [Write(row.key, found.get(row.key)) for row in rows]
