"""A message as passages, sentences and pieces: English and Chinese punctuation, lists with their lead, no code blocks.

Nothing but fenced code is dropped here, and nothing is cut inside a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memline.pipeline.extractors.spans import CJK, PROTECTED
from memline.pipeline.extractors.word_list import words

__all__ = ["MAX_FACT", "Passage", "passages", "pieces", "sentences", "without_code"]

#: Longest sentence that stays in one piece, in characters.
MAX_FACT = 600

_ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s+|\s*\|")
_BLANKS = re.compile(r"[^\S\n]{20,}")
_GOES_ON = re.compile(r"(?:,|\b(?:a|an|the|and|or|but|in|on|at|of|for|to|with|from|by|my|our|is|are|was|that|as|than))$", re.IGNORECASE)
_HEADING = re.compile(r"\s*(?:#{1,6}\s+|\*\*[^*\n]{1,120}\*\*:?\s*$)")
_FENCE = re.compile(r"\s*(```+|~~~+)[^`]*$")
_STOP = re.compile(rf"(?P<protected>{PROTECTED})|(?P<stop>[.!?…]+|[。！？；]+)(?P<close>[\"'”’)\]」』）]*)")
_WORD_BEFORE = re.compile(r"([^\W\d_](?:[^\W\d_.]|\.(?=[^\W\d_])){0,15})$")
_NEXT_WORD = re.compile(r"\s*[\"'“‘(\[]?([^\W\d_]+(?:['’][^\W\d_]+)?)")
_CLAUSE = re.compile(rf"[,;:，；：、。！？](?=\s|[{CJK}]|$)|\s[-–—]\s|—|[.!?](?=\s)|\s(?=and\s|but\s|because\s|so\s|which\s|while\s)")

#: A full stop after these never ends a sentence.
_NEVER = words("mr mrs ms dr prof st mt ft vs e.g i.e cf approx dept est fig gen col sgt rev hon messrs mme mlle")
#: After these it does only where a word follows that begins sentences.
_SOMETIMES = words(
    "etc inc ltd co corp jr sr ave blvd rd a.m p.m am pm u.s u.k u.s.a e.u ph.d m.d b.a m.a jan feb mar apr jun jul aug sep sept oct nov "
    "dec mon tue tues wed thu thur thurs fri sat sun"
)
_STARTERS = words(
    "i i'm i've i'd i'll my me we we're we've our the a an it it's its he he's she she's they they're this that that's these those there "
    "there's what when where why who how which is are do does did can could would will should please thanks thank also and but so then "
    "now after before because since if in on at for with yes no not maybe let let's you your"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph, or a list with the line that leads it."""

    text: str
    is_list: bool = False
    is_heading: bool = False


def without_code(text: str) -> str:
    """*text* without closed code fences; of an open one only the line that opens it goes, so that no statement is lost with it."""
    kept: list[str] = []
    fenced: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            if found and found.group(1)[0] == fence[0] and len(found.group(1)) >= len(fence):
                fence = ""
                kept.append("")
            else:
                fenced.append(line)
        elif found:
            fence, fenced = found.group(1), []
        else:
            kept.append(line)
    return "\n".join(kept + fenced if fence else kept)


def passages(text: str) -> list[Passage]:
    """The passages of *text*, code fences dropped, list markers removed, wrapped lines joined."""
    # Long runs of white space say nothing, and would make searches for a mark after white space quadratic.
    lines = _BLANKS.sub(" ", without_code(text.replace("\r\n", "\n").replace("\r", "\n"))).split("\n")
    return _Reader().read(lines)


