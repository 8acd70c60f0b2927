"""Where in its turn a fact was said, for extractors that do not tell: only where its text stands there to the letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memline.contracts.fact import Fact
from memline.contracts.message import SOURCES, Message
from memline.pipeline.asking import Extraction

__all__ = ["placed"]


def placed(found: Extraction, messages: Sequence[Message]) -> Extraction:
    """*found* with the span of each fact whose text one message has, and without spans that lie in none."""
    return replace(found, facts=[_placed(fact, messages) for fact in found.facts])


def _placed(fact: Fact, messages: Sequence[Message]) -> Fact:
    if fact.span is not None:
        return fact if _lies_in(fact, messages) else replace(fact, span=None)
    where = [fact.message] if fact.message is not None else [number for number, each in enumerate(messages) if each.role in SOURCES]
    wanted = fact.text.rstrip(".。")
    holders = [number for number in where if 0 <= number < len(messages) and wanted and wanted in messages[number].text]
    if len(holders) != 1:
        return fact
    start = messages[holders[0]].text.index(wanted)
    return replace(fact, message=holders[0], span=(start, start + len(wanted)))


def _lies_in(fact: Fact, messages: Sequence[Message]) -> bool:
    if fact.message is None or fact.span is None or not 0 <= fact.message < len(messages):
        return False
    start, end = fact.span
    return 0 <= start < end <= len(messages[fact.message].text)
