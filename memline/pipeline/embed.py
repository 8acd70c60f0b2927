"""Stage 2: terms, entities and vectors of the facts. Each text is analysed here, once; later stages use what is stored."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from memline.contracts import failpoints, tracing
from memline.contracts.errors import ProviderError, ProviderUnavailable
from memline.contracts.fact import Analysis
from memline.language.checked import checked_vectors
from memline.ledger.entities import known_names
from memline.ledger.jobs import Job
from memline.ledger.results import keep_results, load_results, store_results
from memline.pipeline.extract import FACTS
from memline.pipeline.parts import Batch, Failure, Parts, Prepared, failure_of
from memline.search.index.port import Space

__all__ = ["commit", "embedded", "prepare", "vector_bytes"]

#: Texts that are analysed, or embedded, between two looks at the lease.
CHUNK = 256


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """What the later stages need to know of each fact."""
    ids = [job.id for job in batch.jobs]
    with parts.ledger.read() as connection:
        facts = load_results(connection, FACTS, ids)
        stored = load_results(connection, _name(parts), ids) if parts.embedder.paid else {}
    wanted = [job for job in batch.jobs if job.id not in stored]
    texts = list(dict.fromkeys(fact["text"] for job in wanted for fact in facts[job.id]))
    analyses: dict[str, Analysis] = {}
    for start in range(0, len(texts), CHUNK):
        batch.keep()
        some = texts[start : start + CHUNK]
        analyses |= zip(some, parts.analyser.analyse(some), strict=True)
    names = _new_names(parts, wanted, facts, analyses)
    needed = {job.id: [*(fact["text"] for fact in facts[job.id]), *names[job.id].values()] for job in wanted}
    encoded, failures = _embedded(parts, batch, wanted, needed)
    values = dict(stored)
    for job in wanted:
        if job.id not in failures:
            values[job.id] = {
                "facts": [_fact(analyses[fact["text"]], encoded[fact["text"]]) for fact in facts[job.id]],
                "names": {norm: encoded[name] for norm, name in names[job.id].items()},
            }
    new = {job_id: value for job_id, value in values.items() if job_id not in stored}
    if parts.embedder.paid and new:
        with parts.ledger.write() as tx:
            keep_results(tx, _name(parts), new, now=parts.clock.now())
    return Prepared(values, failures)


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Keeps it for the stages that follow; what a paid embedder returned is kept already."""
    if not parts.embedder.paid:
        store_results(tx, _name(parts), {job.id: prepared.values[job.id] for job in jobs}, now=parts.clock.now())


def embedded(parts: Parts, batch: Batch) -> Prepared:
    """What this stage left for the jobs of *batch*, for a later one. What another model embedded is embedded anew, here."""
    with parts.ledger.read() as connection:
        stored = load_results(connection, _name(parts), [job.id for job in batch.jobs])
    others = [job for job in batch.jobs if job.id not in stored]
    if not others:
        return Prepared(stored)
    anew = prepare(parts, replace(batch, jobs=others))
    if not parts.embedder.paid:
        with parts.ledger.write() as tx:
            keep_results(tx, _name(parts), anew.values, now=parts.clock.now())
    return Prepared(stored | dict(anew.values), anew.failures)


def _name(parts: Parts) -> str:
    """Name of this stage's results, each embedder's apart.

    Per job {"facts": [{terms, length, entities, vector}], "names": {normalised name: vector}}.
    """
    return f"embed:{Space(parts.embedder.model, parts.embedder.dimension).key}"


def _embedded(
    parts: Parts, batch: Batch, jobs: Sequence[Job], needed: Mapping[str, Sequence[str]]
) -> tuple[dict[str, str], dict[str, Failure]]:
    """The vectors of the texts that jobs need, in base64. What is refused is asked for job by job: one text fails its own job only."""
    texts = list(dict.fromkeys(text for job in jobs for text in needed[job.id]))
    encoded: dict[str, str] = {}
    try:
        for start in range(0, len(texts), CHUNK):
            batch.keep()
            some = texts[start : start + CHUNK]
            failpoints.hit("embed.before_call")
            with tracing.inner("memline ask embedder", texts=len(some)):
                vectors = checked_vectors(parts.embedder, parts.embedder.embed(some), len(some))
            failpoints.hit("embed.after_call")
            encoded |= {text: base64.b64encode(vector_bytes(vector)).decode("ascii") for text, vector in zip(some, vectors, strict=True)}
    except ProviderError as error:
        failed = [job for job in jobs if any(text not in encoded for text in needed[job.id])]
        if len(jobs) == 1 or isinstance(error, ProviderUnavailable):
            return encoded, {job.id: failure_of(error, job, parts.retry) for job in failed}
        failures: dict[str, Failure] = {}
        for job in failed:
            found, failure = _embedded(parts, batch, [job], {job.id: [text for text in needed[job.id] if text not in encoded]})
            encoded |= found
            failures |= failure
        return encoded, failures
    return encoded, {}


def vector_bytes(vector: Any) -> bytes:
    """A vector as the ledger keeps it: float32, little-endian."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def _fact(analysis: Analysis, vector: str) -> dict[str, Any]:
    return {
        "terms": dict(Counter(analysis.terms)),
        "length": len(analysis.terms),
        "entities": [[mention.name, mention.type] for mention in analysis.entities],
        "vector": vector,
    }


def _new_names(parts: Parts, jobs: Sequence[Job], facts: dict[str, Any], analyses: dict[str, Analysis]) -> dict[str, dict[str, str]]:
    """The entity names of each job that its lane does not know yet: normalised -> as written."""
    names = {
        job.id: {mention.normalised: mention.name for fact in facts[job.id] for mention in analyses[fact["text"]].entities} for job in jobs
    }
    lanes = {job.id: job.lane for job in jobs}
    with parts.ledger.read() as connection:
        known = known_names(connection, sorted({(lanes[job_id], norm) for job_id, found in names.items() for norm in found}))
    return {job_id: {norm: name for norm, name in found.items() if (lanes[job_id], norm) not in known} for job_id, found in names.items()}
