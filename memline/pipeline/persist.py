"""Stage 4, the commit: from here on the memories of a turn exist. Nothing later adds to them."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from sqlalchemy.engine import Connection

from memline.contracts.fact import Fact
from memline.ledger.commit import Candidate, commit_memories
from memline.ledger.jobs import Job
from memline.ledger.results import load_results
from memline.pipeline.embed import embedded
from memline.pipeline.extract import FACTS
from memline.pipeline.extractors.procedure import procedure_version
from memline.pipeline.own_embedder import check_storing
from memline.pipeline.parts import Batch, Parts, Prepared

__all__ = ["commit", "prepare"]


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """The candidates of each job, from what extract and embed left."""
    ids = [job.id for job in batch.jobs]
    with parts.ledger.read() as connection:
        facts = load_results(connection, FACTS, ids)
    found = embedded(parts, batch)
    return Prepared(
        {
            job.id: [
                Candidate(Fact.from_json(fact), made["terms"], made["length"], base64.b64decode(made["vector"]))
                for fact, made in zip(facts[job.id], found.values[job.id]["facts"], strict=True)
            ]
            for job in batch.jobs
            if job.id in found.values
        },
        found.failures,
    )


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Commits the candidates of the jobs."""
    check_storing(tx, parts)
    commit_memories(
        tx,
        [(job, prepared.values[job.id]) for job in jobs],
        model=parts.embedder.model,
        extractor=parts.extractor.name,
        procedure=f"/procedure-{procedure_version()}",
        now=parts.clock.now(),
        default_lifetime=parts.default_lifetime,
        keep=parts.history,
    )
