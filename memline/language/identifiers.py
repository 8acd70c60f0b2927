"""Codes, addresses and other strings that mean nothing when a letter is lost, found by pattern before any model looks.

All patterns are anchored on what stands before, so that a run of characters is tried once, and read ASCII only: next to a Chinese
character an identifier begins and ends like next to a space. The text is expected narrow (`words.narrow`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Identifier", "find_identifiers", "overlaps"]


@dataclass(frozen=True, slots=True)
class Identifier:
    """A stretch of a text that is indexed whole and in parts."""

    text: str
    start: int
    end: int
    kind: str
    #: It names something (a ticket, an address); false for dates, times, amounts and words with a number.
    entity: bool


_A = r"[A-Za-z0-9]"
#: Nothing of a longer token stands before / after.
_B = r"(?<![A-Za-z0-9_])"
_E = r"(?![A-Za-z0-9_])"

_DAY = r"\d{1,2}"
_PATH = r"[A-Za-z0-9_.+@-]+"
#: In order of precedence: what an earlier pattern took is not looked at again.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("url", rf"{_B}(?:[A-Za-z][A-Za-z0-9+]{{1,15}}://|www\.)[!-~]+"),
        ("email", rf"(?<![A-Za-z0-9_.+%-])[A-Za-z0-9_.+%-]{{1,64}}@(?:[A-Za-z0-9-]{{1,63}}\.)+[A-Za-z]{{2,24}}{_E}"),
        ("uuid", rf"{_B}[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}{_E}"),
        ("date", rf"{_B}\d{{4}}[-/.]{_DAY}[-/.]{_DAY}(?:T\d\d:\d\d[0-9:.]*Z?)?{_E}(?!\.\d)"),
        ("date", rf"{_B}{_DAY}(?:[/.-]{_DAY}[/.-]\d{{4}}|[/-]{_DAY}[/-]\d\d){_E}(?!\.\d)"),
        ("time", rf"{_B}\d{{1,2}}:\d\d(?::\d\d)?{_E}"),
        ("path", r"(?<![A-Za-z0-9_])[A-Za-z]:\\[^\s\"'<>|*?]+"),
        ("path", rf"(?<![A-Za-z0-9_.~/\\:])(?:(?:~|\.{{1,2}})?(?:/{_PATH}){{2,}}/?|(?:~|\.{{1,2}})/{_PATH})"),
        ("path", rf"{_B}(?:[A-Za-z0-9_-]+/){{1,12}}[A-Za-z0-9_-]+\.[A-Za-z][A-Za-z0-9]{{0,5}}{_E}"),
        ("phone", rf"(?<![A-Za-z0-9_+-])\+\d{{1,3}}(?:[ .-]?\(?\d{{1,4}}\)?){{2,6}}{_E}"),
        ("phone", rf"(?<![A-Za-z0-9_+-])(?:\(\d{{3}}\) ?\d{{3}}[ .-]\d{{4}}|\d{{3}}[.-]\d{{3}}[.-]\d{{4}}|1[3-9]\d{{9}}){_E}"),
        ("amount", rf"{_B}\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?{_E}"),
        ("version", rf"{_B}(?:v\d+(?:\.\d+)+|\d+(?:\.\d+){{2,}})(?:[-+.]?(?:rc|alpha|beta|dev|post|a|b)\.?\d*)?{_E}"),
        ("decimal", rf"{_B}\d+\.\d+{_E}"),
        ("dotted", rf"(?<![A-Za-z0-9_.@])[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+{_E}"),
        ("symbol", rf"{_B}(?:[A-Za-z]\+\+|[CFJ]#|[A-Z]{{1,3}}&[A-Z]{{1,3}}){_E}"),
        ("ticket", rf"(?<![A-Za-z0-9_&#])#\d{{2,}}{_E}"),
        ("snake", rf"{_B}{_A}+(?:_{_A}+)+{_E}"),
        ("compound", rf"{_B}(?=[-A-Za-z0-9/.#:+]*\d){_A}+(?:[-/.#:+]{_A}+)+{_E}"),
        ("mixed", rf"{_B}(?=[A-Za-z]*\d)(?=\d*[A-Za-z]){_A}{{4,}}{_E}"),
        ("digits", rf"{_B}\d{{5,}}{_E}"),
    )
)

_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "ph.d", "b.a", "m.a", "b.sc", "m.sc", "u.s", "u.k", "d.c", "vs", "etc"})
_UNIT = re.compile(r"\d+(?:[.,]\d+)?(?:[A-Za-z]{1,3}|[a-z]{4,})|\d+x\d+", re.ASCII)
_TRAILING = ".,;:!?'\"”’)]}>*`"


def find_identifiers(text: str) -> list[Identifier]:
    """The identifiers of *text* in order, none overlapping another."""
    taken: list[Identifier] = []
    for kind, pattern in _PATTERNS:
        for found in pattern.finditer(text):
            start, end = found.start(), found.end()
            if kind in ("url", "path"):
                end = start + len(_trimmed(found.group()))
            raw = text[start:end]
            if not raw or overlaps(start, end, taken) or not _holds(kind, raw):
                continue
            taken.append(Identifier(raw, start, end, kind, _is_entity(kind, raw)))
    return sorted(taken, key=lambda identifier: identifier.start)


def overlaps(start: int, end: int, spans: list[Identifier]) -> bool:
    return any(span.start < end and start < span.end for span in spans)


def _trimmed(raw: str) -> str:
    """Without the punctuation of the sentence around it; a closing bracket stays where it was opened inside."""
    while raw and raw[-1] in _TRAILING and not (raw[-1] == ")" and raw.count("(") >= raw.count(")")):
        raw = raw[:-1]
    return raw


def _holds(kind: str, raw: str) -> bool:
    if kind == "dotted":
        return not _is_prose(raw)
    if kind == "phone":
        return sum(character.isdigit() for character in raw) >= 7
    return True


def _is_prose(raw: str) -> bool:
    """Dots of an abbreviation, or a missing space between sentences."""
    segments = raw.split(".")
    if raw.lower() in _ABBREVIATIONS or all(len(segment) == 1 for segment in segments):
        return True
    return len(segments) == 2 and segments[0].isalpha() and segments[1].istitle() and not segments[0].isupper()


def _is_entity(kind: str, raw: str) -> bool:
    if kind in ("date", "time", "amount", "decimal"):
        return False
    if kind == "digits":  # an order or account number, not a round figure, not a day
        return len(raw) >= 8 and not raw.endswith("000") and not re.fullmatch(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])[0-3]\d", raw)
    if kind == "mixed":
        return not _UNIT.fullmatch(raw) and _looks_made(raw)
    if kind == "compound":
        return _is_code(raw)
    if kind == "snake":
        return len(raw) > 3
    return True


def _looks_made(raw: str) -> bool:
    """Letters and digits as no word mixes them: capitals with digits ("X123", "KL1234"), or a long random token."""
    letters = "".join(character for character in raw if character.isalpha())
    return letters.isupper() or (len(raw) >= 8 and sum(character.isdigit() for character in raw) >= 2)


def _is_code(raw: str) -> bool:
    """INC-48213, A320-200, inc-48213; not 30-minute, mid-90s, 5-year-old, 24/7, 9:30am."""
    parts = [part for part in re.split(r"[-/.#:+]", raw) if part]
    if all(part.isdigit() for part in parts) or _has_unit_word(parts):
        return False
    if any(part.isupper() and len(part) >= 1 for part in parts) or any(
        _looks_made(part) for part in parts if not part.isdigit() and not part.isalpha()
    ):
        return True
    return parts[0].isalpha() and len(parts[0]) >= 2 and any(part.isdigit() and len(part) >= 3 for part in parts[1:])


def _has_unit_word(parts: list[str]) -> bool:
    return parts[0].isdigit() and any(part.isalpha() and part.islower() for part in parts)
