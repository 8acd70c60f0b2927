"""What the simulator answers unscripted: facts found in an extraction prompt, and hashed embeddings. No HTTP here."""

from __future__ import annotations

import json
import math
import re
import sys
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

__all__ = ["embedding", "extraction_reply", "little_endian", "new_messages", "token_count"]

#: A heading of the prompt: Markdown ("## New messages"), a tag ("<new_messages>"), or a line of prose with a colon before JSON or its end.
_HEADING = re.compile(
    r"""^[ \t]*(?:\#{1,6}[ \t]+(?P<hash>.+?)[ \t]*$
        | <(?P<tag>/?[A-Za-z][\w -]*)>
        | (?P<colon>[A-Za-z][^{}\[\]\n:]{0,100}):(?=[ \t]*(?:$|[\[{]))
    )""",
    re.MULTILINE | re.VERBOSE,
)
_NEW = re.compile(r"\bnew[ _-]+(?:\w+[ _-]+)?messages?\b|\bnew[ _-]+turn\b", re.IGNORECASE)
_OPENING = re.compile(r"[{\[]")

_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff]")
_WORD = re.compile(rf"{_CJK.pattern}+|(?:(?!{_CJK.pattern})[^\W_])+")
_WORD_WEIGHT = 1.0
_GRAM_WEIGHT = 0.4


def token_count(text: str) -> int:
    """A rough count, as OpenAI's usage needs one: four UTF-8 bytes a token."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


# --- chat ---------------------------------------------------------------------------------------------------------------


def extraction_reply(body: Mapping[str, Any]) -> str:
    """The built-in chat reply: one fact for each user message among the new messages of an extraction prompt, as JSON.

    A prompt without such messages gets an empty list; one that holds several turns gets, with each fact, the number of its turn. The same
    request always gets the same reply.
    """
    facts = [
        turn | {"text": _about_the_user(text), "attributed_to": "user", "links": [], "message": index}
        for turn, part in _turns(_last_user_text(body))
        for index, role, text in new_messages(part)
        if role == "user" and text.strip()
    ]
    return json.dumps({"memory": facts}, ensure_ascii=False)


def _turns(prompt: str) -> list[tuple[dict[str, int], str]]:
    """What a fact says of its turn, with the turn's part of the prompt: each of "turns" of a JSON document, or the whole prompt."""
    try:
        document = json.loads(prompt)
    except ValueError:
        return [({}, prompt)]
    turns = document.get("turns") if isinstance(document, dict) else None
    if not isinstance(turns, list):
        return [({}, prompt)]
    return [({"turn": number}, json.dumps(turn, ensure_ascii=False)) for number, turn in enumerate(turns)]


def new_messages(prompt: str) -> list[tuple[int, str, str]]:
    """(index, role, text) of the new messages in a prompt, in order: those under "messages" or "new_messages" of a JSON document,
    or the JSON objects with role and text that stand under a heading about new messages.

    The index is the one the prompt gives a message, else its position. Where nothing tells which are new, all count.
    """
    found: list[tuple[int, str, str]] = []
    for raw in _objects(_section(prompt)):
        text = raw.get("text", raw.get("content"))
        if isinstance(raw.get("role"), str) and isinstance(text, str):
            given = next((raw[key] for key in ("message", "index", "i") if type(raw.get(key)) is int), len(found))
            found.append((given, raw["role"], text))
    return found


def _section(prompt: str) -> str:
    """What stands under the last heading about new messages, up to the next heading of its kind."""
    headings = [(found.lastgroup or "", found[found.lastgroup or 0], found) for found in _HEADING.finditer(prompt)]
    for at in range(len(headings) - 1, -1, -1):
        kind, title, found = headings[at]
        if _NEW.search(title) and not title.startswith("/"):
            end = next((later.start() for other, _, later in headings[at + 1 :] if other == kind), len(prompt))
            return prompt[found.end() : end]
    return prompt


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects in *text*, also those inside lists or under a key; what is inside a string is not looked at."""
    decoder = json.JSONDecoder()
    at = 0
    while opening := _OPENING.search(text, at):
        try:
            value, at = decoder.raw_decode(text, opening.start())
        except ValueError:  # a bracket of the prose
            at = opening.end()
        else:
            yield from _nested(value)


def _nested(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if "role" in value:
            yield value
        else:
            # memline's prompt is one document: "messages" are the new ones, "window" those before, "known" memories.
            new = [item for key, item in value.items() if _NEW.search(str(key))] or [value[key] for key in ("messages",) if key in value]
            for item in new or value.values():
                yield from _nested(item)
    elif isinstance(value, list):
        for item in value:
            yield from _nested(item)


def _last_user_text(body: Mapping[str, Any]) -> str:
    for message in reversed(body["messages"]):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            parts = content if isinstance(content, list) else []
            return "\n".join(part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str))
    return ""


def _about_the_user(text: str) -> str:
    text = re.sub(r"\bI(?: am|'m|’m)\b", "User is", " ".join(text.split()))
    return re.sub(r"\bI\b", "User", text)


# --- embeddings ---------------------------------------------------------------------------------------------------------


def embedding(text: str, dimension: int) -> array[float]:
    """A vector of *dimension* float32 of length 1, from *text* alone: signed feature hashing of words and character 3-grams.

    Texts that share words or parts of words are near (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning").
    Chinese and Japanese: single characters and pairs. It knows no meaning: synonyms are as far apart as any two words.
    """
    sums: dict[int, float] = {}
    for (kind, feature), count in _features(text).items():
        hashed = _hash(feature)
        weight = (_WORD_WEIGHT if kind == "word" else _GRAM_WEIGHT) * (1.0 + math.log(count))
        place = (hashed >> 1) % dimension
        sums[place] = sums.get(place, 0.0) + (weight if hashed & 1 else -weight)
    norm = math.sqrt(math.fsum(value * value for value in sums.values()))
    if norm < 1e-9:  # every feature met its opposite, which happens in a few dimensions only
        sums, norm = {_hash(text) % dimension: 1.0}, 1.0
    vector = array("f", bytes(4 * dimension))
    for place, value in sums.items():
        vector[place] = value / norm
    return vector


def little_endian(vector: array[float]) -> bytes:
    """The bytes of *vector* as OpenAI's base64 encoding has them."""
    if sys.byteorder == "big":
        vector = array("f", vector)
        vector.byteswap()
    return vector.tobytes()


def _features(text: str) -> Counter[tuple[str, str]]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    found: Counter[tuple[str, str]] = Counter()
    for word in _WORD.findall(folded):
        if _CJK.match(word):
            found.update(("word", character) for character in word)
            found.update(("word", word[at : at + 2]) for at in range(len(word) - 1))
        else:
            edged = f"<{word}>"
            found["word", word] += 1
            found.update(("gram", "#" + edged[at : at + 3]) for at in range(len(edged) - 2))
    return found or Counter({("word", folded): 1})


@lru_cache(maxsize=65536)
def _hash(feature: str) -> int:
    return int.from_bytes(blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
