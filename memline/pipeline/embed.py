"""Stage 2: terms, entities and vectors of the facts. Each text is analysed here, once; later stages use what is stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Connection

from memline.contracts.errors import ProviderUnavailable
from memline.contracts.fact import Analysis
from memline.ledger.entities import known_names
from memline.ledger.jobs import Job
from memline.ledger.results import hold_jobs, keep_replies, keep_results, load_replies, load_results, store_results
from memline.pipeline.embedding import CHUNK, embed_texts, vector_bytes
from memline.pipeline.extract import FACTS
from memline.pipeline.paid import paid_call
from memline.pipeline.parts import Batch, Parts, Prepared, failure_of
from memline.search.index.port import Space

__all__ = ["commit", "embedded", "prepare", "vector_bytes"]

#: After the name of this stage's results: vectors of some of a job's texts, where others are missing still.
_PART = ":part"


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """What the later stages need to know of each fact."""
    ids = [job.id for job in batch.jobs]
    with parts.ledger.read() as connection:
        facts = load_results(connection, FACTS, ids)
        stored = load_results(connection, _name(parts), ids) if parts.embedder.paid else {}
    # one without facts was erased since the batch was read, and is left out: the commit cancels it
    wanted = [job for job in batch.jobs if job.id in facts and job.id not in stored]
    texts = list(dict.fromkeys(fact["text"] for job in wanted for fact in facts[job.id]))
    analyses: dict[str, Analysis] = {}
    for start in range(0, len(texts), CHUNK):
        batch.keep()
        some = texts[start : start + CHUNK]
        analyses |= zip(some, parts.analyser.analyse(some), strict=True)
    names = _new_names(parts, wanted, facts, analyses)
    needed = {job.id: [*(fact["text"] for fact in facts[job.id]), *names[job.id].values()] for job in wanted}
    there = _kept_before(parts, wanted)
    missing = list(dict.fromkeys(text for job in wanted for text in needed[job.id] if text not in there[job.id]))
    with paid_call(parts, "embed", wanted if missing else (), paid=parts.embedder.paid) as paid:
        made = embed_texts(parts.embedder, missing, batch.keep)
    if parts.embedder.paid:
        for error in (*made.refused.values(), *((made.stopped,) if made.stopped else ())):
            error.call = "embed"
    values, failures = dict(stored), {}
    for job in wanted:
        errors = [error for text in needed[job.id] if text not in there[job.id] and (error := made.error_of(text)) is not None]
        if errors:
            # what is refused will be refused again, whatever else is away
            worst = next((error for error in errors if not isinstance(error, ProviderUnavailable)), errors[0])
            failures[job.id] = failure_of(worst, job, parts.retry)
            continue
        encoded = made.vectors | there[job.id]
        values[job.id] = {
            "facts": [_fact(analyses[fact["text"]], encoded[fact["text"]]) for fact in facts[job.id]],
            "names": {norm: encoded[name] for norm, name in names[job.id].items()},
        }
    new = {job_id: value for job_id, value in values.items() if job_id not in stored}
    parted = {
        job.id: part
        for job in wanted
        if job.id in failures and (part := {text: made.vectors[text] for text in needed[job.id] if text in made.vectors})
    }
    if parts.embedder.paid and wanted:
        away = made.stopped
        lost = list(failures) if isinstance(away, ProviderUnavailable) and away.answer_lost else []
        with parts.ledger.write() as tx:
            hold_jobs(tx, [job.id for job in wanted])
            keep_results(tx, _name(parts), new, now=parts.clock.now())
            _keep_parts(tx, parts, parted)
            paid.settle(tx, lost=lost, failed=failures)
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


def _kept_before(parts: Parts, jobs: Sequence[Job]) -> dict[str, dict[str, str]]:
    """By job, the vectors that an earlier try got for some of its texts (text -> base64), where the embedder is paid."""
    found: dict[str, dict[str, str]] = {job.id: {} for job in jobs}
    if parts.embedder.paid and jobs:
        with parts.ledger.read() as connection:
            for job_id, bodies in load_replies(connection, _name(parts) + _PART, list(found)).items():
                for body in bodies:
                    found[job_id] |= json.loads(body)
    return found


def _keep_parts(tx: Connection, parts: Parts, parted: Mapping[str, Mapping[str, str]]) -> None:
    """Keeps the vectors of jobs that lack others: the next try asks for those alone."""
    stage = _name(parts) + _PART
    before = load_replies(tx, stage, list(parted))
    numbered = {job_id: (len(before.get(job_id, ())), json.dumps(part, ensure_ascii=False)) for job_id, part in parted.items()}
    keep_replies(tx, stage, numbered, now=parts.clock.now())


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
