"""A long text in pieces of bounded size, cut where a reader would: paragraph, line, sentence, word, and only then anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["evenly", "pieces"]

#: Borders from best to worst; a piece ends after the match.
_BORDERS = tuple(re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?…]+[\"'”’)\]]*\s|[。！？；]+[”』」）]*", r"[\s，、,;；]"))

T = TypeVar("T")


def pieces(text: str, limit: int) -> list[tuple[int, str]]:
    """(offset, piece) of *text* in order, each of 1 to *limit* characters; joined they are *text*. An empty text has one empty piece."""
    if len(text) <= limit:
        return [(0, text)]
    found: list[tuple[int, str]] = []
    start = 0
    while len(text) - start > limit:
        end = start + _cut(text[start : start + limit])
        found.append((start, text[start:end]))
        start = end
    found.append((start, text[start:]))
    return found


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most *most* of *items* at even distances, the first and the last among them (the first alone for 1)."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[0]]
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def _cut(window: str) -> int:
    # Only the second half is looked at, so that a border early in the window does not make many tiny pieces.
    half = len(window) // 2
    for border in _BORDERS:
        ends = [match.end() for match in border.finditer(window, half)]
        if ends:
            return ends[-1]
    return len(window)
