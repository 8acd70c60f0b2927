"""The JSON in a chat model's reply: found in what stands around it, and repaired where what was meant is plain.

Found are an object with a list of memories (also under other names), a bare list, a single item, objects line by line (NDJSON): in code
fences, with chatter around, after thoughts in <think> tags. Repaired are escapes that JSON does not know, commas before a closing bracket,
curly or single quotes in place of JSON's, and Python's None, True and False. What is cut off is never completed: a half list looks whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice

__all__ = ["LISTS", "TEXTS", "items_of", "text_in"]

#: Names under which models and servers put the list, and the text of an item.
LISTS = ("memory", "memories", "facts", "results", "items", "data")
TEXTS = ("text", "memory", "fact", "content", "statement", "value")

_THOUGHT = r"(?:think|thinking|reasoning|thought)"
_THOUGHT_START = re.compile(rf"\s*<{_THOUGHT}>", re.IGNORECASE)
_THOUGHT_END = re.compile(rf"</{_THOUGHT}>", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\n?(.*?)```", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.))', re.DOTALL)
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


def items_of(reply: str) -> tuple[Sequence[object] | None, bool]:
    """The items of the list of memories in *reply* (None: there is no whole one), and whether it breaks off inside JSON or thoughts."""
    text = reply.strip().lstrip("\ufeff").strip()
    whole = _load(text)
    if whole is not None:
        return _list_in(whole[0], alone=True), False
    text, open_thought = _without_thoughts(text)
    if (lines := _lines(text)) is not None:
        return lines, False
    found: list[Sequence[object]] = []
    parts, broken = _parts(text)
    for part, alone in parts:
        value = _load(part)
        items = _list_in(value[0], alone=alone) if value is not None else None
        if items is None:
            items = _lines(part) if alone else None
        if items is not None:
            found.append(items)
    # What stands last is the answer, what stands before may be an example; but an empty one never hides one with content. Behind an
    # example an answer that breaks off hides it: the example is not the answer.
    if broken:
        return None, True
    return next((items for items in reversed(found) if items), found[-1] if found else None), open_thought


def text_in(item: object) -> str | None:
    """The text of an item without NUL and outer white space; None if it has none."""
    if isinstance(item, dict):
        item = next((item[key] for key in TEXTS if isinstance(item.get(key), str)), None)
    if not isinstance(item, str):
        return None
    return item.replace("\x00", "").strip() or None


def _without_thoughts(text: str) -> tuple[str, bool]:
    """*text* after its thoughts, and whether they were never closed; then only JSON that ends the reply, from a line's start, is left."""
    end = _THOUGHT_END.search(text)
    if _THOUGHT_START.match(text):
        if end:
            return text[end.end() :].strip(), False
        starts = islice((found.end() for found in _LINE_OF_JSON.finditer(text)), _MOST_STARTS)
        start = next((start for start in starts if _end_of(text, start) == len(text)), None)
        return ("" if start is None else text[start:], True)
    # Some servers leave the opening tag out; the words may also stand in a memory's text.
    after = text[end.end() :].strip() if end else ""
    return (after if "{" in after or "[" in after else text), False


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


def _parts(text: str) -> tuple[list[tuple[str, bool]], bool]:
    """Stretches of *text* that may be JSON, in order, true where nothing stands beside it (or in its fence); whether one breaks off."""
    found = [(text, True)]
    found += [(fence.group(1).strip(), True) for fence in _FENCE.finditer(text)]
    start = 0
    while (opening := _JSON_START.search(text, start)) is not None:
        end = _end_of(text, opening.start())
        if end is None:
            return found, True  # cut off: nothing inside it is an answer
        found.append((text[opening.start() : end], False))
        start = end
    return found, False


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
        for key in LISTS:
            inner = value.get(key)
            if isinstance(inner, list):
                return inner
            if isinstance(inner, dict) and text_in(inner):
                return [inner]
        for inner in value.values():  # a wrapped call: {"arguments": {"memory": […]}}
            if isinstance(inner, dict) and any(isinstance(inner.get(key), list) for key in LISTS):
                return _list_in(inner, alone=False)
            if isinstance(inner, str) and inner.lstrip().startswith("{"):  # its arguments as JSON in a string, as OpenAI writes them
                nested = _load(inner.strip())
                if nested is not None and isinstance(nested[0], dict) and any(isinstance(nested[0].get(key), list) for key in LISTS):
                    return _list_in(nested[0], alone=False)
        return [value] if alone and text_in(value) else None
    if isinstance(value, list):
        if not value:
            return value if alone else None
        return value if any(text_in(item) for item in value) and (alone or all(isinstance(item, (dict, str)) for item in value)) else None
    return None


def _load(text: str) -> tuple[object] | None:
    """The JSON value of *text*, repaired where that is plain, in a tuple; None if it is none."""
    if not text.startswith(("{", "[")):
        return None
    for form in _forms(text):
        try:
            return (json.loads(form, strict=False),)
        except (ValueError, RecursionError):
            continue
    return None


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
