"""Where in its message a fact was said, for extractors that do not tell: only where its text stands there to the letter, once.

A message that the extractor did not name is not guessed at: when a memory is deleted, all that may be its source has to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memline.contracts.fact import Fact
from memline.contracts.message import Message
from memline.pipeline.asking import Extraction

__all__ = ["placed"]


def placed(found: Extraction, messages: Sequence[Message]) -> Extraction:
    """*found* with the span of each fact whose text its message has, and without spans that do not lie there."""
    return replace(found, facts=[_placed(fact, messages) for fact in found.facts])


def _placed(fact: Fact, messages: Sequence[Message]) -> Fact:
    if fact.message is None or not 0 <= fact.message < len(messages):
        return fact if fact.span is None else replace(fact, span=None)
    text = messages[fact.message].text
    if fact.span is not None:
        return fact if 0 <= fact.span[0] < fact.span[1] <= len(text) else replace(fact, span=None)
    wanted = fact.text.rstrip(".。")
    start = text.find(wanted) if wanted else -1
    if start < 0 or text.find(wanted, start + 1) >= 0:
        return fact
    return replace(fact, span=(start, start + len(wanted)))
