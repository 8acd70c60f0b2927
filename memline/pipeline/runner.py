"""Runs one stage of one batch: take the lease, work outside a transaction, then write the result and the advance in one.

Run twice, a stage does nothing the second time: the lease is taken once, and the guard stands in the transaction that commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy.engine import Connection

from memline.contracts import failpoints, incidents, metrics, tracing
from memline.contracts.about import about, line_of, told
from memline.contracts.errors import EmbedderMismatch, LeaseLost, ServiceUnavailable
from memline.contracts.incidents import FailedJob
from memline.contracts.metric_reasons import reason_class
from memline.ledger import leases
from memline.ledger.cancel import cancel_jobs
from memline.ledger.claim import claim
from memline.ledger.counters import count
from memline.ledger.jobs import Job, Stage, fail_jobs, jobs_of_lease, lock_jobs, postpone_jobs
from memline.ledger.leases import Lease
from memline.ledger.locks import epoch_sums, lock_owners, lock_subjects
from memline.ledger.session import when_committed
from memline.pipeline import dedup, embed, extract, link, persist, save
from memline.pipeline.outages import after_outage
from memline.pipeline.own_embedder import misfit
from memline.pipeline.parts import Batch, Failure, Parts, Prepared, Send, reason_of
from memline.pipeline.units import BEHIND

__all__ = ["claim_and_send", "give_back_waiting", "run_stage", "run_through"]


class _StageModule(Protocol):
    @property
    def prepare(self) -> Callable[[Parts, Batch], Prepared]: ...

    @property
    def commit(self) -> Callable[[Connection, Parts, Sequence[Job], Prepared], None]: ...


_MODULES: dict[Stage, _StageModule] = {
    Stage.EXTRACT: extract,
    Stage.EMBED: embed,
    Stage.DEDUP: dedup,
    Stage.PERSIST: persist,
    Stage.LINK: link,
    Stage.SAVE: save,
}

_log = logging.getLogger("memline.runner")

#: Times that a lease is renewed while it lasts. Often, since a call may last three quarters of a lease and must end within it.
_RENEWALS = 12

#: Stages whose commit must not run beside another of the same owner, nor beside a delete.
_OWNERS_ALONE = (Stage.PERSIST, Stage.LINK, Stage.SAVE)


@dataclass(frozen=True, slots=True)
class _Run:
    parts: Parts
    lease: Lease
    send: Send
    #: Jobs that failed for good, as it was committed, and that nobody was told of yet.
    failed: list[FailedJob] = field(default_factory=list)


def run_stage(parts: Parts, lease_id: str, epoch: int, stage: Stage, *, worker: str, send: Send) -> Lease | None:
    """Runs *stage* for a batch. Returns the batch at its next stage; None where there is nothing to go on with.

    *send* is given batches that are to be run by whoever is free: those that were divided off, and those claimed when lanes became
    free. Raises what the ledger raises when it does not answer; then the lease runs out and the jobs are retried.
    """
    with about(stage=stage.value, lease=lease_id):
        return _taken(parts, lease_id, epoch, stage, worker=worker, send=send)


def _taken(parts: Parts, lease_id: str, epoch: int, stage: Stage, *, worker: str, send: Send) -> Lease | None:
    with parts.ledger.write() as tx:
        lease = leases.take(tx, lease_id, epoch, stage, worker=worker, now=parts.clock.now(), times=parts.times)
        if lease is None:
            return None
        jobs = jobs_of_lease(tx, lease.id)
        moved = misfit(tx, parts)
    run = _Run(parts, lease, send)
    traces = {job.id: job.trace for job in jobs}
    with about(**_whose(jobs)), tracing.each(f"memline {stage.value}", traces, stage=stage.value, lease=lease.id):
        return _worked(run, jobs, moved)


def _whose(jobs: Sequence[Job]) -> dict[str, str | int]:
    """What a batch is about: its job, or how many; and the namespace, where it is one."""
    namespaces = {job.scope.namespace for job in jobs}
    which: dict[str, str | int] = {"job": jobs[0].id} if len(jobs) == 1 else {"jobs": len(jobs)}
    return which if len(namespaces) != 1 else which | {"namespace": namespaces.pop()}


def _worked(run: _Run, jobs: Sequence[Job], moved: EmbedderMismatch | None) -> Lease | None:
    parts, stage = run.parts, run.lease.stage
    left = {job.id: job for job in jobs}
    began = parts.clock.now()
    metrics.BATCH_JOBS.observe(len(jobs), stage=stage.value)

    def took(outcome: str) -> float:
        seconds = (parts.clock.now() - began).total_seconds()
        metrics.STAGE_SECONDS.observe(max(0.0, seconds), stage=stage.value, outcome=outcome)
        return seconds

    try:
        if moved is not None:
            raise moved
        failpoints.hit(f"{stage}.taken")
        prepared = _MODULES[stage].prepare(parts, _batch(run, jobs, left))
        advanced = _commit(run, list(left.values()), prepared)
    except LeaseLost as error:
        took("lost")
        _log.info("lease lost", extra=told(reason=str(error)))
        return None
    except Exception as error:  # noqa: BLE001
        # Whatever it was, the jobs say so and are tried again, each alone; none of it is lost.
        took("given_back")
        _give_back(run, list(left.values()), error)
        _tell_failed(run)
        return None
    seconds = took("done")
    _log.info("committed" if stage is Stage.PERSIST else "stage done", extra=told(jobs=len(jobs), seconds=seconds))
    _tell_failed(run)
    return advanced


def _tell_failed(run: _Run) -> None:
    """After the commit: a job that failed is heard of (G13)."""
    for failed in run.failed:
        _log.error("job failed", extra=told(job=failed.job, namespace=failed.namespace, reason=failed.reason, tries=failed.attempts))
        incidents.job_failed(failed)
    run.failed.clear()


def _fail(run: _Run, tx: Connection, job: Job, reason: str, now: datetime) -> None:
    fail_jobs(tx, [job.no], reason=reason, now=now)
    when_committed(tx, lambda: metrics.FAILURES.add(1, stage=run.lease.stage.value, reason=reason_class(reason)))
    failed = FailedJob(job.id, run.lease.stage.value, job.scope.namespace, reason, job.attempts + 1)
    when_committed(tx, lambda: run.failed.append(failed))


def _tell_retried(tx: Connection, job: Job, reason: str, wait: float) -> None:
    line = told(job=job.id, namespace=job.scope.namespace, reason=reason, tries=job.attempts + 1, wait=wait)
    when_committed(tx, lambda: _log.info("job retried", extra=line))


def _count_retries(run: _Run, tx: Connection, number: int, reason: str | BaseException) -> None:
    when_committed(tx, lambda: metrics.RETRIES.add(number, stage=run.lease.stage.value, reason=reason_class(reason)))


def run_through(parts: Parts, lease: Lease, *, worker: str, send: Send, stopped: Callable[[], bool]) -> None:
    """Runs a batch from where it is to its end, in this thread; between two stages it may be stopped, and is given back."""
    current: Lease | None = lease
    while current is not None:
        if stopped():
            give_back_waiting(parts, [current])
            return
        current = run_stage(parts, current.id, current.epoch, current.stage, worker=worker, send=send)


def give_back_waiting(parts: Parts, waiting: Sequence[Lease]) -> None:
    """Ends batches that nobody took, so that their jobs are claimed again at once instead of after the lease."""
    for lease in waiting:
        with parts.ledger.write() as tx:
            if leases.take(tx, lease.id, lease.epoch, lease.stage, worker="", now=parts.clock.now(), times=parts.times) is not None:
                leases.hand_back(tx, lease, now=parts.clock.now())


def claim_and_send(parts: Parts, send: Send) -> int:
    """Claims what is ready and sends it; the number of batches.

    Raises EmbedderMismatch where the ledger moved to another embedder: what is ready waits for a process that holds it.
    """
    with parts.ledger.write() as tx:
        if (moved := misfit(tx, parts)) is not None:
            raise moved
        claimed = _claim(parts, tx)
    send(claimed)
    return len(claimed)


def _claim(parts: Parts, tx: Connection) -> list[Lease]:
    return claim(tx, now=parts.clock.now(), limits=parts.limits, times=parts.times, new_id=parts.ids.new, paid=parts.extractor.paid)


def _batch(run: _Run, jobs: Sequence[Job], left: dict[str, Job]) -> Batch:
    parts = run.parts
    renewed_at = parts.clock.now()

    def keep() -> None:
        nonlocal renewed_at
        now = parts.clock.now()
        if now - renewed_at < timedelta(seconds=parts.times.lease / _RENEWALS):
            return
        with parts.ledger.write() as tx:
            leases.renew(tx, run.lease, now=now, times=parts.times)
        renewed_at = now

    def hand_on(ready: Sequence[Job], prepared: Prepared) -> None:
        divided: Lease | None = None
        with parts.ledger.write() as tx:
            current = _enter(run, tx, ready)
            if current:
                _MODULES[run.lease.stage].commit(tx, parts, current, prepared)
                divided = leases.divide(tx, run.lease, current, new_id=parts.ids.new(), now=parts.clock.now(), times=parts.times)
        for job in ready:
            left.pop(job.id)
        if divided is not None:
            _send(run, [divided])

    return Batch(run.lease, jobs, keep, hand_on)


def _send(run: _Run, batches: Sequence[Lease]) -> None:
    try:
        run.send(batches)
    except ServiceUnavailable as error:
        # What is written is written: the batches wait in the ledger, and the sweep sends them again.
        _log.warning("%s", error)


def _enter(run: _Run, tx: Connection, jobs: Sequence[Job]) -> list[Job]:
    """Takes the locks, proves that the lease is ours, and cancels jobs whose subject was erased; returns the others.

    A job that somebody cancelled since the batch was read is in it no more, and is left out.
    """
    subjects = {job.id: job.scope.subjects for job in jobs}
    lock_subjects(tx, {subject for group in subjects.values() for subject in group})
    if run.lease.stage in _OWNERS_ALONE:
        lock_owners(tx, {job.scope.owner.key for job in jobs})
    now = run.parts.clock.now()
    leases.guard(tx, run.lease, now=now)
    there = lock_jobs(tx, run.lease.id)
    jobs = [job for job in jobs if job.no in there]
    epochs = epoch_sums(tx, subjects)
    erased = [job for job in jobs if epochs[job.id] != job.epochs]
    if erased:
        cancel_jobs(tx, [job.no for job in erased], reason="its subject was erased", now=now)
    return [job for job in jobs if epochs[job.id] == job.epochs]


def _commit(run: _Run, jobs: Sequence[Job], prepared: Prepared) -> Lease | None:
    parts = run.parts
    claimed: list[Lease] = []
    with parts.ledger.write() as tx:
        current = _enter(run, tx, jobs)
        stopped = _stop_failed(run, tx, current, prepared.failures)
        going = [job for job in current if job.id not in stopped]
        if going:
            _MODULES[run.lease.stage].commit(tx, parts, going, prepared)
        now = parts.clock.now()
        advanced: Lease | None = None
        if not going:
            leases.hand_back(tx, run.lease, now=now)
        elif run.lease.stage is Stage.SAVE:
            leases.end(tx, run.lease, now=now)
        else:
            leases.free_lanes(tx, run.lease.id, now=now, only_empty=True)
            advanced = replace(leases.advance(tx, run.lease, now=now, times=parts.times), jobs=tuple(job.id for job in going))
        if advanced is None:
            claimed = _claim(parts, tx)
        failpoints.hit(f"{run.lease.stage}.before_commit")
    failpoints.hit(f"{run.lease.stage}.after_commit")
    _send(run, claimed)
    return advanced


def _stop_failed(run: _Run, tx: Connection, jobs: Sequence[Job], failures: Mapping[str, Failure]) -> set[str]:
    """Takes failed jobs out of the batch, and what waits behind a postponed one in its lane, so that the order stays."""
    now = run.parts.clock.now()
    stopped: set[str] = set()
    waiting_lanes: set[str] = set()
    behind: list[Job] = []
    apart: list[Job] = []
    for job in jobs:
        failure = failures.get(job.id)
        if failure is not None and job.lane not in waiting_lanes:
            failure = after_outage(tx, run.parts, job, failure)
        if job.lane in waiting_lanes:
            (apart if failure is not None and failure.alone else behind).append(job)
        elif failure is None:
            continue
        elif failure.retry_in is None:
            _fail(run, tx, job, failure.reason, now)
        else:
            next_at = now + timedelta(seconds=failure.retry_in)
            if failure.reason != BEHIND:
                _tell_retried(tx, job, failure.reason, failure.retry_in)
                _count_retries(run, tx, 1, failure.reason)
            postpone_jobs(tx, [job], next_at=next_at, spend=failure.spends, alone=job.alone or failure.alone, reason=failure.reason)
            count(tx, "units_apart", int(failure.alone and failure.outage_of is None))
            waiting_lanes.add(job.lane)
        stopped.add(job.id)
    for some, alone in ((behind, False), (apart, True)):
        if some:
            postpone_jobs(tx, some, next_at=now, spend=False, alone=alone, reason=BEHIND)
    return stopped


def _give_back(run: _Run, jobs: Sequence[Job], error: Exception) -> None:
    """After an unexpected failure: jobs of a batch are retried alone; only a job that failed alone spends an attempt."""
    parts = run.parts
    reason = f"{run.lease.stage}: {reason_of(error)}"
    _log.warning("batch given back", extra=told(jobs=len(jobs), reason=reason, at=line_of(error)))
    with parts.ledger.write() as tx:
        now = parts.clock.now()
        try:
            leases.guard(tx, run.lease, now=now)
        except LeaseLost:
            return
        there = lock_jobs(tx, run.lease.id)
        jobs = [job for job in jobs if job.no in there]
        if isinstance(error, (ServiceUnavailable, EmbedderMismatch)):
            # A part is away, or this process is the wrong one: that is no job's failure. They wait, as they are, for another try.
            next_at = now + timedelta(seconds=parts.retry.first_delay)
            for alone in (False, True):
                same = [job for job in jobs if job.alone is alone]
                postpone_jobs(tx, same, next_at=next_at, spend=False, alone=alone, reason=reason)
            _count_retries(run, tx, len(jobs), error)
            leases.hand_back(tx, run.lease, now=now)
            return
        if len(jobs) > 1:
            postpone_jobs(tx, jobs, next_at=now, spend=False, alone=True, reason=reason)
            _count_retries(run, tx, len(jobs), error)
        for job in jobs if len(jobs) == 1 else ():
            if job.attempts + 1 >= parts.retry.max_attempts:
                _fail(run, tx, job, reason, now)
            else:
                next_at = now + timedelta(seconds=parts.retry.delay(job.attempts))
                postpone_jobs(tx, [job], next_at=next_at, spend=True, alone=True, reason=reason)
                _count_retries(run, tx, 1, error)
        leases.hand_back(tx, run.lease, now=now)
