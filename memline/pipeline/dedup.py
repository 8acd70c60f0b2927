"""Stage 3: which facts are there already, by content hash, inside the batch and against the whole scope.

What is decided here is recorded with the job; persist, which holds the owners' locks, has the last word. Near-duplicates are only told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.content_hash import content_hash
from memline.contracts.errors import ServiceUnavailable
from memline.contracts.ids import derived_id
from memline.ledger.counters import count
from memline.ledger.jobs import Job
from memline.ledger.pairs import has_pair
from memline.ledger.results import load_results, store_results
from memline.ledger.schema import memories
from memline.pipeline.embed import embedded
from memline.pipeline.extract import FACTS
from memline.pipeline.near import near_duplicates
from memline.pipeline.parts import Batch, Parts, Prepared

__all__ = ["DECISIONS", "NEAR_ONES", "commit", "prepare"]

#: Name of this stage's results: per job [[content hash, id of the memory it repeats or null]].
DECISIONS = "dedup"

#: Name of the near-duplicates: per job {number of the fact: [[memory id, similarity]]}.
NEAR_ONES = "near"


@dataclass(frozen=True, slots=True)
class _Prepared:
    hashes: list[str]
    #: None: the index did not answer.
    near: dict[str, list[list[Any]]] | None


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """The content hash of every fact, by job, and what is near them already."""
    with parts.ledger.read() as connection:
        facts = load_results(connection, FACTS, [job.id for job in batch.jobs])
    made = embedded(parts, batch)
    values: dict[str, _Prepared] = {}
    away = False
    for job in batch.jobs:
        if job.id in made.values:
            hashes = [content_hash(fact["text"]) for fact in facts[job.id]]
            values[job.id] = _Prepared(hashes, None if away else _near(parts, batch, job, hashes, made.values[job.id]["facts"]))
            away = values[job.id].near is None  # it is not asked again for each turn of the batch
    return Prepared(values, made.failures)


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Decides, and keeps the decisions."""
    wanted = sorted({(job.lane, hashed) for job in jobs for hashed in prepared.values[job.id].hashes})
    seen: dict[tuple[str, str], str] = {}
    for start in range(0, len(wanted), 400):
        query = sa.select(memories.c.lane, memories.c.content_hash, memories.c.id).where(memories.c.state == "live")
        rows = tx.execute(has_pair(query, memories.c.lane, memories.c.content_hash, wanted[start : start + 400]))
        seen |= {(row.lane, row.content_hash): row.id for row in rows}
    decisions: dict[str, list[list[str | None]]] = {}
    for job in jobs:
        decided = decisions.setdefault(job.id, [])
        for ordinal, hashed in enumerate(prepared.values[job.id].hashes):
            decided.append([hashed, seen.get((job.lane, hashed))])
            seen.setdefault((job.lane, hashed), derived_id("memory", job.id, str(ordinal)))
    now = parts.clock.now()
    store_results(tx, DECISIONS, decisions, now=now)
    count(tx, "near_unseen", sum(prepared.values[job.id].near is None for job in jobs))
    store_results(tx, NEAR_ONES, {job.id: near for job in jobs if (near := prepared.values[job.id].near)}, now=now)


def _near(
    parts: Parts, batch: Batch, job: Job, hashes: Sequence[str], made: Sequence[Mapping[str, Any]]
) -> dict[str, list[list[Any]]] | None:
    try:
        return near_duplicates(parts, job, hashes, made, batch.keep)
    except ServiceUnavailable:
        return None  # counted at the commit: the turn goes on, since nothing is decided by it
