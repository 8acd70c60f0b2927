"""Stage 1: the facts of a turn. Verbatim turns are their own facts; for the others the extractor is asked.

How one turn is asked is in `asking`, several in one call in `units`; which facts are kept, whatever made them, in `keeping`. A paid reply
is stored before it is read, and a retry reads what is stored instead of asking again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.about import about
from memline.contracts.errors import ConfigurationError, ProviderError, ProviderUnavailable
from memline.contracts.fact import Fact
from memline.contracts.message import SOURCES, cut, without_marks
from memline.language.ports import Vectors
from memline.ledger.counters import count
from memline.ledger.jobs import Job
from memline.ledger.results import FACTS, NOTES, load_replies, store_results
from memline.ledger.schema import jobs as job_rows
from memline.pipeline.asking import STAGE, Extraction, extracted
from memline.pipeline.contexts import WINDOW, drop_looked, embedded_contexts
from memline.pipeline.extractors.port import Known
from memline.pipeline.extractors.procedure import MAX_PROCEDURE, steps_of
from memline.pipeline.images import described, has_images, keep_descriptions, stored_descriptions
from memline.pipeline.keeping import kept
from memline.pipeline.located import placed
from memline.pipeline.parts import Batch, Failure, Parts, Prepared, failure_of, reason_of
from memline.pipeline.units import APART, BEHIND, Plan, ask_unit, divide_stored, drop_units, named_facts, plan_units, with_known

__all__ = ["FACTS", "WINDOW", "commit", "prepare"]

#: Seconds that ready jobs wait for slower ones of their batch.
PATIENCE = 0.25


@dataclass(frozen=True, slots=True)
class _Known:
    """What is there already for a job: stored replies, descriptions of its images, the vectors of what was said in it."""

    replies: Sequence[str] = ()
    images: Mapping[int, str] = field(default_factory=dict)
    vectors: Vectors | None = None


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """Facts by job."""
    values: dict[str, Extraction] = {}
    failures: dict[str, Failure] = {}
    paid = parts.extractor.paid
    outside = [job for job in batch.jobs if has_images(job) or (job.infer and paid)]
    calling = {job.id for job in outside}
    for job in batch.jobs:
        if job.id not in calling:
            batch.keep()
            values |= _facts(parts, [job], {job.id: _Known()})
    if not outside:
        return Prepared(values)
    with parts.ledger.read() as connection:
        replies = load_replies(connection, STAGE, [job.id for job in outside]) if paid else {}
        images = stored_descriptions(connection, outside)
    if paid:
        shares = divide_stored(parts, [job for job in outside if job.id not in replies])
        replies |= {job_id: [body] for job_id, body in shares.items()}
    plan = plan_units(parts, batch.jobs, replies) if paid else Plan()
    for job in plan.later:
        failures[job.id] = Failure(BEHIND, 0.0, spends=False)
    outside = [job for job in outside if job.id not in failures]
    fresh = [job for job in outside if job.infer and paid and job.id not in replies and not has_images(job)]
    vectors = embedded_contexts(parts, batch, fresh)
    known = {job.id: _Known(replies.get(job.id, ()), images.get(job.id, {}), vectors.get(job.id)) for job in outside}
    _ask_all(parts, batch, _Asked(outside, plan.units, known), values, failures)
    return Prepared(values, failures)


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Keeps the facts for the stages that follow, what is to be told of them, who found them, and what was seen on images."""
    keep_descriptions(tx, jobs)
    found: dict[str, Extraction] = {job.id: prepared.values[job.id] for job in jobs}
    now = parts.clock.now()
    store_results(tx, FACTS, {job_id: [fact.to_json() for fact in one.facts] for job_id, one in found.items()}, now=now)
    store_results(tx, NOTES, {job_id: notes for job_id, one in found.items() if (notes := _notes(one))}, now=now)
    for by in {one.by for one in found.values() if one.by is not None}:
        named = [job.no for job in jobs if found[job.id].by == by]
        tx.execute(sa.update(job_rows).where(job_rows.c.no.in_(named)).values(extractor=by))
    count(tx, "links_dropped", sum(one.links_dropped for one in found.values()))
    count(tx, "pasted_dropped", sum(one.pasted for one in found.values()))
    count(tx, "pasted_blanked", sum(one.blanked for one in found.values()))
    count(tx, "assistant_left_out", sum(one.left_out for one in found.values()))
    if parts.extractor.paid:
        drop_units(tx, jobs)
        drop_looked(tx, parts, jobs)


