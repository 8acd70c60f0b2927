"""Which of an extractor's facts a turn keeps, whatever extracted them: only what people and the assistant said, and not too much of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from memline.contracts.content_hash import content_hash, fold
from memline.contracts.fact import Fact
from memline.contracts.message import SOURCES, Message
from memline.ledger.jobs import Job
from memline.ledger.schema import memories
from memline.pipeline.asking import Extraction
from memline.pipeline.extractors.pasted import pasted_blocks, pasted_lines
from memline.pipeline.parts import Parts

__all__ = ["MOST_OF_ASSISTANT", "kept"]

#: Facts attributed to the assistant that one turn may have. An answer holds two or three things that were recommended, found or agreed (of
#: one the rules keep at most 3, `assistant.MAX_KEPT`); 20 are a turn of seven such answers. What goes beyond is code, a document or a list
#: of tips taken apart, which would drown what the people said.
MOST_OF_ASSISTANT = 20


def kept(parts: Parts, job: Job, found: Extraction) -> Extraction:
    """*found* with the facts that are kept, each with who said it, and how many were left out why.

    Dropped are facts taken from messages that are no source, repetitions of memories that were pasted in, and the assistant's beyond
    `MOST_OF_ASSISTANT`: those that change or add to a known memory go first, then the order decides.
    """
    facts = [_spoken(fact, job.messages) for fact in found.facts if _is_sourced(fact, job.messages)]
    fresh = _without_pasted(parts, job, facts)
    own = [number for number, fact in enumerate(fresh) if fact.attributed_to == "assistant"]
    first = sorted(own, key=lambda number: (not fresh[number].links, number))[:MOST_OF_ASSISTANT]
    dropped = set(own) - set(first)
    left = [fact for number, fact in enumerate(fresh) if number not in dropped]
    blanked = pasted_blocks(job.messages)
    return replace(found, facts=left, pasted=len(facts) - len(fresh), blanked=blanked, left_out=len(dropped))


def _without_pasted(parts: Parts, job: Job, facts: Sequence[Fact]) -> list[Fact]:
    lines = pasted_lines(job.messages) if facts else frozenset()
    suspects = {content_hash(fact.text) for fact in facts if fold(fact.text) in lines} if lines else set()
    if not suspects:
        return list(facts)
    query = sa.select(memories.c.content_hash).where(
        memories.c.owner_no == job.owner_no, memories.c.state == "live", memories.c.content_hash.in_(sorted(suspects))
    )
    with parts.ledger.read() as connection:
        known = set(connection.execute(query).scalars())
    return [fact for fact in facts if fold(fact.text) not in lines or content_hash(fact.text) not in known]


def _is_sourced(fact: Fact, messages: Sequence[Message]) -> bool:
    message = _message_of(fact, messages)
    return message is None or message.role in SOURCES


def _spoken(fact: Fact, messages: Sequence[Message]) -> Fact:
    """*fact* with who said it: the `name` of its message, or the one name that the speaker's messages have, where none is told."""
    if (said := _message_of(fact, messages)) is not None:
        return replace(fact, actor=said.name)
    names = {message.name for message in messages if message.role == fact.attributed_to and message.text.strip()}
    return replace(fact, actor=names.pop() if len(names) == 1 else None)


def _message_of(fact: Fact, messages: Sequence[Message]) -> Message | None:
    """The message that the extractor named."""
    return messages[fact.message] if fact.message is not None and 0 <= fact.message < len(messages) else None
