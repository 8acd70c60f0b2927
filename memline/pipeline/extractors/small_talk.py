"""Small talk by its words: a short sentence in which every word is one of those that carry courtesy and no fact, whatever their order.

The phrases of `pleasantries` are what people say most; this is for the rest ("You've been so helpful", "Great minds think alike"). What is
said in the first person has to be about the talk itself: "I" thinks, asks or thanks, "I am" sorry or curious, "my" is followed by bad or
pleasure. Wishes, apologies and praise to the other one, and "you" with one word more, are small talk where they name nobody and nothing of
the speaker. How the other one shall answer is none.
"""

from __future__ import annotations

import re

from memline.pipeline.extractors.spans import plain
from memline.pipeline.extractors.word_list import words
from memline.pipeline.extractors.words_small_talk import (
    COURTEOUS,
    DESIRES,
    EMPTY,
    FIRST,
    IN_MIND,
    KNOWN,
    LIFE,
    MAY_BE_CAPITAL,
    MY_OWN,
    MY_OWN_LAST,
    OF_IT,
    OF_TALK,
    PLANS,
    SKIPPED,
    STATES,
    STATES_ALONE,
)

__all__ = ["is_small_talk"]

#: More characters, or words, or words of a clause, say something.
_LONGEST, _MOST, _CLAUSE = 100, 15, 10
#: So many words may be none of small talk, in a wish or in what is said of the other one.
_UNKNOWN = 4

_WORDS = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_NAMED = re.compile(r"(?<=[\w,;] )[A-Z](?!\b)[^\W_]*")
#: A letter drawn out: "soooo", "hahahaha".
_DRAWN = re.compile(r"([^\W\d_])\1{2,}|((?:ha|he|hi)(?=ha|he|hi)){2,}")
#: How the other one shall answer from now on is no small talk.
_STANDING = re.compile(
    r"\bcall me\b|\bfrom now on\b|^(?:(?:please|and|so|just|ok|okay)[, ]+)*(?:always|never(?! mind)|keep (?:it|this|the|your)(?! up)|use|"
    r"answer|reply|respond|talk(?! to you| soon| later)|(?:don't )?be"
    r"(?! (?:safe|well|good|careful|right|blessed|happy|silly|sorry|sad|shy|afraid)))\b"
)
#: Borders of what is said in one go.
_MARKS = re.compile(r"[^\w\s'-]+|\s-+\s")
_YOU = frozenset(("you", "your", "yours", "you're", "you've", "you'd", "you'll", "u", "ur", "ya", "yourself"))
_OBJECTS = frozenset(("me", "us", "myself"))
#: Before whoever is spoken to.
_CALLING = frozenset(
    ("hi", "hey", "hello", "thanks", "thx", "ok", "okay", "yes", "no", "sorry", "sure", "yo", "cheers", "bye", "congrats", "dear")
)
_I_AM = frozenset(("i'm", "im", "we're"))
_SUBJECTS = frozenset(("i", "let's", "i've", "ive", "i'd", "i'll", "we", "we've", "we'd", "we'll"))
_BE = frozenset(("am", "was", "are", "were", "be", "been"))
_CANNOT = frozenset(("can't", "cannot", "cant", "couldn't"))
#: What "I can't" do without a word of what one is able to.
_CAN_NOT_BUT = frozenset(("believe", "say", "agree", "stop", "wait", "thank", "argue", "complain", "tell", "imagine"))
#: Of these a habit or a sense may be told, where not one of this talk's things follows: "I forget a lot", but "I forgot to say".
_HABITS = words(
    "see hear speak talk talking laugh laughed forget forgot wait waiting remember read swear adore admire believe promise trust"
)
_SKIPPED_LAST = words("now then again too already so")
_OF_THIS = OF_IT | _YOU | words("to with about why where who if me")
_LEAVING = re.compile(
    r"\b(?:i|we)(?:'ll|'d|'ve)? (?:really |just )?(?:have to|need to|must|should|gotta|got to|better|had better|will|might) "
    r"(?:be )?(?:go|going|run|leave|off|head (?:out|off)|get going)\b(?! to\b)"
    r"|^off (?:i|we) go|^(?:it's )?time (?:for (?:me|us) )?to (?:go|run|leave|sleep)\b"
    r"|^un?till? (?:we|i) (?:meet|talk|speak|chat|see you) again"
)
#: "You flatter me", "you saved my life", "let me digest that": one word more, where none before it makes it a thing.
_ONE_MORE = re.compile(
    r"(?:you|you're|you've|u|ur|let me|lemme)(?![\w'])(?! (?:should|must|need|have to|can|could|may|might|will|shall|always have))"
)
#: An answer that left out its "I": "never been there", "not recently".
_TELLS = re.compile(
    r"(?:no |nope |yes |yeah )?(?:(?:never|been|was|were|had|did|haven't|hasn't|wasn't|went|used)\b"
    r"|not (?:recently|lately|often|always|usually))"
)
#: A date is an answer, unless one of these greets with it: "see you tomorrow", "have a nice weekend".
_DATES = frozenset(("tomorrow", "today", "tonight", "week", "weekend", "year", "birthday"))
_GREETS = words(
    "you your you've see talk chat speak catch bye goodbye till until have enjoy good great nice lovely happy wonderful hello hi hey "
    "thanks thank"
)
#: What one tells another to do for his own good.
_WELL = re.compile(
    r"(?:(?:please|just|now|and|ok|do) )*(?:rest|feel|get|stay|keep|sleep|take|travel|drive|dream|be)(?: \w+){0,3} "
    r"(?:well|soon|tight|safe|safely|strong|up|warm|easy|care|big)|(?:just )?moving on(?: then| now)?|(?:oh )?stop (?:it|that)"
)
#: Before it these make it a thing; right before it these bind it to one.
_OF_THINGS = words("the my our your some any a an no two have has had got get")
_BINDS = words("of about with for to in at from on by as this these those me us is was are were it you you're and or than like")
#: What is said to the other one, whatever it names: a wish, an apology without a clause of its own, a praise in the highest terms.
_SAID_TO = re.compile(
    r"(?:wish(?:ing)? (?:you|u)|may (?:you|your)|here's to|good luck|best of luck|all the best)\b(?: (?!your)[\w'-]+){0,7}$"
    r"|(?:so |very |really |my )*(?:sorry|apologies|pardon) (?:for|about)(?: (?!your)[\w'-]+){1,6}$"
    r"|you(?:'re| are| r|'ve been| have been)(?: \w+ly)? "
    r"(?:so|such|too|very|really|the (?:best|most|greatest|sweetest|kindest|smartest))"
    r"(?: (?!about|at|for|from|in|on|to|with)[\w'-]+){1,3}$"
)


