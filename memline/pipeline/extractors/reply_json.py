"""The JSON in a chat model's reply: found in what stands around it, and repaired where what was meant is plain.

Found are an object with a list of memories (also under other names), a bare list, a single item, objects line by line (NDJSON): in code
fences, with chatter around, after thoughts in <think> tags. Repaired are escapes that JSON does not know, commas before a closing bracket,
curly or single quotes in place of JSON's, and Python's None, True and False.

What is cut off is never completed: a half list looks whole. Nor is it guessed which of several answers is meant: an example, a draft and
the other half look alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal

__all__ = ["LISTS", "TEXTS", "items_of", "text_in"]

#: Names under which models and servers put the list, and the text of an item.
LISTS = ("memory", "memories", "facts", "results", "items", "data")
TEXTS = ("text", "memory", "fact", "content", "statement", "value")

#: Those under which an object may be the whole answer. Under the others stand refusals, too: {"role": "assistant", "content": "Sorry"}.
_ALONE = ("text", "memory", "fact")
#: Where the answer may stand as JSON in a string, as OpenAI writes the arguments of a call.
_CALLS = ("arguments", "input", "parameters", "content", *LISTS)
#: What is written for nothing in the place of a text.
_NO_TEXTS = ("none", "null", "n/a", "[]", "{}")

_THOUGHT = r"(?:think|thinking|reasoning|thought)"
_THOUGHT_START = re.compile(rf"\s*<{_THOUGHT}>", re.IGNORECASE)
_THOUGHT_END = re.compile(rf"</{_THOUGHT}>", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\n?(.*?)```", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.))', re.DOTALL)
_BESIDE = re.compile(r"```[A-Za-z0-9_-]*|[\s,;]+")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_MARKUP = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_JSON_START = re.compile(r'[\[{](?=\s*(?:["“\'\[\]{}]|$))')
#: A string in quotes that are not JSON's, where a string of JSON stands: after a sign that one follows, before a sign that follows one.
_OTHER_STRING = re.compile(
    r"(?P<before>[{\[,:]\s*)(?:“(?P<curly>(?:[^“”\\]++|\\.)*+)”|'(?P<single>(?:[^'\\]++|\\.)*+)')(?=\s*[,:}\]])", re.DOTALL
)
_LINE_OF_JSON = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
#: Lines of thoughts that were never closed where the answer may begin: each is looked at to its end.
_MOST_STARTS = 50
_PYTHON = {"None": "null", "True": "true", "False": "false"}
_PYTHON_WORD = re.compile(r"\b(?:None|True|False)\b")


def items_of(reply: str) -> tuple[Sequence[object] | None, Literal["cut", "several"] | None]:
    """The items of the list of memories in *reply*; None where there is no one whole list, and why, where that can be told.

    "cut": it breaks off inside JSON or thoughts; "several": it holds lists that differ.
    """
    text = reply.strip().lstrip("\ufeff").strip()
    whole = _load(text)
    if whole is not None:
        return _list_in(whole[0], alone=True), None
    text, open_thought = _without_thoughts(text)
    if (lines := _lines(text)) is not None:
        return lines, None
    parts, broken, only_json = _parts(text)
    if broken:  # behind an example an answer that breaks off hides it: the example is not the answer
        return None, "cut"
    found: list[Sequence[object]] = []
    for part, alone in parts:
        value = _load(part)
        items = _list_in(value[0], alone=alone) if value is not None else None
        if items is None:
            items = _lines(part) if alone else None
        if items is not None and items not in found[-1:]:  # what stands in a fence is met twice
            found.append(items)
    if len(found) > 1 and only_json:  # an answer in pieces
        return [item for items in found for item in items], None
    filled = [items for items in found if items]
    if any(items != filled[0] for items in filled) or (filled and not found[-1]):
        return None, "several"
    return (found[-1] if found else None), "cut" if open_thought and not found else None


def text_in(item: object, names: Sequence[str] = TEXTS) -> str | None:
    """The text of an item without NUL and outer white space; None if it has none."""
    if isinstance(item, dict):
        item = next((item[key] for key in names if isinstance(item.get(key), str)), None)
    if not isinstance(item, str):
        return None
    text = item.replace("\x00", "").strip()
    return None if text.casefold() in _NO_TEXTS else text or None


def _without_thoughts(text: str) -> tuple[str, bool]:
    """*text* after its thoughts, and whether they were never closed; then only JSON that ends the reply, from a line's start, is left."""
    while _THOUGHT_START.match(text):
        end = _THOUGHT_END.search(text)
        if end is None:
            starts = islice((found.end() for found in _LINE_OF_JSON.finditer(text)), _MOST_STARTS)
            start = next((start for start in starts if _end_of(text, start) == len(text)), None)
            return ("" if start is None else text[start:], True)
        text = text[end.end() :].strip()
    # Some servers leave the opening tag out; the words may also stand in a memory's text.
    end = _THOUGHT_END.search(text)
    if end is None or _is_in_json(text, end.start()):
        return text, False
    before, after = text[: end.start()].strip(), text[end.end() :].strip()
    return (before if not after and _load(before) is not None else after), False


