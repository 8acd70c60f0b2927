"""A question as search understands it: its terms, entities and vectors, and what it asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memline.contracts.fact import Analysis, EntityMention
from memline.search.entity_leg import MAX_ENTITIES
from memline.search.wording import asks_for_help, asks_how_many, asks_what_was_answered, days_of

__all__ = ["Question", "asks_when", "first_entities", "holds_time_words", "is_question", "question_of"]

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
_MONTH = re.compile(r"\b(" + "|".join(_MONTHS) + r")\b|(?<!\d)(1[0-2]|[1-9])月", re.IGNORECASE)
#: "May" is a month where it is capitalised and does not open the text, or stands after such a word.
_MAY = re.compile(r"(?<!^)\bMay\b|\b(?:in|of|since|until|last|next|this|early|late|mid)[ -]may\b")
_YEAR = re.compile(r"(?<!\d)((?:19|20)\d\d)(?!\d)")
_WHEN = re.compile(
    r"\b(?:when|since|what (?:date|day|month|year|time)|which (?:date|day|month|year)|how (?:long|often|old|recently)"
    r"|how many (?:days|weeks|months|years))\b|什么时候|何时|哪天|哪年|哪一[天年]|几[月号点]|多久|多长时间",
    re.IGNORECASE,
)
_TIME_WORDS = frozenset(
    """
    yesterday today tonight tomorrow ago last next day days week weeks weekend weekends month months year years since recently soon
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
    january february march april may june july august september october november december
    """.split()
)
_WORDS = re.compile(r"[^\s.,!?;:\"'’()-]+")
_DIGIT = re.compile(r"\d")
_TIME_DIGITS = re.compile(r"(?<!\d)(?:\d{1,2}(?:st|nd|rd|th)\b|\d{1,2}:\d\d(?!\d)|(?:19|20)\d\d(?!\d))")
_TIME_HAN = re.compile(
    r"昨天|今天|明天|前天|后天|上周|下周|上个?月|下个?月|去年|今年|明年|星期|周[一二三四五六日末]|最近|以前|\d+[年月日号天]"
)
#: What may stand after the mark of a question.
_AFTER_QUESTION = " \t\r\n\"'”’)]*_"
_YEAR_TERM = re.compile(r"(?:19|20)\d\d")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, looked at once."""

    text: str
    #: Each term once, in order.
    terms: tuple[str, ...]
    #: Those of `terms` that are codes: identifiers, or letters and digits mixed, or a number of five digits and more.
    codes: frozenset[str]
    #: At most eight, each name once.
    entities: tuple[EntityMention, ...]
    #: Unit vector of the text, and of each entity; None without an embedder.
    vector: NDArray[np.float32] | None
    entity_vectors: tuple[NDArray[np.float32], ...]
    #: Of the text without its speakers' names; None where it names none, or without an embedder.
    topic_vector: NDArray[np.float32] | None
    #: Of the vectors: those of another model are compared with nothing.
    model: str
    asks_when: bool
    asks_how_many: bool
    asks_for_help: bool
    asks_what_was_answered: bool
    months: frozenset[int]
    years: frozenset[int]
    #: (month, day)
    days: frozenset[tuple[int, int]]

    @property
    def names_to_compare(self) -> list[NDArray[np.float32]]:
        """Vectors of the entities that a similar name may stand for; a code is itself or nothing."""
        pairs = zip(self.entities, self.entity_vectors, strict=False)
        return [vector for mention, vector in pairs if mention.type != "IDENTIFIER"]


def question_of(
    text: str, analysis: Analysis, vectors: NDArray[np.float32] | None, *, model: str = "", with_topic: bool = False
) -> Question:
    """*vectors*: one of the text, then one an entity (of `first_entities`), made by *model*; *with_topic*: last, the topic's."""
    terms = tuple(dict.fromkeys(analysis.terms))
    topic = None
    if vectors is not None and with_topic:
        vectors, topic = vectors[:-1], vectors[-1]
    return Question(
        text=text,
        terms=terms,
        codes=_codes(terms, analysis),
        entities=first_entities(analysis),
        vector=None if vectors is None else vectors[0],
        entity_vectors=() if vectors is None else tuple(vectors[1:]),
        topic_vector=topic,
        model=model,
        asks_when=asks_when(text),
        asks_how_many=asks_how_many(text),
        asks_for_help=asks_for_help(text),
        asks_what_was_answered=asks_what_was_answered(text),
        months=_months(text),
        years=frozenset(int(year) for year in _YEAR.findall(text)),
        days=days_of(text),
    )


def first_entities(analysis: Analysis) -> tuple[EntityMention, ...]:
    """The entities that are looked for: each name once, in order, at most `MAX_ENTITIES`."""
    return tuple({mention.normalised: mention for mention in reversed(analysis.entities)}.values())[::-1][:MAX_ENTITIES]


def asks_when(text: str) -> bool:
    """The text asks for a time."""
    return _WHEN.search(text) is not None


def holds_time_words(text: str) -> bool:
    """The text holds a word of time: a weekday, a month, "yesterday", "last", a year."""
    if not _TIME_WORDS.isdisjoint(_WORDS.findall(text.lower())):
        return True
    if text.isascii():
        return _DIGIT.search(text) is not None and _TIME_DIGITS.search(text) is not None
    return _TIME_DIGITS.search(text) is not None or _TIME_HAN.search(text) is not None


def is_question(text: str) -> bool:
    """The text ends in a question."""
    if "?" not in text and "？" not in text:  # hundreds of texts are looked at for one question
        return False
    return text.rstrip(_AFTER_QUESTION).endswith(("?", "？"))


def _months(text: str) -> frozenset[int]:
    found: set[int] = set()
    for name, number in _MONTH.findall(text):
        if number:
            found.add(int(number))
        elif name.lower() != "may" or _MAY.search(text):
            found.add(_MONTHS.index(name.lower()) + 1)
    return frozenset(found)


def _codes(terms: tuple[str, ...], analysis: Analysis) -> frozenset[str]:
    named = {"".join(mention.normalised.split()) for mention in analysis.entities if mention.type == "IDENTIFIER"}
    return frozenset(term for term in terms if term in named or _is_code(term))


def _is_code(term: str) -> bool:
    digits = sum(character.isdecimal() for character in term)
    letters = sum(character.isalpha() for character in term)
    return digits >= 5 or (digits >= 2 and letters >= 1 and len(term) >= 4 and not _YEAR_TERM.fullmatch(term))