def is_small_talk(sentence: str) -> bool:
    """Nothing in *sentence* (English) but courtesies."""
    if len(sentence) > _LONGEST:
        return False
    said = plain(sentence)
    found = _WORDS.findall(said)
    if not 2 <= len(found) <= _MOST:
        return False
    unknown = [word for word in found if word not in KNOWN]
    if len(unknown) > _UNKNOWN or _STANDING.search(said) is not None or _names_somebody(sentence):
        return False
    if unknown:
        said = _DRAWN.sub(_short, said)
    clauses = [clause for part in _MARKS.split(said) if (clause := _WORDS.findall(part))]
    if all(_is_to_you(clause) for clause in clauses):
        return True
    return len(clauses) == 1 and FIRST.isdisjoint(found) and _SAID_TO.match(" ".join(clauses[0])) is not None


def _names_somebody(sentence: str) -> bool:
    return any(found.group().lower() not in MAY_BE_CAPITAL for found in _NAMED.finditer(sentence))


def _short(drawn: re.Match[str]) -> str:
    return (drawn.group(1) or "") * (2 if drawn.group(1) in ("e", "o") else 1)


def _is_to_you(clause: list[str]) -> bool:
    """A clause of the talk, or one about "you" with a single word that is not of it."""
    others = [index for index, word in enumerate(clause) if word not in KNOWN]
    if len(others) > 1 or len(clause) > _CLAUSE:
        return False
    if not others:
        return _is_of_the_talk(clause)
    if _ONE_MORE.match(" ".join(clause)) is None or any(word in FIRST and word not in _OBJECTS for word in clause):
        return False
    before = clause[: others[0]]
    return _OF_THINGS.isdisjoint(before) and (before[-1] not in _BINDS or len(before) == 1 or before[:2] == ["let", "me"])


def _is_of_the_talk(clause: list[str]) -> bool:
    """What *clause*, words of small talk only, says is about the talk and the other one, not about a life."""
    if _TELLS.match(" ".join(clause)) is not None:
        return False
    if _LEAVING.search(" ".join(clause)) is not None:
        return True
    if not _DATES.isdisjoint(clause) and _GREETS.isdisjoint(clause):
        return False
    own = [index for index, word in enumerate(clause) if word in FIRST]
    subjects = [index for index in own if clause[index] not in _OBJECTS]
    if (subjects or (own and _YOU.isdisjoint(clause))) and not PLANS.isdisjoint(clause):
        return False
    if (
        (subjects or _YOU.isdisjoint(clause))
        and not _WELL.fullmatch(" ".join(clause))
        and any(word in LIFE and not _of_it(clause, at) for at, word in enumerate(clause))
    ):
        return False
    return all(_about_talk(clause, index) for index in subjects)


def _of_it(clause: list[str], at: int) -> bool:
    """The word is said of the talk ("that worked"), calls somebody ("thanks, boss"), or is a praise ("best teacher ever")."""
    before = clause[:at]
    if any(word in OF_IT for word in before) and clause[0] not in FIRST:
        return True
    return at == len(clause) - 1 and bool(before) and before[-1] in _CALLING


def _about_talk(clause: list[str], at: int) -> bool:
    word = clause[at]
    rest = clause[at + 1 :]
    if word in ("my", "our"):
        return bool(rest) and (rest[0] in MY_OWN or (len(rest) == 1 and rest[0] in MY_OWN_LAST))
    if word in _I_AM:
        return _is_state(rest)
    if word not in _SUBJECTS:
        return False
    if all(other in EMPTY or other in FIRST for other in rest):
        return True
    for index, following in enumerate(rest):
        if following in _BE:
            return _is_state(rest[index + 1 :])
        if following in _CANNOT:
            return _first_of(rest[index + 1 :]) in _CAN_NOT_BUT
        if following in DESIRES:
            return all(other in OF_TALK or other in FIRST for other in rest[index + 1 :])
        if following in _HABITS:
            after = rest[index + 1 :]
            return (len(after) <= 1 and _SKIPPED_LAST.issuperset(after)) or not _OF_THIS.isdisjoint(after)
        if following not in SKIPPED:
            return following in IN_MIND
    return True


def _is_state(rest: list[str]) -> bool:
    first = _first_of(rest)
    if first in STATES_ALONE:
        return all(word in OF_TALK or word in FIRST or word in STATES_ALONE for word in rest)
    return first in STATES or (first in COURTEOUS and not _YOU.isdisjoint(rest))


def _first_of(some: list[str]) -> str:
    return next((word for word in some if word not in SKIPPED), "")