def _notes(found: Extraction) -> dict[str, Any]:
    """What a receipt tells beside the facts."""
    told = {"left_out": found.left_out, "pasted": found.pasted, "blanked": found.blanked}
    told["windows"] = found.windows if found.windows > 1 else 0
    return {name: number for name, number in told.items() if number}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked outside: jobs, those of them that go together, and what is there already."""

    jobs: Sequence[Job]
    units: Sequence[Sequence[Job]]
    known: Mapping[str, _Known]


def _ask_all(parts: Parts, batch: Batch, asked: _Asked, values: dict[str, Extraction], failures: dict[str, Failure]) -> None:
    """Asks for several jobs at a time. Lanes that are ready go on alone when others take longer: a slow call holds back nobody."""
    jobs = {job.id: job for job in batch.jobs}
    pool = ThreadPoolExecutor(max_workers=max(1, min(parts.parallel_asks, len(asked.jobs))), thread_name_prefix="memline-ask")
    try:
        running: dict[Future[dict[str, Extraction]], Sequence[Job]] = {}
        for unit in _calls(asked):
            running[pool.submit(copy_context().run, _facts, parts, unit, asked.known)] = unit
        while running:
            done, _ = wait(running, timeout=min(PATIENCE, parts.times.lease / 3), return_when=FIRST_COMPLETED)
            for future in done:
                unit = running.pop(future)
                try:
                    values |= future.result()
                except (ProviderError, ConfigurationError) as error:
                    failures |= _failures(parts, unit, error)
            batch.keep()
            if done or not running:
                continue
            slow = {job.lane for unit in running.values() for job in unit} | {jobs[job_id].lane for job_id in failures}
            ready = [job for job in jobs.values() if job.lane not in slow]
            if ready:
                batch.hand_on(ready, Prepared({job.id: values.pop(job.id) for job in ready}))
                for job in ready:
                    del jobs[job.id]
    finally:
        # Where the lease is lost, no further call is begun: whoever has the jobs now makes it.
        pool.shutdown(cancel_futures=True)


def _calls(asked: _Asked) -> list[Sequence[Job]]:
    together = {job.id for unit in asked.units for job in unit}
    return [*asked.units, *([job] for job in asked.jobs if job.id not in together)]


def _failures(parts: Parts, unit: Sequence[Job], error: ProviderError | ConfigurationError) -> dict[str, Failure]:
    """What an error means for the jobs of a call. A unit that fails is taken apart: no job's failure, unless nobody is answered."""
    if len(unit) > 1 and not (isinstance(error, ProviderUnavailable) and error.cause != "answer"):
        wait = parts.retry.delay(0) if isinstance(error, ProviderUnavailable) else 0.0
        return {job.id: Failure(f"{APART} ({reason_of(error)})", wait, spends=False, alone=True) for job in unit}
    first, *others = unit
    own = failure_of(error, first, parts.retry)
    return {first.id: own} | {job.id: Failure(BEHIND, 0.0, spends=False) for job in others}


def _facts(parts: Parts, unit: Sequence[Job], known: Mapping[str, _Known]) -> dict[str, Extraction]:
    """The facts of one job, or of several that are asked in one call."""
    if len(unit) == 1:
        with about(job=unit[0].id, namespace=unit[0].scope.namespace):
            return {unit[0].id: _facts_of(parts, unit[0], known[unit[0].id])}
    vectors = {job.id: there for job in unit if (there := known[job.id].vectors) is not None}
    with about(jobs=len(unit), job=unit[0].id, namespace=unit[0].scope.namespace):
        shares = ask_unit(parts, unit, vectors)
        found: dict[str, Extraction] = {}
        before: list[Known] = []  # facts of earlier turns of the reply, under the ids that they will have
        for job in unit:
            found[job.id] = _facts_of(parts, job, _Known((with_known(shares[job.id], before),)))
            before += named_facts(job, found[job.id])
        return found


def _facts_of(parts: Parts, job: Job, known: _Known) -> Extraction:
    job = described(parts, job, known.images)
    if not job.infer:
        return Extraction(_verbatim(job))
    found = extracted(parts, job, known.replies, known.vectors)
    if job.memory_type is not None:
        return replace(found, facts=_one(found.facts))
    return placed(kept(parts, job, found), job.messages)


def _verbatim(job: Job) -> list[Fact]:
    """Each message of a person or an assistant as it stands; the rest is context. Of a procedure, all its messages are one memory."""
    if job.memory_type is not None:
        text = steps_of(job.messages)
        return [Fact(text, "assistant")] if text else []
    return [
        Fact(message.text, message.role, message=index, role=message.role, actor=message.name, span=(0, len(message.text)))
        for index, message in enumerate(job.messages)
        if message.role in SOURCES and without_marks(message.text).strip()
    ]


def _one(found: Sequence[Fact]) -> list[Fact]:
    """The memory of a procedure: one, which no newer fact replaces."""
    return [Fact(cut("\n".join(fact.text for fact in found), MAX_PROCEDURE), "assistant")] if found else []
