"""A chat model's reply as facts: tolerant of how it is wrapped, strict about what it says.

Read are the object {"memory": […]} (also under other names), a bare list, and items that are objects or strings, in code fences, with
chatter around, after thoughts in <think> tags, with trailing commas or wrong escapes. A reply is unreadable, so that it is asked for again,
if it was cut off, holds no such JSON, holds items of which none is a memory, or a lone surrogate. Only an explicit empty list means that
there is nothing to remember. What an item says about identity is never looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from memline.contracts.errors import ReplyUnreadable
from memline.contracts.fact import Fact, Link, Relation
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.sentences import pieces

__all__ = ["MAX_TEXT", "read_facts", "read_text"]

#: A longer text is several facts, cut at sentences.
MAX_TEXT = 2000

_LISTS = ("memory", "memories", "facts", "results")
_TEXTS = ("text", "memory", "fact", "content")
_THOUGHT_START = re.compile(r"\s*<(?:think|thinking|reasoning)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\n?(.*?)```", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.))', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_MARKUP = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_JSON_START = re.compile(r'[\[{](?=\s*(?:["\[\]{}]|$))')


def read_facts(reply: str, request: Request) -> list[Fact]:
    """The facts in *reply*; needs only `request.known` and `request.messages`.

    Raises ReplyUnreadable with the whole reply in its `reply`.
    """
    items = _items(reply)
    if items is None:
        raise _unreadable(reply, "it holds no complete JSON with a list of memories")
    facts: list[Fact] = []
    for item in items:
        text = _text_of(item)
        if text is None:
            continue
        if _SURROGATE.search(text):
            raise _unreadable(reply, "a text in it holds half of a surrogate pair")
        facts.extend(_facts(text, item if isinstance(item, dict) else {}, request))
    if items and not facts:
        raise _unreadable(reply, f"none of its {len(items)} items is a memory")
    return facts


def read_text(reply: str) -> str:
    """The one text in *reply*, {"memory": "…"}; where it holds a list of texts, they are its lines. Raises ReplyUnreadable."""
    items = _items(reply)
    if items is None:
        raise _unreadable(reply, "it holds no complete JSON with a memory")
    text = "\n".join(found for item in items if (found := _text_of(item)) is not None)
    if not text:
        raise _unreadable(reply, "its memory is empty")
    if _SURROGATE.search(text):
        raise _unreadable(reply, "its text holds half of a surrogate pair")
    return text


def _unreadable(reply: str, reason: str) -> ReplyUnreadable:
    return ReplyUnreadable(
        f"The model's reply ({len(reply)} characters) can't be read: {reason}. It is kept with the job; ask again, or try another model.",
        reply=reply,
    )


def _facts(text: str, item: dict[str, Any], request: Request) -> Iterator[Fact]:
    said_by = "assistant" if item.get("attributed_to") == "assistant" else "user"
    message = item.get("message")
    if not isinstance(message, int) or isinstance(message, bool) or not 0 <= message < len(request.messages):
        message = None
    links = tuple(_links(item, {known.short_id: known.memory_id for known in request.known}))
    for piece in pieces(text, MAX_TEXT):
        yield Fact(piece, said_by, links, message=message)


def _text_of(item: object) -> str | None:
    """The text of an item without NUL and outer white space; None if it has none."""
    if isinstance(item, dict):
        item = next((item[key] for key in _TEXTS if isinstance(item.get(key), str)), None)
    if not isinstance(item, str):
        return None
    return item.replace("\x00", "").strip() or None


def _links(item: dict[str, Any], known: dict[str, str]) -> Iterator[Link]:
    """Links to known memories, one each; unknown ids are dropped, an unknown relation is "relates"."""
    seen: set[str] = set()
    for key in ("links", "linked_memory_ids"):
        raw = item.get(key)
        for link in raw if isinstance(raw, list) else []:
            named = link.get("id") if isinstance(link, dict) else link
            if not isinstance(named, (str, int)) or isinstance(named, bool):
                continue
            memory_id = known.get(str(named).strip())
            if memory_id is None or memory_id in seen:
                continue
            seen.add(memory_id)
            yield Link(memory_id, _relation(link.get("relation") if isinstance(link, dict) else None))


def _relation(raw: object) -> Relation:
    try:
        return Relation(raw.strip().lower()) if isinstance(raw, str) else Relation.RELATES
    except ValueError:
        return Relation.RELATES


def _items(reply: str) -> Sequence[object] | None:
    """The list of items in *reply*; None if there is none that is complete."""
    text = reply.strip().lstrip("\ufeff").strip()
    whole = _load(text)
    if whole is not None:
        return _list_in(whole[0], alone=True)
    text = _without_thoughts(text)
    found: list[Sequence[object]] = []
    for part, alone in _parts(text):
        value = _load(part)
        items = _list_in(value[0], alone=alone) if value is not None else None
        if items is not None:
            found.append(items)
    # What stands last is the answer, what stands before may be an example; but an empty one never hides one with content.
    return next((items for items in reversed(found) if items), found[-1] if found else None)


def _without_thoughts(text: str) -> str:
    """*text* after its thoughts; nothing if it ends inside them."""
    end = _THOUGHT_END.search(text)
    if _THOUGHT_START.match(text):
        return text[end.end() :].strip() if end else ""
    # Some servers leave the opening tag out; the words may also stand in a memory's text.
    after = text[end.end() :].strip() if end else ""
    return after if "{" in after or "[" in after else text


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Stretches of *text* that may be JSON, in order; true where nothing else stands beside it (or in its fence)."""
    yield text, True
    for fence in _FENCE.finditer(text):
        yield fence.group(1).strip(), True
    start = 0
    while (found := _JSON_START.search(text, start)) is not None:
        end = _end_of(text, found.start())
        if end is None:
            return  # cut off: nothing inside it is an answer
        yield text[found.start() : end], False
        start = end


