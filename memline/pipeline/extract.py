"""Stage 1: the facts of a turn. Verbatim turns are their own facts; for the others the extractor is asked.

Only what people and the assistant say is a source: a fact that an extractor took from another message is dropped here, whatever made it.
A paid reply is stored before it is read, under the number of the ask, and a retry reads what is stored instead of asking again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection

from memline.contracts import failpoints, tracing
from memline.contracts.about import about
from memline.contracts.errors import ConfigurationError, ProviderError, ReplyUnreadable
from memline.contracts.fact import Fact
from memline.contracts.message import SOURCES, Message, without_marks
from memline.language.ports import Vectors
from memline.ledger.jobs import Job
from memline.ledger.results import FACTS, keep_replies, load_replies, store_results
from memline.pipeline.contexts import WINDOW, embedded_contexts, plain_request, with_context
from memline.pipeline.extractors.port import Known, Request
from memline.pipeline.extractors.procedure import steps_of
from memline.pipeline.images import described, has_images, keep_descriptions, stored_descriptions
from memline.pipeline.paid import paid_call
from memline.pipeline.parts import Batch, Failure, Parts, Prepared, failure_of

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
    values: dict[str, list[Fact]] = {}
    failures: dict[str, Failure] = {}
    paid = parts.extractor.paid
    outside = [job for job in batch.jobs if has_images(job) or (job.infer and paid)]
    calling = {job.id for job in outside}
    for job in batch.jobs:
        if job.id not in calling:
            batch.keep()
            values[job.id] = _facts(parts, job, _Known())
    if not outside:
        return Prepared(values)
    with parts.ledger.read() as connection:
        replies = load_replies(connection, "extract", [job.id for job in outside]) if paid else {}
        images = stored_descriptions(connection, outside)
    fresh = [job for job in outside if job.infer and paid and job.id not in replies and not has_images(job)]
    vectors = embedded_contexts(parts, batch, fresh)
    known = {job.id: _Known(replies.get(job.id, ()), images.get(job.id, {}), vectors.get(job.id)) for job in outside}
    _ask_all(parts, batch, outside, known, values, failures)
    return Prepared(values, failures)


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Keeps the facts for the stages that follow, and what was seen on images."""
    keep_descriptions(tx, jobs)
    facts = {job.id: [fact.to_json() for fact in prepared.values[job.id]] for job in jobs}
    store_results(tx, FACTS, facts, now=parts.clock.now())


def _ask_all(
    parts: Parts,
    batch: Batch,
    asked: Sequence[Job],
    known: Mapping[str, _Known],
    values: dict[str, list[Fact]],
    failures: dict[str, Failure],
) -> None:
    """Asks for several jobs at a time. Lanes that are ready go on alone when others take longer: a slow call holds back nobody."""
    jobs = {job.id: job for job in batch.jobs}
    pool = ThreadPoolExecutor(max_workers=max(1, min(parts.parallel_asks, len(asked))), thread_name_prefix="memline-ask")
    try:
        running: dict[Future[list[Fact]], Job] = {pool.submit(copy_context().run, _facts, parts, job, known[job.id]): job for job in asked}
        while running:
            done, _ = wait(running, timeout=min(PATIENCE, parts.times.lease / 3), return_when=FIRST_COMPLETED)
            for future in done:
                job = running.pop(future)
                try:
                    values[job.id] = future.result()
                except (ProviderError, ConfigurationError) as error:
                    failures[job.id] = failure_of(error, job, parts.retry)
            batch.keep()
            if done or not running:
                continue
            slow = {job.lane for job in running.values()} | {jobs[job_id].lane for job_id in failures}
            ready = [job for job in jobs.values() if job.lane not in slow]
            if ready:
                batch.hand_on(ready, Prepared({job.id: values.pop(job.id) for job in ready}))
                for job in ready:
                    del jobs[job.id]
    finally:
        # Where the lease is lost, no further call is begun: whoever has the jobs now makes it.
        pool.shutdown(cancel_futures=True)


