"""What a text asks for and what a text holds, by its words, in English and Chinese: patterns that any conversation has."""

from __future__ import annotations

import re

__all__ = [
    "asks_for_help",
    "asks_how_many",
    "asks_what_was_answered",
    "days_of",
    "holds_a_number",
    "says_how_it_is_wanted",
    "without_names",
]

_HOW_MANY = re.compile(r"\bhow (?:many|much)\b|多少|几[个只次本台间位条张块岁级层]", re.IGNORECASE)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|first|second|third|once|twice|several|couple|dozen)\b"
    r"|[一二两三四五六七八九十百千万]+[个只次本台间位条张块岁级层]",
    re.IGNORECASE,
)
#: A request: "can you show me", "how should I", "what would you suggest".
_HELP = re.compile(
    r"\b(?:can|could|would|will) you\b|\bshould i\b|\bhow (?:do|can|should|would|could) i\b|\bhelp me\b|\bwhat (?:are|is|would|steps)\b"
    r"|\b(?:suggest|recommend|advise|advice)|怎么|如何|怎样|应该|请(?:帮|给|你)|帮我|推荐|建议",
    re.IGNORECASE,
)
#: A wish for all times: "always …", "from now on", "I prefer".
_WISH = re.compile(
    r"\b(?:always|whenever|every time|from now on|prefers?|preferred)\b"
    r"|总是|一律|务必|每次|每当|以后都|今后|从现在起|更喜欢|偏好|偏爱",
    re.IGNORECASE,
)
#: "did you recommend", "as you told me": of an assistant's own words.
_YOU_SAID = re.compile(
    r"\b(?:did|have|had|that|as|what|which) (?:did )?you (?:\w+ly )?(?:recommend|suggest|sa(?:y|id)|tell|told|mention|advise|explain|propos"
    r"|list|describ|g[ia]ve|offer|show)"
    r"|你(?:之前|上次|刚才|曾经?)?(?:推荐|建议|说|告诉|提到|解释|列)",
    re.IGNORECASE,
)
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
_NAMES = "|".join(_MONTHS)
_DAY = re.compile(
    rf"\b(?:(?P<m1>{_NAMES}) (?P<d1>\d{{1,2}})(?!\d)|(?P<d2>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<m2>{_NAMES}))\b"
    r"|(?<!\d)(?P<m3>1[0-2]|[1-9])月(?P<d3>\d{1,2})[日号]",
    re.IGNORECASE,
)


def asks_how_many(text: str) -> bool:
    """The text asks for a number."""
    return _HOW_MANY.search(text) is not None


def holds_a_number(text: str) -> bool:
    """The text holds a number, in digits or words."""
    return _NUMBER.search(text) is not None


def asks_for_help(text: str) -> bool:
    """The text asks how something is done, or for it to be done: what somebody always wants bears on the answer."""
    return _HELP.search(text) is not None


def says_how_it_is_wanted(text: str) -> bool:
    """The text says what somebody always wants or prefers."""
    return _WISH.search(text) is not None


def asks_what_was_answered(text: str) -> bool:
    """The text asks for what an assistant said."""
    return _YOU_SAID.search(text) is not None


def days_of(text: str) -> frozenset[tuple[int, int]]:
    """The days that the text names: (month, day), of no year."""
    found: set[tuple[int, int]] = set()
    for match in _DAY.finditer(text):
        name, number = match["m1"] or match["m2"], match["d1"] or match["d2"] or match["d3"]
        month = _MONTHS.index(name.lower()) + 1 if name else int(match["m3"])
        if 1 <= int(number) <= 31:
            found.add((month, int(number)))
    return frozenset(found)


def without_names(text: str, names: frozenset[str]) -> str:
    """*text* without *names* (each whole, or by its first word), as words of their own; *text* itself where nothing would be left."""
    kept = text
    parts = {part for name in names for part in (name, *name.split()[:1]) if len(part) > 1 and not part.isdigit()}
    for name in sorted(parts, key=lambda name: (-len(name), name)):
        left = r"(?<![^\W_])" if name[0].isascii() else ""
        right = r"(?![^\W_])" if name[-1].isascii() else ""
        kept = re.sub(left + re.escape(name) + right + r"(?:['’]s)?", " ", kept, flags=re.IGNORECASE)
    kept = " ".join(kept.split())
    return kept if any(character.isalnum() for character in kept) else text
