"""The turns behind imported memories: one finished job a turn of the source, at a place of its own at the end of its lane.

Everything that reads a memory's job (receipts, pruning, deletion, `verify`) finds what it expects; memories of one turn stay beside each
other, since what stands near in a lane is context. The id depends on the lane and the source's turn alone, so a turn whose memories come
in two batches, or in two imports, has one job. It carries no message.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.ids import derived_id, digest_of
from memline.contracts.portable import PortableMemory
from memline.contracts.receipt import Event, Status
from memline.contracts.scope import Scope
from memline.ledger.jobs import Stage, lock_which
from memline.ledger.locks import epoch_sums
from memline.ledger.schema import jobs, lanes, memories
from memline.ledger.seats import ensure_lanes

__all__ = ["IMPORTED", "Seats"]

#: Why such a job ended: nobody handed a turn over.
IMPORTED = "imported"


@dataclass(slots=True)
class _Job:
    """A job that is made, or that is there and gets more."""

    id: str
    scope: Scope
    turn: str
    place: int
    said_at: datetime
    infer: bool
    is_new: bool
    next_ordinal: int = 0
    outcome: list[list[str]] = field(default_factory=list)


class Seats:
    """Seats for the memories of one batch, whose lanes are locked from here on."""

    def __init__(self, tx: Connection, found: Collection[PortableMemory], *, now: datetime) -> None:
        self._tx = tx
        self._now = now
        self._scopes = {memory.scope.lane: memory.scope for memory in found}
        ensure_lanes(tx, [self._scopes[lane] for lane in sorted(self._scopes)], now=now)
        query = sa.select(lanes.c.key, lanes.c.last_place, lanes.c.owner_no).where(lanes.c.key.in_(list(self._scopes)))
        rows = tx.execute(query.order_by(lanes.c.key).with_for_update(key_share=True)).all()
        self._last_places: dict[str, int] = {row.key: row.last_place for row in rows}
        self._owner_nos: dict[str, int] = {row.key: row.owner_no for row in rows}
        self._jobs: dict[str, _Job] = {}
        self._load({_job_id(memory.scope, memory.turn): memory for memory in found})

    def owner_no(self, lane: str) -> int:
        return self._owner_nos[lane]

    def seat(self, memory: PortableMemory, memory_id: str) -> dict[str, Any]:
        """The columns that say where a memory (*memory*, or a placeholder beside it) lies."""
        job_id = _job_id(memory.scope, memory.turn)
        job = self._jobs.get(job_id)
        if job is None:
            lane = memory.scope.lane
            self._last_places[lane] += 1
            job = _Job(job_id, memory.scope, memory.turn, self._last_places[lane], memory.occurred_at, not memory.verbatim, is_new=True)
            self._jobs[job_id] = job
        ordinal = job.next_ordinal
        job.next_ordinal += 1
        job.outcome.append([memory_id, Event.ADD.value])
        return {"job_id": job.id, "ordinal": ordinal, "place": job.place}

    def write(self, shown: Collection[str]) -> None:
        """Writes the jobs. Those with a memory of *shown* are searchable when the index has it; the others are done."""
        changed = [job for job in self._jobs.values() if job.is_new or len(job.outcome)]
        epochs = epoch_sums(self._tx, {lane: scope.subjects for lane, scope in self._scopes.items()})
        new = [self._row(job, epochs[job.scope.lane], waits=self._waits(job, shown)) for job in changed if job.is_new]
        if new:
            self._tx.execute(sa.insert(jobs), new)
        for job in changed:
            if not job.is_new:
                before = self._tx.execute(sa.select(jobs.c.outcome).where(jobs.c.id == job.id)).scalar_one() or []
                values: dict[str, Any] = {"outcome": [*before, *job.outcome]}
                if self._waits(job, shown):
                    values |= {"state": Status.COMMITTED.value, "searchable_at": None}
                self._tx.execute(sa.update(jobs).where(jobs.c.id == job.id).values(**values))
        for lane in sorted({job.scope.lane for job in changed if job.is_new}):
            self._tx.execute(sa.update(lanes).where(lanes.c.key == lane).values(last_place=self._last_places[lane]))

    def _load(self, wanted: dict[str, PortableMemory]) -> None:
        ids = sorted(wanted)
        lock_which(self._tx, jobs.c.id.in_(ids))
        for start in range(0, len(ids), 500):
            some = ids[start : start + 500]
            last = sa.select(memories.c.job_id, sa.func.max(memories.c.ordinal)).where(memories.c.job_id.in_(some))
            ordinals: dict[str, int] = {job_id: ordinal for job_id, ordinal in self._tx.execute(last.group_by(memories.c.job_id))}
            query = sa.select(jobs.c.id, jobs.c.place, jobs.c.said_at, jobs.c.infer).where(jobs.c.id.in_(some))
            for row in self._tx.execute(query):
                memory = wanted[row.id]
                job = _Job(row.id, memory.scope, memory.turn, row.place, row.said_at, row.infer, is_new=False)
                job.next_ordinal = ordinals.get(row.id, -1) + 1
                self._jobs[row.id] = job

    @staticmethod
    def _waits(job: _Job, shown: Collection[str]) -> bool:
        return any(memory_id in shown for memory_id, _ in job.outcome)

    def _row(self, job: _Job, epochs: int, *, waits: bool) -> dict[str, Any]:
        return {
            "id": job.id,
            "lane": job.scope.lane,
            "namespace": job.scope.namespace,
            "producer": "",
            "number": 0,
            "place": job.place,
            "state": (Status.COMMITTED if waits else Status.SEARCHABLE).value,
            "stage": Stage.DONE.value,
            "epochs": epochs,
            "infer": job.infer,
            "fingerprint": digest_of("import", job.scope.lane, job.turn),
            "outcome": job.outcome,
            "reason": IMPORTED,
            "said_at": job.said_at,
            "occurred_at": job.said_at,
            "handed_at": self._now,
            "accepted_at": self._now,
            "committed_at": self._now,
            "searchable_at": None if waits else self._now,
            "finished_at": self._now,
        }


def _job_id(scope: Scope, turn: str) -> str:
    return derived_id("import", scope.lane, turn)
