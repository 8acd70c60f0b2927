"""What a paid extraction is shown beside its turn: the lane's last messages, and the owner's memories nearest to what was said.

The texts of a whole batch are embedded in one call; what comes of it is looked up job by job, when the job is asked for. What a paid
embedder answered is kept by job until its turn is extracted: a model that is away meanwhile costs no vectors.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import ProviderError
from memline.contracts.message import SOURCES, Message, without_marks
from memline.language.checked import checked_vectors
from memline.language.ports import Vectors
from memline.language.usage import embedded
from memline.ledger.jobs import Job
from memline.ledger.messages import window_before
from memline.ledger.results import keep_replies, load_replies
from memline.ledger.schema import stage_results
from memline.pipeline.embedding import vector_bytes
from memline.pipeline.extractors.pasted import without_pasted
from memline.pipeline.extractors.port import Known, Request
from memline.pipeline.paid import paid_call
from memline.pipeline.parts import Batch, Parts
from memline.search.index.port import Space
from memline.search.nearest import nearest_to

__all__ = ["NEAREST", "WINDOW", "drop_looked", "embedded_contexts", "plain_request", "said_in", "with_context"]

#: Messages before the turn that a model is shown, and live memories.
WINDOW, NEAREST = 10, 10

#: Texts that are embedded between two looks at the lease.
_CHUNK = 256


def plain_request(job: Job, said: Sequence[Message] | None = None) -> Request:
    """What is asked of a turn, without context, and without the memories that the application pasted in.

    *said*: in place of its messages.
    """
    of_agent = job.scope.agent_id is not None and job.scope.user_id is None
    messages = tuple(said or job.messages)
    if job.memory_type is None:
        messages = without_pasted(messages)
    return Request(messages=messages, said_at=job.said_at, prompt=job.prompt, of_agent=of_agent, procedural=job.memory_type is not None)


def embedded_contexts(parts: Parts, batch: Batch, found: Sequence[Job]) -> dict[str, Vectors]:
    """By job, the vector (shape (1, dimension)) of what was said in its turn, from one call for all of *found*.

    A job that is not in the answer embeds its own: it says nothing, or the call failed, which then fails those jobs only whose text it was.
    """
    if not parts.extractor.wants_context or len(found) < 2:
        return {}
    texts = {job.id: text for job in found if job.memory_type is None and (text := said_in(job.messages)).strip()}
    vectors = _looked_before(parts, texts)
    missing = [job for job in found if job.id in texts and job.id not in vectors]
    if len(missing) < 2:
        return vectors
    try:
        for start in range(0, len(missing), _CHUNK):
            some = missing[start : start + _CHUNK]
            batch.keep()
            vectors |= _looked(parts, some, texts)
    except ProviderError:
        return vectors
    return vectors


def drop_looked(tx: Connection, parts: Parts, jobs: Sequence[Job]) -> None:
    """Removes the vectors that are kept here of *jobs*, whose turns are extracted."""
    if parts.embedder.paid and parts.extractor.wants_context:
        ids = [job.id for job in jobs]
        tx.execute(sa.delete(stage_results).where(stage_results.c.stage == _name(parts), stage_results.c.job_id.in_(ids)))


def with_context(parts: Parts, job: Job, vectors: Vectors | None, plain: Request | None = None, *, k: int = NEAREST) -> Request:
    """The request for *job* as it is now, with what it may look at; *vectors*: of what was said in it, where they are there already.

    *plain*: the request without context, where it is not the whole turn; *k*: how many memories it is shown.
    """
    plain = plain or plain_request(job)
    if not parts.extractor.wants_context or plain.procedural:
        return plain
    with parts.ledger.read() as connection:
        window = window_before(connection, job.lane, job.place, size=WINDOW)
    now = parts.clock.now()
    said = said_in(plain.messages)
    if vectors is None and said.strip():
        texts = {job.id: said}
        vectors = (_looked_before(parts, texts) or _looked(parts, [job], texts))[job.id]
    model = parts.embedder.model
    nearest = [] if vectors is None else nearest_to(parts.ledger, parts.index, job.scope, vectors, model=model, k=k, today=now.date())
    known = tuple(Known(str(number), row.id, row.text) for number, row in enumerate(nearest))
    return replace(plain, window=(*window, *plain.window)[-WINDOW:], known=known)


def _looked(parts: Parts, jobs: Sequence[Job], texts: Mapping[str, str]) -> dict[str, Vectors]:
    """Embeds the text of each job in one call, and keeps what a paid embedder answered."""
    own = [texts[job.id] for job in jobs]
    with paid_call(parts, "embed", jobs, paid=parts.embedder.paid) as paid:
        made = checked_vectors(parts.embedder, embedded(parts.embedder, own), len(own))
    if parts.embedder.paid:
        rows = {job.id: _row(text, vector) for job, text, vector in zip(jobs, own, made, strict=True)}
        with parts.ledger.write() as tx:
            keep_replies(tx, _name(parts), rows, now=parts.clock.now())
            paid.settle(tx)
    return {job.id: made[number : number + 1] for number, job in enumerate(jobs)}


def _looked_before(parts: Parts, texts: Mapping[str, str]) -> dict[str, Vectors]:
    """By job, the vector of its text that an earlier try got, where the embedder is paid."""
    if not parts.embedder.paid or not texts:
        return {}
    with parts.ledger.read() as connection:
        bodies = load_replies(connection, _name(parts), list(texts))
    found: dict[str, Vectors] = {}
    for job_id, some in bodies.items():
        for digest, encoded in map(json.loads, some):
            if digest == _digest(texts[job_id]):
                found[job_id] = np.frombuffer(base64.b64decode(encoded), dtype="<f4").reshape(1, -1).astype(np.float32)
    return found


def _row(text: str, vector: Vectors) -> tuple[int, str]:
    """A vector as it is kept: under a number that stands for its text, since a long turn has one a window."""
    digest = _digest(text)
    return int(digest[:7], 16), json.dumps([digest, base64.b64encode(vector_bytes(vector)).decode("ascii")])


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _name(parts: Parts) -> str:
    """Name of these vectors among the results of a job, each embedder's apart."""
    return f"looked:{Space(parts.embedder.model, parts.embedder.dimension).key}"


def said_in(messages: Sequence[Message]) -> str:
    """What people and the assistant say in *messages*."""
    return "\n".join(without_marks(message.text) for message in messages if message.role in SOURCES)
