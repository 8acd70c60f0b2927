"""The entities a text names: identifiers, what is quoted, names, topics.

Where two overlap the one found by the surer means stays: IDENTIFIER (patterns), QUOTED (marks), PROPER (capitals, labels, Chinese
names), TOPIC (noun phrases).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memline.contracts.fact import EntityMention, EntityType
from memline.language.chinese import han_names
from memline.language.identifiers import Identifier
from memline.language.names import find_names
from memline.language.quotes import find_quoted
from memline.language.stop_words import ENGLISH_STOP_WORDS
from memline.language.topics import find_topics
from memline.language.vocabulary import CALENDAR, GENERIC
from memline.language.words import Reading, has_cjk

__all__ = ["MAX_ENTITIES", "MAX_NAME_LENGTH", "entities_of", "merge_entities"]

MAX_NAME_LENGTH = 100
#: Entities of one text: what a page of a register names, not a whole book.
MAX_ENTITIES = 256

_PRIORITY: dict[EntityType, int] = {"IDENTIFIER": 0, "QUOTED": 1, "PROPER": 2, "TOPIC": 3}
_MARKUP = re.compile(r"[<>{}|\[\]\\]|https?:")


def entities_of(reading: Reading, identifiers: list[Identifier], written: str) -> tuple[EntityMention, ...]:
    """The entities of a text that was read, where *identifiers* were found in it; in the order of the text, each name once.

    *written* is the text as its names are shown (`words.composed`), as long as the reading's. Identifiers are shown in ASCII.
    """
    text = reading.text
    found: list[tuple[int, int, EntityType]] = [(each.start, each.end, "IDENTIFIER") for each in identifiers if each.entity]
    found += [(start, end, "QUOTED") for start, end in find_quoted(text)]
    found += [(start, end, "TOPIC" if title else "PROPER") for start, end, title in find_names(reading, identifiers)]
    found += [(start, end, "PROPER") for start, end in han_names(text)]
    found += [(start, end, "TOPIC") for start, end in find_topics(reading)]
    found.sort(key=lambda span: (_PRIORITY[span[2]], span[0] - span[1], span[0]))
    kept: list[tuple[int, EntityMention]] = []
    covered = bytearray(len(text))
    for start, end, type_ in found:
        name = (text if type_ == "IDENTIFIER" else written)[start:end].strip()
        if any(covered[start:end]) or not _names_something(name, type_):
            continue
        covered[start:end] = b"\x01" * (end - start)
        kept.append((start, EntityMention(name, type_)))
    kept.sort(key=lambda entry: entry[0])
    return merge_entities(mention for _, mention in kept)


def merge_entities(mentions: Iterable[EntityMention]) -> tuple[EntityMention, ...]:
    """Each name once (by its normalised form), as first written, under the surest type; at most `MAX_ENTITIES`."""
    known: dict[str, EntityMention] = {}
    for mention in mentions:
        before = known.get(mention.normalised)
        if before is None or _PRIORITY[mention.type] < _PRIORITY[before.type]:
            known[mention.normalised] = EntityMention((before or mention).name, mention.type)
    return tuple(known.values())[:MAX_ENTITIES]


def _names_something(name: str, type_: EntityType) -> bool:
    if not name or len(name) > MAX_NAME_LENGTH:
        return False
    if type_ == "IDENTIFIER":
        return len(name) > 2
    if not any(character.isalpha() for character in name) or _MARKUP.search(name):
        return False
    if not has_cjk(name) and len(name) <= 2:
        return False
    words = name.lower().split()
    if len(words) == 1 and (words[0] in GENERIC or (type_ != "PROPER" and words[0] in CALENDAR)):
        return False
    return not all(word in ENGLISH_STOP_WORDS for word in words) or (type_ == "QUOTED" and len(words) > 1)
