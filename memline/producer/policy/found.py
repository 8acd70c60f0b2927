"""What the finders share: a place in a text, and looking for needles in linear time.

A finder goes from one literal to the next (`str.find`) and looks closer there only. A pattern that was tried is never tried again inside
what it has read, so that no text makes it slow.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from memline.contracts.policy import Kind

__all__ = ["Found", "entropy", "is_stand_in", "lowered", "places"]


class Found(NamedTuple):
    """Where in a text something of a kind stands: [start, end)."""

    start: int
    end: int
    kind: Kind


def lowered(text: str) -> str:
    """*text* in lower case, each character at its place."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)


def places(text: str, needle: str) -> Iterator[int]:
    """Where *needle* stands."""
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + len(needle))


def entropy(value: str) -> float:
    """Shannon's, in bits a character."""
    length = len(value)
    return -sum(number / length * math.log2(number / length) for number in Counter(value).values())


#: What stands in documents and templates where a secret would: variables, brackets, stars, "your-key-here".
_STAND_IN = re.compile(
    r"[$<{\[(%\x00]|\*{2}|•{2}|x{4}|\.{2}|_{3}|-{3}"
    r"|your[-_ ]?|my[-_](?:key|token|secret|api|pass)|example|placeholder|changeme(?!\w)|redacted|removed|hidden|insert|replace|todo\b"
    r"|(?:process\.|os\.|import\.meta\.)?env[.\[(]|(?:get)?env\(|vault:|secretsmanager|arn:|https?://|file:|ref\+|op://|null\b|none\b|undefined\b"
    r"|![a-z]+\b|[./~]/|/[a-z]+/|true\b|false\b",
    re.IGNORECASE,
)


def is_stand_in(value: str) -> bool:
    """Whether *value* only stands for a secret."""
    return _STAND_IN.match(value) is not None
