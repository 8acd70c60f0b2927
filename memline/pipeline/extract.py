"""Stage 1: the facts of a turn. Verbatim turns are their own facts; for the others the extractor is asked.

A paid reply is stored before it is read, under the number of the ask, and a retry reads what is stored instead of asking again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from sqlalchemy.engine import Connection

from memline.contracts import failpoints
from memline.contracts.errors import ConfigurationError, ProviderError, ReplyUnreadable
from memline.contracts.fact import Fact
from memline.ledger.jobs import Job
from memline.ledger.messages import window_before
from memline.ledger.results import FACTS, keep_replies, load_replies, store_results
from memline.pipeline.extractors.port import Known, Request
from memline.pipeline.parts import Batch, Failure, Parts, Prepared, failure_of
from memline.search.nearest import nearest_live

__all__ = ["FACTS", "WINDOW", "commit", "prepare"]

#: Messages before the turn that a model is shown, and live memories.
WINDOW, NEAREST = 10, 10

#: Seconds that ready jobs wait for slower ones of their batch.
PATIENCE = 0.25

_SOURCES = ("user", "assistant")


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """Facts by job."""
    values: dict[str, list[Fact]] = {}
    failures: dict[str, Failure] = {}
    asked = [job for job in batch.jobs if job.infer]
    for job in batch.jobs:
        if not job.infer:
            values[job.id] = _verbatim(job)
    with parts.ledger.read() as connection:
        stored = load_replies(connection, "extract", [job.id for job in asked]) if parts.extractor.paid else {}
    if not parts.extractor.paid:
        for job in asked:
            batch.keep()
            values[job.id] = _facts(parts, job, [])
        return Prepared(values)
    _ask_all(parts, batch, asked, stored, values, failures)
    return Prepared(values, failures)


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Keeps the facts for the stages that follow."""
    facts = {job.id: [fact.to_json() for fact in prepared.values[job.id]] for job in jobs}
    store_results(tx, FACTS, facts, now=parts.clock.now())


def _verbatim(job: Job) -> list[Fact]:
    """Each message of a person or an assistant as it stands; the rest is context."""
    return [
        Fact(message.text, attributed_to=message.role, message=index, role=message.role, actor=message.name)
        for index, message in enumerate(job.messages)
        if message.role in _SOURCES and message.text.strip()
    ]


def _ask_all(
    parts: Parts,
    batch: Batch,
    asked: Sequence[Job],
    stored: dict[str, list[str]],
    values: dict[str, list[Fact]],
    failures: dict[str, Failure],
) -> None:
    """Asks for several jobs at a time. Lanes that are ready go on alone when others take longer: a slow call holds back nobody."""
    jobs = {job.id: job for job in batch.jobs}
    pool = ThreadPoolExecutor(max_workers=max(1, min(parts.parallel_asks, len(asked))), thread_name_prefix="memline-ask")
    try:
        running: dict[Future[list[Fact]], Job] = {pool.submit(_facts, parts, job, stored.get(job.id, [])): job for job in asked}
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


def _facts(parts: Parts, job: Job, stored: Sequence[str]) -> list[Fact]:
    """The facts of one job, from a stored reply or a new one.

    For a readable reply it is asked again, `RetryPolicy.asks` times in all; a job that failed so and is replayed asks as often anew.
    """
    unreadable: ReplyUnreadable | None = None
    for body in stored:
        reply, known = _unpacked(body)
        try:
            # as it was asked: the short ids in a reply are those of the memories that were shown then
            return list(parts.extractor.read(reply, replace(_plain_request(job), known=known)))
        except ReplyUnreadable as error:
            unreadable = error
    asks = parts.retry.asks
    for ask in range(len(stored), (len(stored) // asks + 1) * asks):
        request = _request(parts, job)
        failpoints.hit("extract.before_ask")
        reply = parts.extractor.ask(request)
        failpoints.hit("extract.after_ask")
        if parts.extractor.paid:
            with parts.ledger.write() as tx:
                keep_replies(tx, "extract", {job.id: (ask, _packed(reply, request))}, now=parts.clock.now())
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


def _plain_request(job: Job) -> Request:
    of_agent = job.scope.agent_id is not None and job.scope.user_id is None
    return Request(messages=job.messages, said_at=job.said_at, prompt=job.prompt, of_agent=of_agent)


def _request(parts: Parts, job: Job) -> Request:
    plain = _plain_request(job)
    if not parts.extractor.wants_context:
        return plain
    with parts.ledger.read() as connection:
        window = window_before(connection, job.lane, job.place, size=WINDOW)
    text = "\n".join(message.text for message in job.messages if message.role in _SOURCES)
    nearest = nearest_live(parts.ledger, parts.index, parts.embedder, job.scope, text, k=NEAREST, now=parts.clock.now())
    known = tuple(Known(str(number), row.id, row.text) for number, row in enumerate(nearest))
    return replace(plain, window=tuple(window), known=known)