def _is_in_json(text: str, place: int) -> bool:
    start = 0
    while (opening := _JSON_START.search(text, start, place)) is not None:
        end = _end_of(text, opening.start())
        if end is None or end > place:
            return end is not None and _load(text[opening.start() : end]) is not None
        start = end
    return False


def _lines(text: str) -> list[object] | None:
    """The items of a reply that holds one JSON object a line, each an item; None if it is something else."""
    lines = [line.strip().rstrip(",") for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or not all(line.startswith("{") for line in lines):
        return None
    found: list[object] = []
    for line in lines:
        value = _load(line)
        if value is None or not isinstance(value[0], dict) or any(isinstance(value[0].get(key), (list, dict)) for key in LISTS):
            return None
        if text_in(value[0]) is None:
            return None
        found.append(value[0])
    return found


def _parts(text: str) -> tuple[list[tuple[str, bool]], bool, bool]:
    """Stretches of *text* that may be JSON, in order, true where nothing stands beside it (or in its fence).

    And whether one breaks off, and whether there is nothing else in *text*.
    """
    found = [(fence.start(1), fence.group(1).strip(), True) for fence in _FENCE.finditer(text)]
    beside: list[str] = []
    start = 0
    while (opening := _JSON_START.search(text, start)) is not None:
        end = _end_of(text, opening.start())
        if end is None:
            return [], True, False  # cut off: nothing inside it is an answer
        found.append((opening.start(), text[opening.start() : end], False))
        beside.append(text[start : opening.start()])
        start = end
    beside.append(text[start:])
    found.sort(key=lambda one: one[0])
    parts = [(text, True), *((part, alone) for _, part, alone in found)]
    return parts, False, not any(_BESIDE.sub("", some) for some in beside)


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
    """The items of an envelope or a bare list.

    *alone*: a single item, or a list that is empty or holds strings, may be the whole answer; beside words it is a part of the chatter.
    """
    if isinstance(value, dict):
        lists: list[list[object]] = [value[key] for key in LISTS if isinstance(value.get(key), list)]
        if lists:
            return next((items for items in lists if items), lists[0])
        for key in LISTS:
            if isinstance(value.get(key), dict) and text_in(value[key]):
                return [value[key]]
        for key, inner in value.items():  # a wrapped call: {"arguments": {"memory": […]}}
            if key in _CALLS and isinstance(inner, str) and inner.lstrip().startswith("{"):
                nested = _load(inner.strip())
                inner = None if nested is None else nested[0]
            if isinstance(inner, dict) and any(isinstance(inner.get(name), list) for name in LISTS):
                return _list_in(inner, alone=False)
        return [value] if alone and "role" not in value and text_in(value, _ALONE) else None
    if isinstance(value, list):
        if not value:
            return value if alone else None
        if any(isinstance(item, dict) and "role" in item for item in value):
            return None  # the messages that it was asked of
        return value if any(text_in(item) for item in value) and (alone or all(isinstance(item, dict) for item in value)) else None
    return None


def _load(text: str) -> tuple[object] | None:
    """The JSON value of *text*, repaired where that is plain, in a tuple; None if it is none."""
    if not text.startswith(("{", "[")):
        return None
    for form in _forms(text):
        try:
            return (json.loads(form, strict=False, object_pairs_hook=_joined),)
        except (ValueError, RecursionError):
            continue
    return None


def _joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; lists under one name, which JSON takes the last of, are one list."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if isinstance(value, list) and isinstance(found.get(key), list):
            found[key].extend(value)
        else:
            found[key] = value
    return found


def _forms(text: str) -> Iterator[str]:
    yield text
    yield _repaired(text)
    if "“" in text or "'" in text:
        yield _repaired(_OTHER_STRING.sub(_quoted, text))


def _quoted(match: re.Match[str]) -> str:
    inner = match["curly"] if match["curly"] is not None else match["single"].replace("\\'", "'")
    return match["before"] + '"' + re.sub(r'(?<!\\)"', r"\\" + '"', inner) + '"'


def _repaired(text: str) -> str:
    """*text* with escapes that JSON does not know made plain, without commas before a closing bracket, and JSON's words for Python's."""
    kept: list[str] = []
    end = 0
    for string in _STRING.finditer(text):
        kept.append(_outside(text[end : string.start()]))
        kept.append(_ESCAPE.sub(_plain_escape, string.group()))
        end = string.end()
    kept.append(_outside(text[end:]))
    return "".join(kept)


def _outside(text: str) -> str:
    return _PYTHON_WORD.sub(lambda word: _PYTHON[word.group()], _TRAILING_COMMA.sub(r"\1", text))


def _plain_escape(match: re.Match[str]) -> str:
    # A broken \\u is damage, not a wrong escape: it stays, and the reply is unreadable.
    if match.group(1) is not None or match.group(2) == "u":
        return match.group()
    return match.group(2) if match.group(2) == "'" else "\\\\" + match.group(2)
