"""Consecutive turns of one lane that wait together are asked of a model in one call, and are single turns again right after it.

A reply to several is stored before it is read, under the first of them with the list of all. Then it is divided: each job gets its share as
a reply of its own, and from there on nothing is left of the unit; a retry, alone or not, reads the share. A unit that fails (its reply
can't be divided, the model refuses it or answers with nonsense) is taken apart: its jobs are asked alone. Of a reply that can't be divided
nothing stays either: it lies under one job, and would outlive what the others said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import failpoints, tracing
from memline.contracts.errors import ReplyUnreadable
from memline.contracts.ids import derived_id
from memline.language.ports import Vectors
from memline.ledger.jobs import Job
from memline.ledger.results import hold_jobs, keep_replies, load_replies
from memline.ledger.schema import stage_results
from memline.pipeline.asking import STAGE, Extraction, StoredReply
from memline.pipeline.contexts import NEAREST, plain_request, said_in, with_context
from memline.pipeline.extractors.long_turns import START, end_of, tokens_between
from memline.pipeline.extractors.port import Known, Request, UnitExtractor
from memline.pipeline.images import has_images
from memline.pipeline.paid import paid_call
from memline.pipeline.parts import Parts

__all__ = ["APART", "BEHIND", "Plan", "ask_unit", "divide_stored", "drop_units", "named_facts", "plan_units", "with_known"]

#: Name of the replies to several turns.
_STAGE = "extract:unit"

#: Reasons of jobs that are put back without having failed.
APART = "is asked alone: the call for several turns failed"
BEHIND = "waits for the turn before it"

#: Known memories that each further turn of a unit adds to those shown, and most of them.
_MORE_KNOWN, _MOST_KNOWN = 3, 30


@dataclass(slots=True)
class Plan:
    """How the jobs of a batch are asked: some together, some not before the others of their lane are committed."""

    units: list[list[Job]] = field(default_factory=list)
    later: list[Job] = field(default_factory=list)


def plan_units(parts: Parts, jobs: Sequence[Job], replies: Mapping[str, Sequence[str]]) -> Plan:
    """The plan for *jobs* (lane by lane, each in its order); *replies*: those that are stored, by job.

    A turn sees what the one before left, in the ledger or in the same call. So what does not fit into the first call of its lane waits.
    """
    plan = Plan()
    extractor = parts.extractor
    if not isinstance(extractor, UnitExtractor):
        return plan
    lanes: dict[str, list[Job]] = {}
    for job in jobs:
        lanes.setdefault(job.lane, []).append(job)
    for run in lanes.values():
        if len(run) < 2 or not any(job.infer for job in run):
            continue
        answered = next((number for number, job in enumerate(run) if job.infer and job.id not in replies), len(run))
        if answered:  # those are read as they are, and what follows is asked when they are committed
            plan.later += run[answered:]
            continue
        unit = _unit(run, replies, extractor.window_tokens)
        if len(unit) > 1:
            plan.units.append(unit)
        plan.later += run[len(unit) :]
    return plan


def ask_unit(parts: Parts, jobs: Sequence[Job], vectors: Mapping[str, Vectors]) -> dict[str, str]:
    """Asks for several jobs of one lane in one call; the share of each as a stored reply (body), by job.

    Raises ReplyUnreadable where the reply can't be divided, and what `ask` raises.
    """
    extractor = parts.extractor
    assert isinstance(extractor, UnitExtractor)  # it was planned so
    requests = _requests(parts, jobs, vectors)
    failpoints.hit("extract.before_ask")
    with paid_call(parts, "extract", jobs, model=extractor.name, paid=extractor.paid) as paid:
        with tracing.span_of(jobs[0].id, "memline ask model", turns=len(jobs)):
            reply = extractor.ask_unit(requests)
        failpoints.hit("extract.after_ask")
    stored = StoredReply(reply, requests[0].known, extractor.name)
    body = json.dumps({"unit": [job.id for job in jobs], "body": stored.to_body()}, ensure_ascii=False)
    with parts.ledger.write() as tx:
        hold_jobs(tx, [job.id for job in jobs])
        keep_replies(tx, _STAGE, {jobs[0].id: (0, body)}, now=parts.clock.now())
        paid.settle(tx)
    failpoints.hit("extract.after_store")
    return _divided(parts, [job.id for job in jobs], stored)


def divide_stored(parts: Parts, jobs: Sequence[Job]) -> dict[str, str]:
    """Divides replies to several turns that are still whole, since a worker died on them; the shares of these *jobs*, by job."""
    extractor = parts.extractor
    if not isinstance(extractor, UnitExtractor) or not jobs:
        return {}
    with parts.ledger.read() as connection:
        bodies = load_replies(connection, _STAGE, [job.id for job in jobs])
    shares: dict[str, str] = {}
    for body in (body for some in bodies.values() for body in some):
        raw = json.loads(body)
        try:
            shares |= _divided(parts, raw["unit"], StoredReply.of(raw["body"]))
        except ReplyUnreadable:
            continue  # its worker died on it: the jobs are alone by now
    return {job.id: shares[job.id] for job in jobs if job.id in shares}


def named_facts(job: Job, found: Extraction) -> list[Known]:
    """The facts of *job* that later turns of the same reply may link to, under the ids that they get when they are committed.

    One that turns out a duplicate gets none, and a link to it falls away.
    """
    places = {fact.text: ordinal for ordinal, fact in reversed(list(enumerate(found.facts)))}
    return [
        Known(short_id, derived_id("memory", job.id, str(places[text])), "") for short_id, text in found.named.items() if text in places
    ]


def with_known(body: str, more: Sequence[Known]) -> str:
    """A stored reply with *more* memories that its short ids may name."""
    stored = StoredReply.of(body)
    return replace(stored, known=(*stored.known, *more)).to_body()


def drop_units(tx: Connection, jobs: Sequence[Job]) -> None:
    """Removes replies to several turns that a worker without a lease left behind, when the first of those turns is done with."""
    tx.execute(sa.delete(stage_results).where(stage_results.c.stage == _STAGE, stage_results.c.job_id.in_([job.id for job in jobs])))


def _unit(run: Sequence[Job], replies: Mapping[str, Sequence[str]], budget: int) -> list[Job]:
    """The jobs at the head of a lane that go into one call."""
    head = run[0]
    unit = [head]
    left = budget - _tokens(head)
    for job in run[1:]:
        left -= _tokens(job)
        if left < 0 or not (_joins(head) and _joins(job)) or job.prompt != head.prompt or job.id in replies:
            break
        unit.append(job)
    return unit


def _joins(job: Job) -> bool:
    return job.infer and not job.alone and job.memory_type is None and not has_images(job)


def _tokens(job: Job) -> int:
    return tokens_between(job.messages, START, end_of(job.messages))


def _requests(parts: Parts, jobs: Sequence[Job], vectors: Mapping[str, Vectors]) -> list[Request]:
    first = plain_request(jobs[0])
    said = [job for job in jobs if said_in(job.messages).strip()]
    there = [vectors[job.id] for job in said if job.id in vectors]
    k = min(_MOST_KNOWN, NEAREST + _MORE_KNOWN * (len(jobs) - 1))
    if there and len(there) == len(said):
        context = with_context(parts, jobs[0], np.concatenate(there), first, k=k)
    else:
        all_said = tuple(message for job in jobs for message in plain_request(job).messages)
        context = with_context(parts, jobs[0], None, replace(first, messages=all_said), k=k)
    return [replace(first, window=context.window, known=context.known), *(plain_request(job) for job in jobs[1:])]


def _divided(parts: Parts, job_ids: Sequence[str], stored: StoredReply) -> dict[str, str]:
    """Stores the share of each job as a reply of its own, in the transaction in which the reply to all goes."""
    extractor = parts.extractor
    assert isinstance(extractor, UnitExtractor)
    whole = sa.delete(stage_results).where(stage_results.c.stage == _STAGE, stage_results.c.job_id == job_ids[0])
    try:
        shares = extractor.divide(stored.reply, len(job_ids))
    except ReplyUnreadable:
        with parts.ledger.write() as tx:
            tx.execute(whole)
        raise
    bodies = {job_id: StoredReply(share, stored.known, stored.by).to_body() for job_id, share in zip(job_ids, shares, strict=True)}
    with parts.ledger.write() as tx:
        keep_replies(tx, STAGE, {job_id: (0, body) for job_id, body in bodies.items()}, now=parts.clock.now())
        tx.execute(whole)
    return bodies
