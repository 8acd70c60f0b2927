"""Card numbers: the ranges of the schemes, their lengths, and the check digit of Luhn (ISO/IEC 7812-1)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memline.contracts.policy import Kind
from memline.producer.policy.found import Found

__all__ = ["find_cards", "is_card"]

#: Digits with at most one separator between two of them, 13 at least. Possessive: a run is read once.
_RUN = re.compile(r"\d(?:[ \-.·+\u00a0\u2000-\u200a\u2010-\u2015\u202f\u2212\u3000\uff0d]?\d){12,}+")
_GROUP = re.compile(r"\d+")
#: How schemes write their numbers.
_GROUPINGS = {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 5), (8, 8), (6, 13), (4, 12), (6, 10), (4, 4, 8), (4, 4, 4, 3)}
#: What a number that is written without separators is called when it is none of a card's.
_OTHER = re.compile(
    r"(?:order|tracking|invoice|ref|reference|ticket|shipment|parcel|serial|imei|meid|batch|lot|sku|ean|gtin|upc|isbn|barcode|transaction"
    r"|customer|member|membership|client|contract|meter|article|model|phone|txn|trace|job|case|claim|booking|confirmation|customs|waybill|iccid|timestamp|snowflake|tweet|user|uid|id)"
    r"(?:[ _-]?(?:id|no|nr|num|number|code))?(?: is| was)?\s{0,2}[.:#=]?\s{0,2}#?\"?$",
    re.IGNORECASE,
)
_CARD = re.compile(r"card|visa|credit|debit|amex|kart|karte|tarjeta|carte|cartão|карт|卡", re.IGNORECASE)


def find_cards(text: str) -> Iterator[Found]:
    """Card numbers, written in one or in their schemes' groups."""
    for run in _RUN.finditer(text):
        if _is_part(text, run.start() - 1) or _is_part(text, run.end()):
            continue
        groups = [(group.start() + run.start(), group.end() + run.start()) for group in _GROUP.finditer(run.group())]
        yield from _in_groups(text, groups)


def _in_groups(text: str, groups: list[tuple[int, int]]) -> Iterator[Found]:
    first = 0
    while first < len(groups):
        for number in (5, 4, 3, 2, 1):
            some = groups[first : first + number]
            if len(some) == number and _fits(text, some):
                yield Found(some[0][0], some[-1][1], Kind.CARD)
                first += number
                break
        else:
            first += 1


def _fits(text: str, some: list[tuple[int, int]]) -> bool:
    start = some[0][0]
    lengths = tuple(stop - begin for begin, stop in some)
    if len(some) > 1:
        if lengths not in _GROUPINGS or len({text[stop] for _, stop in some[:-1]}) > 1:
            return False
    elif not 13 <= lengths[0] <= 19:
        return False
    if not is_card("".join(text[begin:stop] for begin, stop in some)):
        return False
    before = text[max(0, start - 40) : start]
    if len(some) == 1 and lengths[0] == 13:  # no longer given out, and as long as the numbers on goods
        return _CARD.search(before) is not None
    if before[-1:] == "." and before[-2:-1].isdigit() and len(some) == 1:
        return False  # a fraction
    return _OTHER.search(before) is None or _CARD.search(before) is not None


def is_card(digits: str) -> bool:
    """Whether *digits* are in the range of a scheme, as long as its numbers are, and end in the right check digit."""
    values = [int(digit) for digit in digits]
    if len(set(values)) == 1 or not _in_range("".join(str(value) for value in values)):
        return False
    total = 0
    for place, value in enumerate(reversed(values)):
        doubled = 2 * value if place % 2 else value
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _in_range(digits: str) -> bool:
    """Visa, Mastercard, American Express, Diners, Discover, JCB, UnionPay, Maestro, Mir, RuPay, Troy, Elo by their first digits."""
    length, two, three, four = len(digits), int(digits[:2]), int(digits[:3]), int(digits[:4])
    if digits[0] == "4":
        return length in (13, 16, 19)
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return length == 16
    if two in (34, 37):
        return length == 15
    if 300 <= three <= 305 or two in (36, 38, 39):
        return length in (14, 16)
    if four == 6011 or two == 65 or 644 <= three <= 649:
        return 16 <= length <= 19
    if 3528 <= four <= 3589:
        return 16 <= length <= 19
    if two == 62 or two == 81:
        return 16 <= length <= 19
    if 2200 <= four <= 2204 or two == 60:
        return 16 <= length <= 19
    return four in (5018, 5020, 5038, 5893, 6304, 6759, 6761, 6762, 6763, 9792) and 13 <= length <= 19


def _is_part(text: str, at: int) -> bool:
    """Whether the character at *at* makes the digits part of something longer: a word, a hash, a path."""
    if not 0 <= at < len(text):
        return False
    character = text[at]
    if character.isascii() and (character.isalnum() or character in "_/%@"):
        return True
    # 0.4111…: a fraction; -446655…: the end of an id
    before = text[at - 1] if at > 0 else " "
    after = text[at + 1] if at + 1 < len(text) else " "
    return character in ".-" and before.isascii() and before.isalnum() and after.isascii() and after.isalnum()
