"""Topics in a reading: noun phrases of several words that say more than their head ("oat milk lattes", "machine learning")."""

from __future__ import annotations

from collections.abc import Iterator

from memline.language.vocabulary import CALENDAR, GENERIC, GENERIC_HEADS, VAGUE
from memline.language.words import Reading, Word

__all__ = ["find_topics"]

_PARTS = frozenset({"NOUN", "PROPN", "ADJ", "VERB", "X"})
_LONGEST = 5
_UNITS = frozenset("second minute hour day week month year mile km meter metre kg pound dollar euro".split())


def find_topics(reading: Reading) -> Iterator[tuple[int, int]]:
    """(start, end) of each topic; only where noun chunks are known."""
    words = reading.words
    index = 0
    for start, end in reading.chunks:
        while index < len(words) and words[index].start < start:
            index += 1
        after = index
        while after < len(words) and words[after].end <= end:
            after += 1
        phrase = _topic(list(words[index:after]), reading.text)
        index = after
        if phrase:
            yield phrase[0].start, phrase[-1].end


def _topic(chunk: list[Word], text: str) -> list[Word]:
    for at in range(len(chunk) - 1, -1, -1):  # what belongs to somebody is named without them
        if chunk[at].text.lower() in ("'s", "’s", "'", "’") or chunk[at].pos in ("PRON", "DET", "NUM", "ADP", "PART"):
            counted = chunk[at].pos == "NUM"
            chunk = chunk[at + 1 :]
            if counted and chunk and chunk[0].lemma in _UNITS:
                chunk = chunk[1:]
            break
    while chunk and (
        chunk[0].pos not in _PARTS - {"VERB"} or chunk[0].lemma in VAGUE or chunk[0].lemma in GENERIC or chunk[0].lemma in CALENDAR
    ):
        chunk = chunk[1:]
    if chunk and chunk[0].first and chunk[0].pos == "PROPN":  # "Maria volunteers", taken for a noun phrase
        chunk = chunk[1:]
    if not 2 <= len(chunk) <= _LONGEST or chunk[-1].pos not in ("NOUN", "PROPN"):
        return []
    head = chunk[-1].lemma
    if head in GENERIC_HEADS or head in GENERIC or head in CALENDAR or chunk[-1].text.lower() in GENERIC_HEADS:
        return []
    if any(word.pos not in _PARTS for word in chunk):
        return []
    between = text[chunk[0].start : chunk[-1].end]
    return [] if any(mark in between for mark in ',;:()/\n"“”') else chunk
