"""Accept and dispatch are one loop: read the stream, write the job rows and claim the heads of idle lanes in one transaction, then
acknowledge and delete the entries, then send the batches.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from memline.contracts import failpoints, tracing
from memline.contracts.about import told
from memline.contracts.errors import MemlineError, ServiceUnavailable, UnknownWireVersion
from memline.contracts.turn import Turn
from memline.ledger.accept import accept_turns
from memline.ledger.claim import claim
from memline.ledger.counters import count
from memline.pipeline.own_embedder import misfit
from memline.pipeline.parts import Parts, Send

__all__ = ["AcceptLoop", "Entries", "StreamEntry"]

_log = logging.getLogger("memline.accept")

#: How often a worker tries an entry that the ledger does not take.
TRIES = 5


class StreamEntry(Protocol):
    """An entry of the stream."""

    @property
    def id(self) -> str: ...

    @property
    def wire(self) -> bytes | None: ...


class Entries(Protocol):
    """The consumer side of the stream."""

    def read(self, consumer: str, *, count: int, block_ms: int) -> Sequence[StreamEntry]: ...

    def claim_idle(self, consumer: str, *, min_idle_ms: int, count: int, after: str) -> Sequence[StreamEntry]: ...

    def done(self, entry_ids: Sequence[str]) -> None: ...

    def set_aside(self, entry_ids: Sequence[str]) -> None: ...

    def leave(self, consumer: str, entry_ids: Sequence[str], *, idle_ms: int) -> int: ...


class AcceptLoop:
    """One consumer of the stream. A dead consumer's entries are claimed by another within a third of `order_wait`."""

    def __init__(self, stream: Entries, parts: Parts, send: Send, *, consumer: str, count: int = 200) -> None:
        self._stream = stream
        self._parts = parts
        self._send = send
        self._consumer = consumer
        self._count = count
        self._tries: dict[str, int] = {}
        self._next_claim = parts.clock.now()
        self._claim_after = ""
        self._uncounted = 0

    def run_once(self, block_ms: int = 1000) -> int:
        """One round: waits at most *block_ms* for entries; returns how many turns it accepted."""
        stranded = self._stranded()
        entries = [*stranded, *self._stream.read(self._consumer, count=self._count, block_ms=0 if stranded else block_ms)]
        return self._accept(entries) if entries else 0

    def _stranded(self) -> Sequence[StreamEntry]:
        """Entries that some consumer read and did not finish."""
        now = self._parts.clock.now()
        if now < self._next_claim:
            return ()
        found = self._stream.claim_idle(self._consumer, min_idle_ms=self._idle_ms, count=self._count, after=self._claim_after)
        if len(found) >= self._count:
            self._claim_after = found[-1].id  # the next round goes on behind them, so that those left below hide nothing
        else:
            self._claim_after, self._next_claim = "", now + timedelta(milliseconds=self._idle_ms)
        return found

    @property
    def _idle_ms(self) -> int:
        # a stranded entry is found at the latest after this and one more of it: a third of order_wait
        return int(self._parts.order_wait * 1000 / 6)

    def _accept(self, entries: Sequence[StreamEntry]) -> int:
        turns: list[Turn] = []
        done: list[str] = []
        unreadable: list[str] = []
        too_new: list[str] = []
        for entry in entries:
            try:
                turns.append(Turn.from_wire(entry.wire or b""))
                done.append(entry.id)
            except UnknownWireVersion:
                too_new.append(entry.id)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, MemlineError) as error:
                _log.error("entry %s is not a turn (%s) and was set aside", entry.id, type(error).__name__)
                unreadable.append(entry.id)
        if unreadable:
            self._stream.set_aside(unreadable)
        accepted = self._write(turns, done) if turns else 0
        if too_new:
            self._leave(too_new)
        return accepted

    def _leave(self, entry_ids: Sequence[str]) -> None:
        """Leaves entries unacknowledged, for a newer worker; this one looks at them again with what is stranded. Each is counted once."""
        met = self._stream.leave(self._consumer, entry_ids, idle_ms=self._idle_ms)
        if met:
            _log.warning("%d entries were written by a newer memline and are left for a newer worker: upgrade this one.", met)
        self._uncounted += met
        if self._uncounted:
            with self._parts.ledger.write() as tx:
                count(tx, "entries_too_new", self._uncounted)
            self._uncounted = 0

    def _write(self, turns: Sequence[Turn], entry_ids: Sequence[str]) -> int:
        """Accepts turns, then finishes their entries. One that the ledger can't take is set aside, the others are not held up by it."""
        parts = self._parts
        try:
            with tracing.each("memline accept", {turn.id: turn.trace for turn in turns}), parts.ledger.write() as tx:
                now = parts.clock.now()
                accept_turns(tx, turns, now=now, order_wait=parts.order_wait, entries=entry_ids, clock_margin=parts.clock_margin)
                claimed = []
                if misfit(tx, parts) is None:  # else they wait for a worker that holds the ledger's embedder
                    claimed = claim(tx, now=now, limits=parts.limits, times=parts.times, new_id=parts.ids.new, paid=parts.extractor.paid)
                failpoints.hit("accept.before_commit")
            failpoints.hit("accept.after_commit")
        except ServiceUnavailable:
            raise  # the entries stay, and are read again
        except Exception as error:  # noqa: BLE001
            if len(turns) > 1:
                return sum(self._write([turn], [entry_id]) for turn, entry_id in zip(turns, entry_ids, strict=True))
            self._refused(entry_ids[0], error)
            return 0
        for entry_id in entry_ids:
            self._tries.pop(entry_id, None)
        self._stream.done(entry_ids)
        failpoints.hit("accept.after_done")
        _log.info("accepted", extra=told(turns=len(turns), job=turns[0].id if len(turns) == 1 else None, batches=len(claimed)))
        self._send(claimed)
        return len(turns)

    def _refused(self, entry_id: str, error: Exception) -> None:
        """Leaves an entry unacknowledged, to be read again with what is stranded; after `TRIES` of it nothing but setting aside helps."""
        self._tries[entry_id] = self._tries.get(entry_id, 0) + 1
        if self._tries[entry_id] < TRIES:
            _log.warning("entry %s could not be accepted (%s) and is tried again", entry_id, type(error).__name__)
            return
        _log.error("entry %s can't be accepted (%s) and was set aside", entry_id, type(error).__name__)
        self._stream.set_aside([entry_id])
        del self._tries[entry_id]
