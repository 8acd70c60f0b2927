"""What is a person's and no secret, kept unless a namespace says otherwise: addresses, phone numbers, IBANs, social security numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memline.contracts.policy import Kind
from memline.producer.policy.found import Found, places

__all__ = ["find_emails", "find_ibans", "find_phones", "find_ssns", "is_iban"]

_LOCAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-'")
_DOMAIN = re.compile(r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,8}\.[A-Za-z]{2,24}(?![A-Za-z0-9-])")
_PHONE = re.compile(
    r"(?<![A-Za-z0-9_.+/-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){6,12}"
    r"|\(\d{3}\)[ .-]?\d{3}[ .-]\d{4}|\d{3}[.-]\d{3}[.-]\d{4}|\d{3} \d{3} \d{4}|1[3-9]\d{9}"
    r"|0\d{2,4}[ /-]\d{3,4}[ -]?\d{3,5})(?![A-Za-z0-9_/-]|\.\d)"
)
#: Two letters, two check digits, then groups: the registry's longest IBAN has 34 characters.
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_SSN = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-])")

#: Lengths by country, of the IBAN registry (ISO 13616).
_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21, "CR": 22,
    "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22,
    "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30,
    "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27,
    "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31,
    "SE": 24, "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip


def find_emails(text: str) -> Iterator[Found]:
    """Addresses of electronic mail."""
    done = 0
    for at in places(text, "@"):
        match = _DOMAIN.match(text, at + 1, at + 260)
        if match is None:
            continue
        start = at
        while start > max(done, at - 64) and text[start - 1] in _LOCAL:
            start -= 1
        while start < at and text[start] in ".'-":
            start += 1
        if start < at:
            done = match.end()
            yield Found(start, done, Kind.EMAIL)


def find_phones(text: str) -> Iterator[Found]:
    """Telephone numbers that are written as such: with a country's code, in groups, or a Chinese mobile's."""
    return (Found(*match.span(), Kind.PHONE) for match in _PHONE.finditer(text))


def find_ibans(text: str) -> Iterator[Found]:
    """International bank account numbers, by length and check digits."""
    for match in _IBAN.finditer(text):
        length = _LENGTHS.get(match.group()[:2])
        if length is None:
            continue
        end, seen = match.start(), 0  # a word in capitals may follow
        while end < match.end() and seen < length:
            seen += text[end].isalnum()
            end += 1
        if is_iban(text[match.start() : end]) and not text[end : end + 1].isalnum():
            yield Found(match.start(), end, Kind.IBAN)


def find_ssns(text: str) -> Iterator[Found]:
    """Social security numbers of the United States, in their groups."""
    return (Found(*match.span(), Kind.SSN) for match in _SSN.finditer(text))


def is_iban(value: str) -> bool:
    """Whether *value* has its country's length and the right check digits (ISO 7064, mod 97-10)."""
    plain = "".join(character for character in value if character.isalnum())
    if len(plain) != _LENGTHS.get(plain[:2]):
        return False
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(character, 36)) for character in moved)) % 97 == 1