def _end_of(text: str, start: int) -> int | None:
    """Where the bracket at *start* is closed; None if it is not."""
    depth = 0
    for mark in _MARKUP.finditer(text, start):
        if mark.group() in ("{", "["):
            depth += 1
        elif mark.group() in ("}", "]"):
            depth -= 1
            if depth == 0:
                return mark.end()
    return None


def _list_in(value: object, *, alone: bool) -> list[object] | None:
    """The items of an envelope or a bare list; *alone*: a single item, or an empty list, may be the whole answer."""
    if isinstance(value, dict):
        for key in _LISTS:
            inner = value.get(key)
            if isinstance(inner, list):
                return inner
            if isinstance(inner, dict) and _text_of(inner):
                return [inner]
        for inner in value.values():  # a wrapped call: {"arguments": {"memory": […]}}
            if isinstance(inner, dict) and any(isinstance(inner.get(key), list) for key in _LISTS):
                return _list_in(inner, alone=False)
        return [value] if alone and _text_of(value) else None
    if isinstance(value, list):
        if not value:
            return value if alone else None
        return value if any(_text_of(item) for item in value) and (alone or all(isinstance(item, (dict, str)) for item in value)) else None
    return None


def _load(text: str) -> tuple[object] | None:
    """The JSON value of *text*, repaired where that is plain, in a tuple; None if it is none."""
    if not text.startswith(("{", "[")):
        return None
    for form in (text, _repaired(text)):
        try:
            return (json.loads(form, strict=False),)
        except (ValueError, RecursionError):
            continue
    return None


def _repaired(text: str) -> str:
    """*text* with escapes that JSON does not know made plain, and without commas before a closing bracket."""
    kept: list[str] = []
    end = 0
    for string in _STRING.finditer(text):
        kept.append(_TRAILING_COMMA.sub(r"\1", text[end : string.start()]))
        kept.append(_ESCAPE.sub(_plain_escape, string.group()))
        end = string.end()
    kept.append(_TRAILING_COMMA.sub(r"\1", text[end:]))
    return "".join(kept)


def _plain_escape(match: re.Match[str]) -> str:
    # A broken \\u is damage, not a wrong escape: it stays, and the reply is unreadable.
    if match.group(1) is not None or match.group(2) == "u":
        return match.group()
    return match.group(2) if match.group(2) == "'" else "\\\\" + match.group(2)
