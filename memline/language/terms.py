"""The terms under which a text is found by BM25, in order and with repeats.

- English: the base form of each word, lower-cased, without stop words and punctuation. Only the base form: indexing the surface form
  beside it cost 0.6 to 1.0 points of recall@10 on LoCoMo.
- Chinese: the words of rjieba's search mode; kana and Hangul: pairs of characters.
- Identifiers: whole and in their alphanumeric parts, lower-cased ("inc-48213", "inc", "48213"); a phone number also as bare digits,
  an amount without its commas.

A term has 1 to 64 characters and no white space. A longer one keeps its first 47 characters, a "~" and 16 hex digits of the SHA-256 of
the whole, so that long tokens are found whole and never taken for one another.
A text of stop words alone ("The Who") keeps them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

from memline.language.chinese import cjk_terms
from memline.language.identifiers import Identifier
from memline.language.stop_words import ENGLISH_STOP_WORDS
from memline.language.words import CJK_RUN, Reading, split_words

__all__ = ["MAX_TERM_LENGTH", "terms_of"]

MAX_TERM_LENGTH = 64
_KEPT_LENGTH = 47
_PART = re.compile(r"[A-Za-z0-9]+")


def terms_of(reading: Reading, identifiers: Iterable[Identifier]) -> tuple[str, ...]:
    """The terms of a text that was read, where *identifiers* were found in it (in order)."""
    text = reading.text
    placed: list[tuple[int, str]] = []
    covered = bytearray(len(text))
    for identifier in identifiers:
        covered[identifier.start : identifier.end] = b"\x01" * (identifier.end - identifier.start)
        placed += [(identifier.start, term) for term in _identifier_terms(identifier)]
    stops: list[tuple[int, str]] = []
    for word in reading.words:
        if any(covered[word.start : word.end]):
            continue
        for part in split_words(word.lemma):
            into = stops if part in ENGLISH_STOP_WORDS or word.text.lower() in ENGLISH_STOP_WORDS else placed
            into.append((word.start, part))
    placed += [(run.start(), term) for run in CJK_RUN.finditer(text) for term in cjk_terms(run.group())]
    placed.sort(key=lambda entry: entry[0])  # stable: the terms of one identifier or run keep their order
    return tuple(clean for _, term in placed or stops if (clean := _clean(term)))


def _identifier_terms(identifier: Identifier) -> list[str]:
    raw = identifier.text
    if identifier.kind == "amount":
        return [raw.replace(",", "")]
    whole = "".join(raw.split())
    if identifier.kind in ("decimal", "symbol"):
        return [whole]
    parts = _PART.findall(raw)
    if identifier.kind == "phone":
        parts.append("".join(parts))
    return [whole, *(part for part in parts if part != whole)]


def _clean(term: str) -> str:
    # Lower-casing may leave what composes, and composing what has a lower case: twice is enough for all of Unicode.
    for _ in range(2):
        term = unicodedata.normalize("NFC", term.lower())
    term = re.sub(r"\s+", "", term)
    if len(term) <= MAX_TERM_LENGTH:
        return term
    return f"{term[:_KEPT_LENGTH]}~{hashlib.sha256(term.encode('utf-8')).hexdigest()[:16]}"