class _Reader:
    """Collects lines into passages."""

    def __init__(self) -> None:
        self.found: list[Passage] = []
        #: Lines of the paragraph that is being read, each in the parts it was wrapped into.
        self.prose: list[list[str]] = []
        self.lead = ""
        self.items: list[str] = []

    def read(self, lines: list[str]) -> list[Passage]:
        for line in lines:
            stripped = line.strip()
            marker = _ITEM.match(line)
            if not stripped:
                self._end_prose()
            elif marker and len(stripped) > 1:
                self._item(line[marker.end() :].strip(" \t|*"))
            elif _HEADING.match(line):
                self._end_items()
                self._end_prose()
                self.found.append(Passage(stripped.strip("#* \t"), is_heading=True))
            else:
                self._end_items()
                self._prose(stripped.lstrip("> ") if stripped.startswith(">") else stripped)
        self._end_items()
        self._end_prose()
        return self.found

    def _prose(self, line: str) -> None:
        last = self.prose[-1][-1] if self.prose else ""
        wrapped = bool(last) and not last.endswith((".", "!", "?", ":", "。", "！", "？"))
        if wrapped and (line[:1].islower() or _GOES_ON.search(last, max(0, len(last) - 20))):
            self.prose[-1].append(line)
        elif line:
            self.prose.append([line])

    def _item(self, item: str) -> None:
        if not self.items and not self.lead:
            if self.prose and self.prose[-1][-1].endswith((":", "：")):
                self.lead = " ".join(self.prose.pop())
            elif not self.prose and self.found and (self.found[-1].is_heading or self.found[-1].text.endswith((":", "："))):
                self.lead = self.found.pop().text
            self._end_prose()
        if item.strip("-: |"):
            self.items.append(item)

    def _end_prose(self) -> None:
        if self.prose:
            self.found.append(Passage("\n".join(" ".join(parts) for parts in self.prose)))
        self.prose = []

    def _end_items(self) -> None:
        if self.items or self.lead:
            self.found.extend(_as_list(self.lead, self.items))
        self.items, self.lead = [], ""


def _as_list(lead: str, items: list[str]) -> Iterator[Passage]:
    """A list as passages of at most MAX_FACT characters where its items allow, each with the (short) lead before it."""
    if len(lead) > 120:
        yield Passage(lead)
        lead = ""
    if not items:
        if lead:
            yield Passage(lead)
        return
    lead = lead and (lead if lead.endswith((":", "：")) else lead + ":") + " "
    line = ""
    for item in items:
        item = item.rstrip(";； ")
        if line and len(lead) + len(line) + len(item) + 2 > MAX_FACT:
            yield Passage(lead + line, is_list=True)
            line = ""
        line = f"{line}; {item}" if line else item
    if line:
        yield Passage(lead + line, is_list=True)


def sentences(text: str) -> list[str]:
    """The sentences of a passage, in order; abbreviations, decimals, initials, addresses and quotes are not split."""
    return [sentence for line in text.split("\n") for sentence in _of_line(line)]


def _of_line(line: str) -> Iterator[str]:
    start = 0
    for match in _STOP.finditer(line):
        if match.group("protected"):
            continue
        end = match.end()
        if end < len(line) and not _ends(line, start, match):
            continue
        if sentence := line[start:end].strip():
            yield sentence
        start = end
    if sentence := line[start:].strip():
        yield sentence


def _ends(line: str, start: int, match: re.Match[str]) -> bool:
    """Whether the stop ends a sentence; it does not stand at the end of the line."""
    stop, end = match.group("stop"), match.end()
    if stop[0] in "。！？；":
        return True
    after = line[end]
    if not after.isspace() and not _is_cjk(after):
        return False
    following = _NEXT_WORD.match(line, end, end + 60)
    word = following.group(1) if following else ""
    if stop == "…" or stop.startswith(".."):
        return not word[:1].islower()
    if stop != ".":
        return True
    before = _WORD_BEFORE.search(line, max(start, match.start() - 20), match.start())
    if before is None:
        return True
    last = before.group(1).lower()
    if last in _NEVER:
        return False
    if last == "no":
        return not line[end:].lstrip()[:1].isdigit()
    begins = word.replace("’", "'").lower() in _STARTERS and word[:1].isupper()
    initial = len(last) == 1 and before.group(1).isupper() and last != "i"
    return begins if last in _SOMETIMES or initial else True


def _is_cjk(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff"


def pieces(text: str, limit: int = MAX_FACT) -> list[str]:
    """*text* in pieces of at most *limit* characters, cut after a clause where there is one in reach, else between words.

    A single word longer than *limit* stays whole. Nothing but white space at the cuts is dropped.
    """
    found: list[str] = []
    start = 0
    while len(text) - start > limit:
        cut = 0
        for border in _CLAUSE.finditer(text, start + limit // 3, start + limit):
            cut = border.end()
        if not cut:
            cut = _between_words(text, start, start + limit)
        found.append(text[start:cut].strip())
        start = cut
    found.append(text[start:].strip())
    return [piece for piece in found if piece]


def _between_words(text: str, start: int, end: int) -> int:
    """The last place in (start, end] that is between two words, or the first one after *end*."""
    for cut in range(end, start, -1):
        if text[cut - 1].isspace() or _is_cjk(text[cut - 1]):
            return cut
    for cut in range(end, len(text)):
        if text[cut].isspace() or _is_cjk(text[cut]):
            return cut
    return len(text)