def _facts(parts: Parts, job: Job, known: _Known) -> list[Fact]:
    """The facts of one job."""
    with about(job=job.id, namespace=job.scope.namespace):
        return _facts_of(parts, job, known)


def _facts_of(parts: Parts, job: Job, known: _Known) -> list[Fact]:
    job = described(parts, job, known.images)
    if not job.infer:
        return _verbatim(job)
    found = _extracted(parts, job, known)
    if job.memory_type is not None:
        return _one(found)
    return [_spoken(fact, job.messages) for fact in found if _is_sourced(fact, job.messages)]


def _verbatim(job: Job) -> list[Fact]:
    """Each message of a person or an assistant as it stands; the rest is context. Of a procedure, all its messages are one memory."""
    if job.memory_type is not None:
        text = steps_of(job.messages)
        return [Fact(text, "assistant")] if text else []
    return [
        Fact(message.text, attributed_to=message.role, message=index, role=message.role, actor=message.name)
        for index, message in enumerate(job.messages)
        if message.role in SOURCES and without_marks(message.text).strip()
    ]


def _one(found: Sequence[Fact]) -> list[Fact]:
    """The memory of a procedure: one, which no newer fact replaces."""
    return [Fact("\n".join(fact.text for fact in found), "assistant")] if found else []


def _is_sourced(fact: Fact, messages: Sequence[Message]) -> bool:
    message = _message_of(fact, messages)
    return message is None or message.role in SOURCES


def _spoken(fact: Fact, messages: Sequence[Message]) -> Fact:
    """*fact* with who said it: the `name` of its message, or the one name that the speaker's messages have, where none is told."""
    if (said := _message_of(fact, messages)) is not None:
        return replace(fact, actor=said.name)
    names = {message.name for message in messages if message.role == fact.attributed_to and message.text.strip()}
    return replace(fact, actor=names.pop() if len(names) == 1 else None)


def _message_of(fact: Fact, messages: Sequence[Message]) -> Message | None:
    """The message that the extractor named."""
    return messages[fact.message] if fact.message is not None and 0 <= fact.message < len(messages) else None


def _extracted(parts: Parts, job: Job, there: _Known) -> list[Fact]:
    """What the extractor finds in one job, from a stored reply or a new one.

    For a readable reply it is asked again, `RetryPolicy.asks` times in all; a job that failed so and is replayed asks as often anew.
    """
    stored = there.replies
    unreadable: ReplyUnreadable | None = None
    for body in stored:
        reply, known = _unpacked(body)
        try:
            # as it was asked: the short ids in a reply are those of the memories that were shown then
            return list(parts.extractor.read(reply, replace(plain_request(job), known=known)))
        except ReplyUnreadable as error:
            unreadable = error
    asks = parts.retry.asks
    for ask in range(len(stored), (len(stored) // asks + 1) * asks):
        request = with_context(parts, job, there.vectors)
        failpoints.hit("extract.before_ask")
        with paid_call(parts, "extract", [job], model=parts.extractor.name, paid=parts.extractor.paid) as paid:
            with tracing.span_of(job.id, "memline ask model", ask=ask):
                reply = parts.extractor.ask(request)
            failpoints.hit("extract.after_ask")
        if parts.extractor.paid:
            with parts.ledger.write() as tx:
                keep_replies(tx, "extract", {job.id: (ask, _packed(reply, request))}, now=parts.clock.now())
                paid.settle(tx)
            failpoints.hit("extract.after_store")
        try:
            return list(parts.extractor.read(reply, request))
        except ReplyUnreadable as error:
            unreadable = error
    raise unreadable or ReplyUnreadable()


def _packed(reply: str, request: Request) -> str:
    known = [[known.short_id, known.memory_id] for known in request.known]
    return json.dumps({"reply": reply, "known": known}, ensure_ascii=False)


def _unpacked(body: str) -> tuple[str, tuple[Known, ...]]:
    stored = json.loads(body)
    return stored["reply"], tuple(Known(short_id, memory_id, "") for short_id, memory_id in stored["known"])
