"""Stage 4, the commit: from here on the memories of a turn exist. Nothing later adds to them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.fact import Fact
from memline.contracts.receipt import Event
from memline.ledger.commit import Candidate, commit_memories
from memline.ledger.jobs import Job
from memline.ledger.results import NOTES, load_results
from memline.ledger.schema import jobs as job_rows
from memline.pipeline.dedup import NEAR_ONES
from memline.pipeline.embed import embedded
from memline.pipeline.extract import FACTS
from memline.pipeline.extractors.procedure import procedure_version
from memline.pipeline.own_embedder import check_storing
from memline.pipeline.parts import Batch, Parts, Prepared

__all__ = ["commit", "prepare"]


@dataclass(frozen=True, slots=True)
class _Prepared:
    candidates: Sequence[Candidate]
    notes: Mapping[str, Any]
    near: Mapping[str, Any]


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """The candidates of each job, from what extract and embed left."""
    ids = [job.id for job in batch.jobs]
    with parts.ledger.read() as connection:
        facts = load_results(connection, FACTS, ids)
        notes = load_results(connection, NOTES, ids)
        near = load_results(connection, NEAR_ONES, ids)
    found = embedded(parts, batch)
    return Prepared(
        {
            job.id: _Prepared(
                [
                    Candidate(Fact.from_json(fact), made["terms"], made["length"], base64.b64decode(made["vector"]))
                    for fact, made in zip(facts[job.id], found.values[job.id]["facts"], strict=True)
                ],
                notes.get(job.id, {}),
                near.get(job.id, {}),
            )
            for job in batch.jobs
            if job.id in found.values
        },
        found.failures,
    )


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Commits the candidates of the jobs."""
    check_storing(tx, parts)
    outcomes = commit_memories(
        tx,
        [(job, prepared.values[job.id].candidates) for job in jobs],
        model=parts.embedder.model,
        extractor=parts.extractor.name,
        procedure=f"/procedure-{procedure_version()}",
        now=parts.clock.now(),
        default_lifetime=parts.default_lifetime,
        keep=parts.history,
    )
    for job in jobs:
        found: _Prepared = prepared.values[job.id]
        # near-duplicates are told of memories that were made; what turned out a duplicate says of what
        near = {number: ones for number, ones in found.near.items() if outcomes[job.id][int(number)][1] == Event.ADD}
        if notes := dict(found.notes) | ({"near": near} if near else {}):
            tx.execute(sa.update(job_rows).where(job_rows.c.no == job.no).values(notes=notes))
