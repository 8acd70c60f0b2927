"""One text: what is found in it, and the text with placeholders in those places."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from memline.contracts.policy import Kind
from memline.producer.policy.cards import find_cards
from memline.producer.policy.found import Found, lowered
from memline.producer.policy.named_keys import find_named_keys, find_near_keys
from memline.producer.policy.passwords import find_passwords
from memline.producer.policy.personal import find_emails, find_ibans, find_phones, find_ssns
from memline.producer.policy.private_keys import find_private_keys
from memline.producer.policy.provider_keys import find_provider_keys
from memline.producer.policy.unwrapped import unwrapped

__all__ = ["find", "masked", "placeholder"]

#: Of two that overlap, which one tells the kind.
_RANK = {kind: rank for rank, kind in enumerate(Kind)} | {Kind.PRIVATE_KEY: -2, Kind.CARD: -1}

#: In no text that memline takes.
_NOTHING = "\x00"
_PLACEHOLDER = re.compile(rf"\[masked: (?:{'|'.join(kind.label for kind in Kind)})\]")


def placeholder(kind: Kind) -> str:
    """What stands in a masked text."""
    return f"[masked: {kind.label}]"


def find(text: str, kinds: Collection[Kind]) -> list[Found]:
    """Everything of *kinds* in *text*, in order; what overlaps is one, of the kind that says more."""
    found = sorted(_everywhere(text, kinds))
    whole: list[Found] = []
    for each in found:
        if whole and each.start < whole[-1].end:
            last = whole[-1]
            kind = min(last.kind, each.kind, key=_RANK.__getitem__)
            whole[-1] = Found(last.start, max(last.end, each.end), kind)
        elif each.start < each.end:
            whole.append(each)
    return whole


def masked(text: str, found: list[Found]) -> str:
    """*text* with a placeholder in each place of *found*."""
    parts: list[str] = []
    end = 0
    for each in found:
        parts += (text[end : each.start], placeholder(each.kind))
        end = each.end
    return "".join((*parts, text[end:]))


def _everywhere(text: str, kinds: Collection[Kind]) -> Iterator[Found]:
    """In the text as it stands, and as it was meant."""
    yield from _all(text, kinds)
    if (plain := unwrapped(text)) is not None:
        for each in _all(plain.text, kinds):
            if each.start < each.end:
                yield Found(*plain.span(each.start, each.end), each.kind)


def _all(text: str, kinds: Collection[Kind]) -> Iterator[Found]:
    if len(text) < 4:
        return
    if "[masked: " in text:  # what was masked before is no word, no secret, and no end of a sentence
        text = _PLACEHOLDER.sub(lambda match: f" {_NOTHING * (len(match.group()) - 2)} ", text)
    low = lowered(text)
    if Kind.PRIVATE_KEY in kinds:
        yield from find_private_keys(text, low)
    if Kind.API_KEY in kinds:
        yield from find_provider_keys(text, low)
        yield from find_named_keys(text, low)
        yield from find_near_keys(text, low)
    if Kind.PASSWORD in kinds:
        yield from find_passwords(text, low)
    if Kind.CARD in kinds:
        yield from find_cards(text)
    if Kind.EMAIL in kinds:
        yield from find_emails(text)
    if Kind.PHONE in kinds:
        yield from find_phones(text)
    if Kind.IBAN in kinds:
        yield from find_ibans(text)
    if Kind.SSN in kinds:
        yield from find_ssns(text)
