"""Memories that the application pasted into a message for its model: they are no news, whoever's message it is.

A recall loop begins where a search's results go into the next turn and come back as memories. Two guards: blocks that say of themselves
that they are memories are blanked before an extractor sees the turn (each character a space, so that places in the text stay), and a fact
that repeats a live memory of the owner which stands in the message as an item of a list is dropped (`pipeline.keeping`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from memline.contracts.content_hash import fold
from memline.contracts.message import SOURCES, Message

__all__ = ["pasted_blocks", "pasted_lines", "without_pasted"]

_TAG = r"(?:(?:relevant|recalled|retrieved|known|user|long[-_]term|past)[-_ ]?)?(?:memory|memories|memory[-_]context|recalled[-_]facts)"
_OPENS = re.compile(rf"<({_TAG})>", re.IGNORECASE)

#: What may follow in such a line, so that "Existing memory modules:" and "Known memories from my childhood:" are somebody's own.
_REST = (
    r"(?:[ \t]+(?:about|of|for|on)[ \t]+(?:(?:the|this)[ \t]+)?user)?(?:[ \t]+[\"'#]?(?=[^\s:]*\d)[\w.@-]{1,64}[\"']?)?"
    r"(?:[ \t]+(?:so far|(?:from|of)[ \t]+(?:(?:the|our|your|this|all|an?)[ \t]+)?"
    r"(?:earlier|past|previous|last|older|other|prior|chat|conversation|session|store|database|search)[^\n:]{0,30}))?"
    r"(?:[ \t]*\([^\n)]{0,40}\))?"
)
#: A line that leads a list of memories. "My memories of Rome:" is somebody's own, so a bare "memories" is not enough.
_LEAD = re.compile(
    r"^[ \t]*(?:\#{1,6}[ \t]+|\*\*)?"
    r"(?:(?:here (?:are|is) )?(?:(?:some|the|your|all) )?"
    r"(?:relevant|recalled|retrieved|stored|saved|known|long[- ]term|existing|previous|user) "
    rf"(?:user )?memor(?:y|ies){_REST}"
    rf"|memories (?:about|of|for) (?:the |this )?user{_REST}"
    rf"|what (?:i|you|we) (?:know|remember) about (?:the |this )?user{_REST}"
    r"|(?:相关|已知|历史|检索到的|用户)(?:的)?记忆(?:如下|内容|列表|条目|信息|片段)?(?:[（(][^\n）)]{0,20}[)）])?)"
    r"(?:\*\*)?[ \t]*[:：]?(?:\*\*)?[ \t]*\n",
    re.IGNORECASE | re.MULTILINE,
)
_ITEM = re.compile(r"[ \t]*(?:[-*•+]|\d{1,3}[.)]|\[\d{1,3}\])[ \t]*[^\n]*(?:\n|\Z)|[ \t]*\n(?=[ \t]*(?:[-*•+]|\d{1,3}[.)]))")
_MARKER = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,3}[.)]|\[\d{1,3}\])[ \t]*")


def without_pasted(messages: Sequence[Message]) -> tuple[Message, ...]:
    """*messages* with blocks of pasted memories blanked: between tags such as <memories>, or a list under a line that says so."""
    return tuple(
        replace(message, text=_blanked(message.text)[0]) if message.role in SOURCES and message.text else message for message in messages
    )


def pasted_blocks(messages: Sequence[Message]) -> int:
    """How many blocks `without_pasted` blanks."""
    return sum(_blanked(message.text)[1] for message in messages if message.role in SOURCES)


def pasted_lines(messages: Sequence[Message]) -> frozenset[str]:
    """The items of lists in *messages*, folded and without their mark: where a memory may have been pasted."""
    return frozenset(
        fold(line[mark.end() :])
        for message in messages
        if message.role in SOURCES
        for line in message.text.split("\n")
        if (mark := _MARKER.match(line)) is not None
    )


def _blanked(text: str) -> tuple[str, int]:
    text, blocks = _without_tagged(text)
    start = 0
    while (lead := _LEAD.search(text, start)) is not None:
        end = lead.end()
        while (item := _ITEM.match(text, end)) is not None and item.end() > end:
            end = item.end()
        if end > lead.end():  # a lead without a list is a sentence of somebody's
            text = text[: lead.start()] + _spaces(text[lead.start() : end]) + text[end:]
            blocks += 1
        start = end
    return text, blocks


def _without_tagged(text: str) -> tuple[str, int]:
    start = blocks = 0
    never_closed: set[str] = set()
    while (opens := _OPENS.search(text, start)) is not None:
        tag = opens[1].lower()
        start = opens.end()
        closes = None if tag in never_closed else re.compile(f"</{re.escape(tag)}>", re.IGNORECASE).search(text, start)
        if closes is None:
            never_closed.add(tag)
            continue
        blocks += 1
        text = text[: opens.start()] + _spaces(text[opens.start() : closes.end()]) + text[closes.end() :]
        start = closes.end()
    return text, blocks


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
