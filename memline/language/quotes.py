"""Titles and phrases in quotation marks and book-title marks. A quoted sentence is speech, not a name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memline.language.vocabulary import OPENERS
from memline.language.words import has_cjk

__all__ = ["find_quoted"]

_LIMIT = 100
_QUOTES = re.compile(
    r"(?P<book>[《〈][^》〉\n]{1,100}[》〉])"
    r"|(?P<corner>[「『][^」』\n]{1,100}[」』])"
    r"|(?P<double>“[^”\n]{1,100}”|«[^»\n]{1,100}»|„[^“”\n]{1,100}[“”]|(?<![A-Za-z0-9])\"[^\"\n]{1,100}\"(?![A-Za-z0-9]))"
    r"|(?P<single>‘(?:[^’\n]|’(?=\w)){1,100}’(?!\w)|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){1,100}'(?!\w))"
    r"|(?P<code>`[^`\n]{1,100}`)"
)
_SPEECH = re.compile(r"[.!?;:,](?:\s|$)")
_CHINESE_SPEECH = re.compile(r"[。.!?;:,]")
_SMALL = frozenset("a an the and or but of in on at to for with from by as is de la".split())


def find_quoted(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of what stands inside the marks, spaces and a comma or full stop at its end left out."""
    for found in _QUOTES.finditer(text):
        start, end = found.start() + 1, found.end() - 1
        inner = text[start:end]
        start += len(inner) - len(inner.lstrip())
        inner = inner.strip()
        if inner.endswith((",", ".", "。")) and not inner.endswith(".."):
            inner = inner[:-1].rstrip()
        if inner and (found["book"] or _is_title(inner)):
            yield start, start + len(inner)


def _is_title(inner: str) -> bool:
    if has_cjk(inner):
        return 2 <= len(inner) <= 20 and not _CHINESE_SPEECH.search(inner)
    words = inner.split()
    if len(inner) <= 2 or len(words) > 8:
        return False
    significant = [word for word in words if word.lower() not in _SMALL]
    if all(not word[0].isalpha() or word[0].isupper() for word in significant) and len(words) > 1:
        return not inner.endswith((".", ","))
    return len(words) <= 4 and not _SPEECH.search(inner) and words[0].lower() not in OPENERS
