"""A chat model's reply as facts: tolerant of how it is wrapped (`reply_json`), strict about what it says (`reply_model`).

A reply is unreadable, so that it is asked for again, if it was cut off, holds no such JSON, holds items of which none is a memory, or a
lone surrogate. Only an explicit empty list means that there is nothing to remember.
"""

from __future__ import annotations

import json

from memline.contracts.errors import ReplyUnreadable
from memline.contracts.fact import Fact, Link
from memline.contracts.message import SOURCES
from memline.pipeline.extractors.port import ReadFacts, Request
from memline.pipeline.extractors.reply_json import items_of
from memline.pipeline.extractors.reply_model import HalfCharacter, ReplyItem, item_of
from memline.pipeline.extractors.sentences import pieces

__all__ = ["MAX_TEXT", "divide_reply", "read_facts", "read_text"]

#: A longer text is several facts, cut at sentences.
MAX_TEXT = 2000


def read_facts(reply: str, request: Request) -> ReadFacts:
    """The facts in *reply*; needs only `request.known` and `request.messages`.

    Raises ReplyUnreadable with the whole reply in its `reply`.
    """
    known = {known.short_id: known.memory_id for known in request.known}
    facts = ReadFacts()
    for item in _read(reply):
        links: dict[str, Link] = {}
        for link in item.links:
            memory_id = known.get(link.id)
            if memory_id is None:
                facts.links_dropped += 1
            else:
                links.setdefault(memory_id, Link(memory_id, link.relation))
        message = item.message if item.message is not None and _is_shown(request, item.message) else None
        # a role is known, not claimed: who is attributed is who said the message that is named
        role = request.messages[message].role if message is not None else item.attributed_to
        said_by = role if role in SOURCES else item.attributed_to
        if item.number is not None:
            facts.named[f"n{item.number}"] = item.text
        facts.extend(Fact(piece, said_by, tuple(links.values()), message=message) for piece in pieces(item.text, MAX_TEXT))
    return facts


def divide_reply(reply: str, turns: int) -> list[str]:
    """The share of each of *turns* turns in a reply to all of them, as replies that `read_facts` takes.

    Raises ReplyUnreadable where the reply is, or where a fact names no turn that was asked of.
    """
    shares: list[list[ReplyItem]] = [[] for _ in range(turns)]
    for number, item in enumerate(_read(reply)):
        if item.turn is None or item.turn >= len(shares):
            raise _unreadable(reply, "a memory in it does not name its turn")
        shares[item.turn].append(item.model_copy(update={"number": number}))
    return [json.dumps({"memory": [_dumped(item) for item in share]}, ensure_ascii=False) for share in shares]


def read_text(reply: str) -> str:
    """The one text in *reply*, {"memory": "…"}; where it holds a list of texts, they are its lines. Raises ReplyUnreadable."""
    text = "\n".join(item.text for item in _read(reply, what="a memory"))
    if not text:
        raise _unreadable(reply, "its memory is empty")
    return text


def _read(reply: str, *, what: str = "a list of memories") -> list[ReplyItem]:
    raw, problem = items_of(reply)
    if raw is None:
        why = {
            "cut": "it breaks off before its end",
            "several": "it holds several answers that differ",
            None: f"it holds no complete JSON with {what}" if reply.strip() else "it is empty",
        }[problem]
        raise _unreadable(reply, why, cut=problem == "cut")
    try:
        items = [item for one in raw if (item := item_of(one)) is not None]
    except HalfCharacter:
        raise _unreadable(reply, "a text in it holds half of a surrogate pair") from None
    if raw and not items:
        raise _unreadable(reply, f"none of its {len(raw)} items is a memory")
    return items


def _is_shown(request: Request, message: int) -> bool:
    return message < len(request.messages) and bool(request.messages[message].text.strip())


def _dumped(item: ReplyItem) -> dict[str, object]:
    return item.model_dump(mode="json", exclude={"turn"})


def _unreadable(reply: str, why: str, *, cut: bool = False) -> ReplyUnreadable:
    told = f"The model's reply ({len(reply)} characters) can't be read: {why}. It is kept with the job; ask again, or try another model."
    return ReplyUnreadable(told, reply=reply, why=why, cut=cut)
