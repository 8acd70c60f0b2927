"""When two texts are the same memory.

The hash folds what carries no meaning (Unicode composition, full-width forms, white space, case) and keeps what does: the case
of a token with a digit or an inner capital, and of everything in quotes or code. NFC and not NFKC, since the latter makes
"10²" and "102" one text; `lower` and not `casefold`, since the latter makes "Maße" and "Masse" one word.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

__all__ = ["content_hash", "fold", "text_md5"]

_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_KEPT = re.compile(
    r"```.*?```|`[^`]*`"
    r"|\"[^\"]*\"|“[^“”]*”|「[^「」]*」|『[^『』]*』|《[^《》]*》|«[^«»]*»"
    # a letter may end in combining marks, which folding may compose or split off
    r"|(?<![\w\u0300-\u036f])'[^']*'(?!\w)|(?<![\w\u0300-\u036f])‘[^‘’]*’(?!\w)"
)


def fold(text: str) -> str:
    """The form of *text* that is hashed; folding twice changes nothing more."""
    # white space first: where a quote ends must not depend on how a line was broken
    text = " ".join(unicodedata.normalize("NFC", text.translate(_WIDTH)).split())
    folded: list[str] = []
    end = 0
    for kept in _KEPT.finditer(text):
        folded.append(_fold_plain(text[end : kept.start()]))
        folded.append(kept.group())
        end = kept.end()
    folded.append(_fold_plain(text[end:]))
    return unicodedata.normalize("NFC", "".join(folded))


def content_hash(text: str) -> str:
    """SHA-256 (64 hex digits) of the folded text: two live memories of one scope never share it."""
    return hashlib.sha256(fold(text).encode("utf-8")).hexdigest()


def text_md5(text: str) -> str:
    """mem0's `hash`: MD5 of the exact text, shown to callers, decides nothing."""
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def _fold_plain(text: str) -> str:
    return " ".join(token if _keeps_case(token) else token.lower() for token in text.split(" "))


def _keeps_case(token: str) -> bool:
    first = next((index for index, c in enumerate(token) if c.isalnum()), len(token))
    return any(c.isdigit() for c in token) or any(c.isupper() for c in token[first + 1 :])
