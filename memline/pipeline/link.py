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

from memline.contracts.content_hash import text_md5
from memline.contracts.errors import ServiceUnavailable
from memline.contracts.fact import EntityMention
from memline.contracts.filters import ScopeIds
from memline.contracts.scope import Scope
from memline.ledger.entities import Named, entity_id, known_names, link_entities, memories_of_jobs, names_of_entities
from memline.ledger.jobs import Job
from memline.ledger.results import FACTS, load_results
from memline.pipeline.embed import embedded
from memline.pipeline.own_embedder import check_storing
from memline.pipeline.parts import Batch, Parts, Prepared

__all__ = ["SAME_NAME", "commit", "name_in_scope", "prepare", "same_codes"]

#: Cosine from which two names may be one (mem0's threshold).
SAME_NAME = 0.95


def prepare(parts: Parts, batch: Batch) -> Prepared:
    """By job: the mentions of each fact, and the names that are new in its lane."""
    made = embedded(parts, batch)
    jobs = [job for job in batch.jobs if job.id in made.values]
    with parts.ledger.read() as connection:
        pairs = {(job.lane, norm) for job in jobs for norm in made.values[job.id]["names"]}
        known = known_names(connection, sorted(pairs))
    values: dict[str, Any] = {}
    met: dict[tuple[str, str], Named] = {}
    for job in jobs:
        mentions = [[EntityMention(name, kind) for name, kind in fact["entities"]] for fact in made.values[job.id]["facts"]]
        types = {mention.normalised: mention for found in mentions for mention in found}
        for norm, vector in made.values[job.id]["names"].items():
            if (job.lane, norm) not in known and (job.lane, norm) not in met:
                met[job.lane, norm] = name_in_scope(parts, job.scope, types[norm], base64.b64decode(vector), list(met.values()))
        values[job.id] = (
            [[mention.normalised for mention in found] for found in mentions],
            [met[key] for key in met if key[0] == job.lane],
        )
    return Prepared(values, made.failures)


def commit(tx: Connection, parts: Parts, jobs: Sequence[Job], prepared: Prepared) -> None:
    """Links what is still there: a memory that was deleted meanwhile gets no link and no entity."""
    check_storing(tx, parts)
    there = memories_of_jobs(tx, [job.id for job in jobs])
    said = {
        (job_id, ordinal): fact["text"]
        for job_id, facts in load_results(tx, FACTS, [job.id for job in jobs]).items()
        for ordinal, fact in enumerate(facts)
    }
    pairs: list[tuple[str, str, int]] = []
    named: dict[tuple[str, str], Named] = {}
    for job in jobs:
        mentions, new = prepared.values[job.id]
        for ordinal, norms in enumerate(mentions):
            memory = there.get((job.id, ordinal))
            # one whose text was changed meanwhile was linked by whoever changed it
            if memory is not None and memory.md5 == text_md5(said[job.id, ordinal]):
                pairs += [(job.lane, norm, memory.no) for norm in norms]
        named |= {(name.lane, name.norm): name for name in new}
    linked = {(lane, norm) for lane, norm, _ in pairs}
    wanted = [name for key, name in named.items() if key in linked]
    link_entities(
        tx,
        {job.lane: (job.scope.namespace, job.owner_no) for job in jobs},
        wanted,
        pairs,
        model=parts.embedder.model,
        now=parts.clock.now(),
    )


def same_codes(one: str, other: str) -> bool:
    """Both names have the same digits and code tokens."""
    return _codes(one) == _codes(other)


def _codes(name: str) -> list[str]:
    return sorted(token for token in re.split(r"[^\w.@/-]+", name) if any(c.isdigit() for c in token) or re.search(r"\w[._@/-]\w", token))


def name_in_scope(parts: Parts, scope: Scope, mention: EntityMention, vector: bytes, met: Sequence[Named]) -> Named:
    """A name that is new in its scope, as an entity of its own or as another spelling of one; *met*: names that are new with it."""
    norm = mention.normalised
    return Named(scope.lane, norm, mention.name, mention.type, vector, _alias(parts, scope, norm, vector, met))


def _alias(parts: Parts, scope: Scope, norm: str, vector: bytes, met: Sequence[Named]) -> str | None:
    """The entity of this lane that the name is another spelling of."""
    own = np.frombuffer(vector, dtype="<f4")
    lane = scope.lane
    for name in met:
        near = name.lane == lane and name.alias_of is None and float(own @ np.frombuffer(name.vector, dtype="<f4")) >= SAME_NAME
        if near and same_codes(norm, name.norm):
            return entity_id(name.lane, name.norm)
    try:
        ids = ScopeIds(scope.user_id, scope.agent_id, scope.run_id)
        nominees = parts.index.nearest("entity", scope.namespace, [ids], own, limit=3)
    except ServiceUnavailable:
        return None  # without the index the name becomes an entity of its own, which loses nothing
    similar = [nominee.id for nominee in nominees if nominee.value >= SAME_NAME]
    if not similar:
        return None
    with parts.ledger.read() as connection:
        norms = names_of_entities(connection, similar)
    return next(
        (found for found in similar if found in norms and entity_id(lane, norms[found]) == found and same_codes(norm, norms[found])),
        None,
    )
