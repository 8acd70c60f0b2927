"""Stage 5: links committed memories to the entities they name. One entity per (scope, normalised name); a similar name becomes an
alias only where digits and code tokens are equal, since "Gen 11" and "Gen 12" are as near to each other as two spellings of one name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.fact import EntityMention
from memline.contracts.filters import ScopeIds
from memline.ledger.entities import Named, entity_id, known_names, link_entities, memories_of_jobs, names_of_entities
from memline.ledger.jobs import Job
from memline.ledger.results import load_results
from memline.pipeline.embed import EMBEDDED
from memline.pipeline.parts import Batch, Parts, Prepared

__all__ = ["SAME_NAME", "commit", "prepare", "same_codes"]

#: Cosine from which two names may be one (mem0's threshold).
SAME_NAME = 0.95


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """By job: the mentions of each fact, and the names that are new in its lane."""
    with parts.ledger.read() as connection:
        embedded = load_results(connection, EMBEDDED, [job.id for job in batch.jobs])
        pairs = {(job.lane, norm) for job in batch.jobs for norm in embedded[job.id]["names"]}
        known = known_names(connection, sorted(pairs))
    values: dict[str, Any] = {}
    met: dict[tuple[str, str], Named] = {}
    for job in batch.jobs:
        mentions = [[EntityMention(name, kind) for name, kind in fact["entities"]] for fact in embedded[job.id]["facts"]]
        types = {mention.normalised: mention for found in mentions for mention in found}
        for norm, vector in embedded[job.id]["names"].items():
            if (job.lane, norm) not in known and (job.lane, norm) not in met:
                met[job.lane, norm] = _named(parts, job, types[norm], base64.b64decode(vector), list(met.values()))
        values[job.id] = (
            [[mention.normalised for mention in found] for found in mentions],
            [met[key] for key in met if key[0] == job.lane],
        )
    return Prepared(values)


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Links what is still there: a memory that was deleted meanwhile gets no link and no entity."""
    there = memories_of_jobs(tx, [job.id for job in jobs])
    pairs: list[tuple[str, str, int]] = []
    named: dict[tuple[str, str], Named] = {}
    for job in jobs:
        mentions, new = prepared.values[job.id]
        for ordinal, norms in enumerate(mentions):
            if (job.id, ordinal) in there:
                pairs += [(job.lane, norm, there[job.id, ordinal][0]) for norm in norms]
        named |= {(name.lane, name.norm): name for name in new}
    linked = {(lane, norm) for lane, norm, _ in pairs}
    wanted = [name for key, name in named.items() if key in linked]
    link_entities(tx, {job.lane: job for job in jobs}, wanted, pairs, model=parts.embedder.model, now=parts.clock.now())


def same_codes(one: str, other: str) -> bool:
    """Both names have the same digits and code tokens."""
    return _codes(one) == _codes(other)


def _codes(name: str) -> list[str]:
    return sorted(token for token in re.split(r"[^\w.@/-]+", name) if any(c.isdigit() for c in token) or re.search(r"\w[._@/-]\w", token))


def _named(parts: Parts, job: Job, mention: EntityMention, vector: bytes, met: Sequence[Named]) -> Named:
    return Named(job.lane, mention.normalised, mention.name, mention.type, vector, _alias(parts, job, mention.normalised, vector, met))


def _alias(parts: Parts, job: Job, norm: str, vector: bytes, met: Sequence[Named]) -> str | None:
    """The entity of this lane that the name is another spelling of."""
    own = np.frombuffer(vector, dtype="<f4")
    for name in met:
        near = name.lane == job.lane and name.alias_of is None and float(own @ np.frombuffer(name.vector, dtype="<f4")) >= SAME_NAME
        if near and same_codes(norm, name.norm):
            return entity_id(name.lane, name.norm)
    scope = ScopeIds(job.scope.user_id, job.scope.agent_id, job.scope.run_id)
    try:
        nominees = parts.index.nearest("entity", job.scope.namespace, [scope], own, limit=3)
    except ServiceUnavailable:
        return None  # without the index the name becomes an entity of its own, which loses nothing
    similar = [nominee.id for nominee in nominees if nominee.value >= SAME_NAME]
    if not similar:
        return None
    with parts.ledger.read() as connection:
        norms = names_of_entities(connection, similar)
    return next(
        (found for found in similar if found in norms and entity_id(job.lane, norms[found]) == found and same_codes(norm, norms[found])),
        None,
    )
