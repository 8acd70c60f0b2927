"""Names in a reading: runs of capitalised words, with what spaCy's labels say about them.

Rules over the runs, since a small model tags half of the names of a product and glues a title to the company behind "at".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memline.language.identifiers import Identifier, overlaps
from memline.language.vocabulary import CALENDAR, COMMON_STARTS, GENERIC, JOINERS, MODEL_WORDS, OPENERS, ROLE_NOUNS, ROLE_WORDS, SPEAKERS
from memline.language.words import Reading, Word

__all__ = ["find_names"]

#: Labels of spaCy's that are names; the others are dates, times and quantities.
_NAME_LABELS = frozenset({"PERSON", "ORG", "GPE", "LOC", "FAC", "PRODUCT", "WORK_OF_ART", "EVENT", "NORP", "LAW", "LANGUAGE"})
_TIME_LABELS = frozenset({"DATE", "TIME", "MONEY", "PERCENT", "QUANTITY"})
_NUMBER = re.compile(r"\d{1,5}(?:[.-]\d{1,4})?")
_LONGEST = 8


def find_names(reading: Reading, identifiers: list[Identifier]) -> list[tuple[int, int, bool]]:
    """(start, end, is a job title) of the names of *reading*, none overlapping another or an identifier."""
    apart = [each for each in identifiers if each.entity or each.kind not in ("decimal", "compound")]
    words = [word for word in reading.words if not overlaps(word.start, word.end, apart)]
    shouting = sum(_upper(word.text) for word in words) > max(3, len(words) // 2)
    runs = list(_runs(reading, words, shouting))
    labelled = list(_labelled(reading, words))
    found: list[tuple[int, int, bool]] = []
    for run in runs:
        found += _with_labels(run, labelled)
    for span in labelled:
        if not any(_crosses(span, kept) for kept in found):
            found += _cleaned(span, single_title=False)
    return sorted(found)


def _with_labels(run: list[Word], labelled: list[list[Word]]) -> Iterator[tuple[int, int, bool]]:
    """The run; or, where spaCy sees several names in it, those; or the labelled name that goes on beyond it."""
    start, end = run[0].start, run[-1].end
    inside = [span for span in labelled if span[0].start < end and start < span[-1].end]
    if len(inside) > 1 and all(span[0].label in ("PERSON", "GPE", "ORG") for span in inside) and not _is_product(run):
        for span in inside:
            yield from _cleaned(span, single_title=False)
    elif len(inside) == 1 and inside[0][0].start <= start and end <= inside[0][-1].end:
        yield from _cleaned(inside[0], single_title=False)
    else:
        yield from _cleaned(run, single_title=True)


def _runs(reading: Reading, words: Sequence[Word], shouting: bool) -> Iterator[list[Word]]:
    text = reading.text
    run: list[Word] = []
    index = 0
    while index < len(words):
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else None
        if run and not _adjacent(text, run[-1], word):
            yield run
            run = []
        if (
            (run and _belongs_as_number(run, word))
            or (run and _leads_on(text, words, index, shouting))
            or _nameish(text, word, following, shouting, bool(run))
        ):
            run.append(word)
        elif run:
            yield run
            run = []
        index += 1
    if run:
        yield run


def _adjacent(text: str, left: Word, right: Word) -> bool:
    between = text[left.end : right.start]
    return between in (" ", "-", " & ", "&", "") or (between in (". ", "'", "’") and (len(left.text) <= 2 or between != ". "))


def _leads_on(text: str, words: Sequence[Word], index: int, shouting: bool) -> bool:
    """At *index* stand one or two joiners ("of", "of the") and then another part of the name."""
    for last in (index, index + 1):
        if last + 1 >= len(words) or words[last].text.lower() not in JOINERS or text[words[last].end : words[last + 1].start] != " ":
            return False
        if _nameish(text, words[last + 1], None, shouting, True):
            return True
    return False


def _belongs_as_number(run: list[Word], word: Word) -> bool:
    if not _NUMBER.fullmatch(word.text):
        return False
    before = run[-1].text
    if before.lower() in MODEL_WORDS:
        return True
    if word.label in _TIME_LABELS or re.fullmatch(r"(?:19|20)\d\d", word.text):
        return False
    return _mixed(before) or (_upper(before) and len(before) >= 2)


def _nameish(whole: str, word: Word, following: Word | None, shouting: bool, inside: bool) -> bool:
    text, low = word.text, word.text.lower()
    if not any(character.isalpha() for character in text) or low in SPEAKERS or text in ("I", "A"):
        return False
    if low in CALENDAR and word.label not in ("PERSON", "ORG", "PRODUCT", "WORK_OF_ART"):
        return False
    if word.label in _TIME_LABELS and not _mixed(text):
        return False
    if _mixed(text):
        return True
    if not text[0].isupper() or (shouting and _upper(text) and len(text) > 1):
        return False
    if low in OPENERS and not inside:
        return False
    if not word.pos:
        return _plain_name(whole, word, following)
    if word.first and not inside and word.common and word.label != "PERSON" and not _acts(whole, word, following):
        return False  # a capital at the start of a sentence makes no name of a word of the dictionary
    if word.pos == "PROPN":
        return not (word.first and low in COMMON_STARTS)
    if word.first and not inside:
        return word.label in _NAME_LABELS and word.pos in ("NOUN", "ADJ", "X", "INTJ") and low not in COMMON_STARTS
    return word.pos in ("NOUN", "ADJ", "X") or (inside and word.pos in ("VERB", "NUM", "ADV"))


def _acts(whole: str, word: Word, following: Word | None) -> bool:
    """It owns or does something, or is the first part of a longer name: "Rose's", "Rose volunteers", "Rose Smith"."""
    if whole[word.end : word.end + 2] in ("'s", "’s"):
        return True
    if following is None or whole[word.end : following.start] != " ":
        return False
    low = following.text
    return (
        following.text[0].isupper() or following.pos in ("VERB", "AUX") or low == "and" or (following.pos == "NOUN" and low.endswith("s"))
    )


def _plain_name(whole: str, word: Word, following: Word | None) -> bool:
    """Without a tagger the first word of a sentence is a name only beside another, as an owner, or before what people and firms do."""
    low = word.text.lower()
    if not word.first:
        return True
    if low in COMMON_STARTS or low.endswith(("ing", "ly", "ed")):
        return False
    if whole[word.end : word.end + 2] in ("'s", "’s"):
        return True
    if following is None:
        return False
    return (following.text[0].isupper() and following.text != "I") or following.text in _DOES


_DOES = frozenset(
    "is was has had works worked lives lived moved said says told went likes loves prefers wants joined left bought will and".split()
)


def _labelled(reading: Reading, words: Sequence[Word]) -> Iterator[list[Word]]:
    for start, end, label in reading.names:
        if label not in _NAME_LABELS:
            continue
        inside = [word for word in words if start <= word.start and word.end <= end]
        if not inside or not any(word.text[0].isupper() for word in inside) or len(inside) > _LONGEST:
            continue
        if any(not _of_a_name(word, label) for word in inside):
            continue
        if "\n" in reading.text[inside[0].start : inside[-1].end]:
            continue
        yield inside


def _of_a_name(word: Word, label: str) -> bool:
    """The label was not drawn over a verb or an "and" between two names."""
    low = word.text.lower()
    if low == "and":
        return label == "WORK_OF_ART"
    return word.text[0].isupper() or not word.text.isalpha() or low in JOINERS or low in OPENERS


def _cleaned(run: list[Word], *, single_title: bool) -> Iterator[tuple[int, int, bool]]:
    """The run without what is not of the name: articles, greetings and generic words at its ends, a title before a person."""
    run = [word for word in run if word.text.lower() not in ("'s", "’s", "'", "’")]
    while run and (run[0].text.lower() in OPENERS or run[0].text.lower() in GENERIC or not any(map(str.isalnum, run[0].text))):
        run = run[1:]
    while run and (
        run[-1].text.lower() in JOINERS or run[-1].text.lower() in SPEAKERS or _loose_number(run) or not any(map(str.isalnum, run[-1].text))
    ):
        run = run[:-1]
    if not run or (run[0].text.lower() in CALENDAR and len(run) == 1 and run[0].label not in ("PERSON", "ORG", "PRODUCT")):
        return
    low = [word.text.lower() for word in run]
    titles = 0
    while titles < len(low) and low[titles] in ROLE_WORDS:
        titles += 1
    if titles == len(low) and any(word in ROLE_NOUNS for word in low):
        if titles > 1:
            yield run[0].start, run[-1].end, True
        return
    if titles and low[titles - 1] in ROLE_NOUNS:
        run = run[titles:]
    if len(run) == 1 and run[0].pos == "ADJ" and run[0].label in ("", "NORP"):
        return  # "Italian" of "Italian food" belongs to the topic
    if len(run) > 1 or _alone(run[0]):
        yield run[0].start, run[-1].end, False


def _alone(word: Word) -> bool:
    low = word.text.lower()
    return low not in GENERIC and low not in OPENERS and not low.isdigit()


def _loose_number(run: list[Word]) -> bool:
    return len(run) > 1 and run[-1].text.replace(".", "").isdigit() and not _belongs_as_number(run[:-1], run[-1])


def _is_product(run: list[Word]) -> bool:
    return any(_mixed(word.text) or word.text.isdigit() for word in run)


def _mixed(text: str) -> bool:
    """An inner capital, or letters with digits and a capital: ThinkPad, iPhone, X1, S24, GPT4."""
    if any(character.isdigit() for character in text):
        return any(character.isupper() for character in text) and not re.fullmatch(r"\d+(?:AM|PM|K|M|B|GB|MB|TB|KM|KG|ML|G)", text)
    return any(character.isupper() for character in text[1:]) and any(character.islower() for character in text)


def _upper(text: str) -> bool:
    return text.isupper() and text.isalpha()


def _crosses(span: list[Word], kept: tuple[int, int, bool]) -> bool:
    return span[0].start < kept[1] and kept[0] < span[-1].end
