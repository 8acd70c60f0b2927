"""Private keys: whole blocks, also where line breaks are escaped, quoted or lost, and where the end is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memline.contracts.policy import Kind
from memline.producer.policy.found import Found, places

__all__ = ["find_private_keys"]

#: PEM and PGP: "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN PGP PRIVATE KEY BLOCK-----".
_BEGIN = re.compile(r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END = re.compile(r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
#: What such a block consists of, where its end is not there.
_BODY = re.compile(r"(?:[A-Za-z0-9+/=:,\- \t\r\n>|#]|\\[nr])*+")
#: The body of an OpenSSH key without its lines: "openssh-key-v1" in base64.
_OPENSSH = "b3BlbnNzaC1rZXktdjE"
_BASE64 = re.compile(r"[A-Za-z0-9+/=\r\n]*+")
#: A PuTTY key.
_PUTTY = re.compile(r"PuTTY-User-Key-File-\d:[^\n]*+(?:\n[^\n]++)*+")
_AGE = re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{50,}+")
_HEX_KEY = re.compile(r"(?:0x)?[0-9a-fA-F]{64}(?![0-9A-Za-z])")
_NAMED = re.compile(r"(?:private|wallet|secret|signing)[ _-]?key[\"']?\s{0,3}(?:is|was|:|=|=>)?\s{0,3}[\"'`]?$", re.IGNORECASE)

#: Where the end is missing, at most so many characters are taken.
_LONGEST = 20_000


def find_private_keys(text: str, low: str) -> Iterator[Found]:
    """Blocks of private keys; *low* is the text in lower case."""
    if "BEGIN " in text:
        yield from _blocks(text)
    if _OPENSSH in text:
        done = 0
        for at in places(text, _OPENSSH):
            if at >= done:
                done = _BASE64.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
                yield Found(at, done, Kind.PRIVATE_KEY)
    if "PuTTY-User-Key-File-" in text:
        done = 0
        for at in places(text, "PuTTY-User-Key-File-"):
            if at < done or (match := _PUTTY.match(text, at)) is None:
                continue
            done = match.end()
            if "Private-" in match.group():
                yield Found(at, match.end(), Kind.PRIVATE_KEY)
    if "AGE-SECRET-KEY-1" in text:
        yield from (Found(*match.span(), Kind.PRIVATE_KEY) for match in _AGE.finditer(text))
    if "key" in low and ("private" in low or "wallet" in low or "secret" in low or "signing" in low):
        yield from _named_hex(text, low)


def _blocks(text: str) -> Iterator[Found]:
    done = 0
    for at in places(text, "BEGIN "):
        if at < done:
            continue
        begin = _BEGIN.match(text, max(0, at - 6)) or _BEGIN.match(text, max(0, at - 5)) or _BEGIN.match(text, max(0, at - 4))
        if begin is None:
            continue
        end = _END.search(text, begin.end(), begin.end() + _LONGEST)
        if end is None:
            end = _BODY.match(text, begin.end(), begin.end() + _LONGEST)
        done = begin.end() if end is None else end.end()
        yield Found(begin.start(), done, Kind.PRIVATE_KEY)


def _named_hex(text: str, low: str) -> Iterator[Found]:
    """64 hex digits that are called a private key, as wallets have them."""
    for at in places(low, "key"):
        match = _HEX_KEY.search(text, at + 3, at + 80)
        if match is not None and _NAMED.search(text, max(0, at - 10), match.start()) is not None:
            yield Found(match.start(), match.end(), Kind.PRIVATE_KEY)
