"""What a paid extraction is shown beside its turn: the lane's last messages, and the owner's memories nearest to what was said.

The texts of a whole batch are embedded in one call; what comes of it is looked up job by job, when the job is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memline.contracts.errors import ProviderError
from memline.contracts.message import SOURCES, Message, without_marks
from memline.language.checked import checked_vectors
from memline.language.ports import Vectors
from memline.language.usage import embedded, metered
from memline.ledger.jobs import Job
from memline.ledger.messages import window_before
from memline.pipeline.extractors.pasted import without_pasted
from memline.pipeline.extractors.port import Known, Request
from memline.pipeline.paid import settle_alone
from memline.pipeline.parts import Batch, Parts
from memline.search.nearest import nearest_live, nearest_to

__all__ = ["NEAREST", "WINDOW", "embedded_contexts", "plain_request", "said_in", "with_context"]

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
    if len(texts) < 2:
        return {}
    ids = list(texts)
    vectors: dict[str, Vectors] = {}
    try:
        for start in range(0, len(ids), _CHUNK):
            some = ids[start : start + _CHUNK]
            batch.keep()
            with metered() as uses:
                made = checked_vectors(parts.embedder, embedded(parts.embedder, [texts[job_id] for job_id in some]), len(some))
            vectors |= {job_id: made[row : row + 1] for row, job_id in enumerate(some)}
            if parts.embedder.paid:
                settle_alone(parts, "embed", [job for job in found if job.id in some], uses)
    except ProviderError:
        return vectors
    return vectors


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
    if vectors is None:
        nearest = nearest_live(parts.ledger, parts.index, parts.embedder, job.scope, said_in(plain.messages), k=k, now=now)
    else:
        model = parts.embedder.model
        nearest = nearest_to(parts.ledger, parts.index, job.scope, vectors, model=model, k=k, today=now.date())
    known = tuple(Known(str(number), row.id, row.text) for number, row in enumerate(nearest))
    return replace(plain, window=(*window, *plain.window)[-WINDOW:], known=known)


def said_in(messages: Sequence[Message]) -> str:
    """What people and the assistant say in *messages*."""
    return "\n".join(without_marks(message.text) for message in messages if message.role in SOURCES)
