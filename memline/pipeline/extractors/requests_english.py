"""English questions and requests: are they any, and which facts do they hold?

"Since I'm allergic to peanuts, what can I eat?" says something about who asks; "What is the capital of France?" does not.
A question or request that tells nothing by itself but names things of the speaker ("a hotel in Kyoto for my trip with my wife
Ana") is kept as what was asked.
"""

from __future__ import annotations

import re

from memline.pipeline.extractors.said import Said
from memline.pipeline.extractors.spans import PROTECTED, bare

__all__ = ["asked", "is_request", "said_in_request", "without_lead_in"]

_SUBJECT = r"(?:i|we|you|it|there|they|he|she|this|that|these|those|the|my|our|your|a|an|any(?:one|body|thing)?|some(?:one|body|thing)?)"
_INVERTED = re.compile(
    r"(?:can|could|would|will|do|does|did|are|is|was|were|am|have|has|had|should|shall|may|might|must|isn't|aren't|don't|doesn't|didn't|"
    rf"can't|couldn't|won't|wouldn't|shouldn't|haven't|hasn't|wasn't|weren't)\s+{_SUBJECT}\b(?!\s+that\b)",
    re.IGNORECASE,
)
_WH = re.compile(
    r"(?:(?:so|and|but|or|then|ok|okay|also|well|now)[, ]+)?(?:in|for|at|on|to|from|by|with|about)?\s*"
    r"(?:what|where|when|why|who|whose|whom|how|which|what's|where's|who's|how's|when's|why's|whats|hows|how come|what if|how about|"
    r"what about)\b",
    re.IGNORECASE,
)
_WH_INVERTED = re.compile(
    r"(?:(?:so|and|but|or|then|ok|okay|also|well|now)[, ]+)?(?:what|where|when|why|who|how|which)(?:'s\b|\s+(?:\S+\s+){0,3}?"
    rf"(?:(?:is|are|was|were|do|does|did|can|could|should|would|will|have|has)\s+{_SUBJECT}\b|(?:is|are)\s+\w+))",
    re.IGNORECASE,
)
_STATES_WHEN = re.compile(r"(?:when|what|how|where|why|whenever|who|which)(?:ever)?\s+(?:i|we|my|our)\b", re.IGNORECASE)
_ANY = re.compile(
    r"(?:(?:do you have |have you got |got )?any|some) (?:\w+ ){0,2}(?:ideas?|tips?|suggestions?|thoughts?|advice|recommendations?|"
    r"pointers?|"
    r"chance|way|help|examples?|plans?|luck)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"(?:(?:please|kindly|just|also|then|now|and|next|ok|okay|so)[, ]+)*(?:"
    r"(?:can|could|would|will) you|tell me|give me|show me|explain|write|help me|help us|list|find me|find|recommend|suggest|create|"
    r"make me|translate|"
    r"summari[sz]e|describe|compare|fix|generate|draft|provide|convert|calculate|compute|analy[sz]e|review|rewrite|rephrase|improve|"
    r"correct|proofread|check (?:if|whether|that|this|the|my)|look up|search for|search|outline|brainstorm|design|implement|refactor|"
    r"debug|walk me "
    r"through|teach me|let me know|i(?:'d| would) like you to|i want you to|i need you to|i(?:'m| am) (?:asking|wondering)|i was wondering|"
    r"i wonder|i(?:'d| would) (?:like|love) to (?:know|hear)|i want to know|i need to know)\b",
    re.IGNORECASE,
)
_ASKS_LATE = re.compile(r"[,;–—] ?(?:and |but |so )?(?:can|could|would) you\b", re.IGNORECASE)
_REMIND = re.compile(r"(?:please |can you |could you |would you )*remind me\b", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"(?:(?:please|kindly|just|and|also|can you|could you|would you|i want you to|i'd like you to|i need you to|you should|"
    r"make sure to|make sure you|"
    r"for the record|note to self)[,: ]+)*"
    r"(?:(?:remember|note|keep in mind|bear in mind|don't forget|do not forget|never forget|be aware|make a note|take note|write down|"
    r"save|memori[sz]e|"
    r"know)(?:\s+(?:that|this|for (?:later|me|the future)|down))*|for the record|note to self|fyi|psa|update|reminder|heads up)"
    r"(?:\s*[:,–—-]+\s*|\s+that\s+|\s+)",
    re.IGNORECASE,
)
_STATES = re.compile(r"(?:i|i'm|i've|i'd|i'll|we|we're|we've|my|our|the|there|it|he|she|they|this|that|[A-Z][\w'-]*|\d)\b")
_SUBORDINATE = re.compile(
    r"(?:since|because|as|given that|given|now that|seeing that|seeing as|considering that|considering|cause|cuz|bc)\s+", re.IGNORECASE
)
_INNER_REASON = re.compile(
    r"\s+(?:since|because|given that|now that|seeing that|considering that|considering)\s+(?=(?:i|i'm|i've|my|we|we're|we've|our)\b)"
    r"|\s+while\s+(?=(?:i'm|i am|we're|we are)\b)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|we|we're|we've|we'll|our|us)\b", re.IGNORECASE)
_FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|'s|isn't|aren't|wasn't|doesn't|don't|can't|keeps?|needs?|wants?|got|went|said|"
    r"\w{3,}ed)\b|'s\b",
    re.IGNORECASE,
)
_FIRST_STATES = re.compile(
    r"(?:and |but |so |also )?(?:i'm|i am|i've|i have|i'd|i'll|i|we're|we|we've|my\b.{1,80}\b(?:is|are|was|were|has|have|had|just|"
    r"will|can't|doesn't|likes?|"
    r"loves?|hates?|wants?|needs?|\w{3,}ed))\b",
    re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:my|our|mine)\b|\b(?:i|we)(?:'m|'ve|'re| am| have| had| got| bought)\b|\bme and\b|\bfor (?:me|us)\b", re.IGNORECASE)
_RELATED = re.compile(
    r"\b(?:wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|spouse|son|daughter|kids?|child(?:ren)?|baby|mom|mum|mother|dad|"
    r"father|parents?|brother|"
    r"sister|sibling|grandm\w+|grandf\w+|aunt|uncle|cousin|niece|nephew|boss|colleague|coworker|roommate|neighbou?r|landlord|dog|cat|"
    r"puppy|kitten|"
    r"pet|horse|rabbit|parrot|hamster|bird|trip|wedding|birthday|anniversary|honeymoon|interview|exam|surgery|allerg\w+|diabet\w+|"
    r"vegan|vegetarian|"
    r"pregnan\w+|thesis|startup|company|apartment|flat|house|garden|car|bike|band|marathon|move|job|business)\b",
    re.IGNORECASE,
)
_STANDING = re.compile(r"\bcall me\b|\bfrom now on\b|\b(?:always|never) (?:use|answer|reply|write|call|include|mention)\b", re.IGNORECASE)
_SPECIFIC = re.compile(r"\d|(?<=[a-z,;)] )[A-Z][^\W\d_]+|[\"“「《]")
_TAG = re.compile(
    r"\s*,\s*(?:right|okay|ok|you know|remember|correct|yeah|huh|eh|no|isn't it|isn't that \w+|don't you think|can you believe it|"
    r"you see|got it)\s*\?*$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    rf"(?P<protected>{PROTECTED})|(?P<border>[,;:](?=\s)|\s[-–—]\s|—|\s(?=(?:and|but|so)\s+(?:can|could|would|will|do|does|what|how|"
    rf"where|which|who|when|why)\b))"
)


def is_request(sentence: str) -> bool:
    """*sentence* is a question, or asks for something."""
    text = sentence.replace("’", "'")
    if text.rstrip("\"'”) ").endswith(("?", "？")):
        return True
    if _ASKS_LATE.search(text):
        return True
    if _STATES_WHEN.match(text):
        return False
    return bool(_INVERTED.match(text) or _WH_INVERTED.match(text) or _ANY.match(text) or _ORDER.match(text) or _REMIND.match(text))


def without_lead_in(sentence: str) -> str:
    """*sentence* without "remember that", "please note:", … before a statement."""
    found = _LEAD_IN.match(sentence.replace("’", "'"))
    if found is None or found.end() >= len(sentence):
        return sentence
    rest = sentence[found.end() :]
    if not _STATES.match(rest.replace("’", "'")) and not _FIRST_PERSON.match(rest):
        return sentence
    return rest.rstrip("?") if rest.endswith("?") else rest


def said_in_request(sentence: str) -> list[Said]:
    """The statements inside a question or request, and the request itself where it tells something of the speaker."""
    untagged = _TAG.sub("", sentence)
    if untagged != sentence and not is_request(untagged):
        return [Said(untagged)]
    clauses = _clauses(sentence)
    at = next((index for index, clause in enumerate(clauses) if _asks(clause)), None)
    if at is None:
        # "I moved to Bonn?" only wonders; a question of one clause keeps its worth as a question.
        return [Said(asked(sentence), asked=True)] if _tells(sentence) else []
    found: list[Said] = []
    before = _joined(clauses[:at])
    if before and _is_statement(before):
        found.append(Said(_without_conjunction(before)))
    elif before:
        clauses, at = [before + clauses[at], *clauses[at + 1 :]], 0
    question, after = clauses[at], clauses[at + 1 :]
    for index, clause in enumerate(after):
        if _states_first(clause):
            found.append(Said(_without_conjunction(_joined(after[index:]))))
            after = after[:index]
            break
    question += "".join(after)
    reason = _INNER_REASON.search(question.replace("’", "'"))
    if reason:
        found.append(Said(question[reason.end() :].strip(" ,;:?")))
        question = question[: reason.start()]
    if _tells(question) or (_REMIND.match(question) and not found):
        found.append(Said(asked(question), asked=True))
    return found


def _clauses(sentence: str) -> list[str]:
    """Clauses with the mark that ends them; joined they are the sentence."""
    found: list[str] = []
    start = 0
    for match in _CLAUSE.finditer(sentence):
        if match.group("protected"):
            continue
        found.append(sentence[start : match.end()])
        start = match.end()
    found.append(sentence[start:])
    return [clause for clause in found if clause.strip()]


def _joined(clauses: list[str]) -> str:
    return "".join(clauses).strip().strip(",;:–—?- ").removesuffix(" and").removesuffix(" so").removesuffix(" but").rstrip(" ,")


def _asks(clause: str) -> bool:
    text = clause.strip().replace("’", "'")
    if _STATES_WHEN.match(text) and not text.endswith("?"):
        return False
    stripped = re.sub(r"^(?:and|but|so|or|then)\s+", "", text, flags=re.IGNORECASE)
    return bool(
        _INVERTED.match(stripped) or _WH.match(stripped) or _ANY.match(stripped) or _ORDER.match(stripped) or _REMIND.match(stripped)
    )


def _is_statement(text: str) -> bool:
    text = text.replace("’", "'")
    if found := _SUBORDINATE.match(text):
        text = text[found.end() :]
        if _FIRST_PERSON.match(text) and len(text.split()) >= 3:
            return True
    if text.lower().startswith("if ") or len(text.split()) < 2:
        return False
    outside = bare(text)
    if _FIRST_STATES.match(outside):
        return True
    return len(text.split()) >= 3 and bool(_FINITE.search(outside))


def _states_first(clause: str) -> bool:
    text = clause.strip().replace("’", "'")
    found = _SUBORDINATE.match(text)
    return bool(_FIRST_STATES.match(text[found.end() :] if found else text)) and not _INVERTED.match(text)


def _without_conjunction(text: str) -> str:
    found = _SUBORDINATE.match(text)
    return text[found.end() :].rstrip("? ") if found else text.rstrip("? ")


def _tells(question: str) -> bool:
    """It names something of the speaker that is worth finding again."""
    text = bare(question.replace("’", "'"), ' "" ')
    return bool(_STANDING.search(text)) or (bool(_OWN.search(text)) and bool(_RELATED.search(text) or _SPECIFIC.search(text[1:])))


def asked(question: str) -> str:
    """The request as what follows "User asks": "can you find X?" -> "to find X", else the question itself after a colon."""
    question = question.strip(" ,;:")
    text = question.replace("’", "'")
    found = re.match(
        r"(?:(?:and|but|so|please|also)[, ]+)*(?:can|could|would|will) you (?:please |maybe |also |kindly |possibly )*(?=[a-z])",
        text,
        re.IGNORECASE,
    )
    if found is None and not text.endswith("?"):
        order = re.match(
            r"(?:(?:and|but|so|please|also|just|kindly)[, ]+)*(?!i\b|can\b|could\b|would\b|will\b)(?=[A-Za-z])", text, re.IGNORECASE
        )
        if order and (_ORDER.match(text) or _REMIND.match(text)):
            found = order
    if found is not None:
        rest = question[found.end() :].rstrip("?. ")
        return f"to {rest[:1].lower()}{rest[1:]}"
    return ": " + question
