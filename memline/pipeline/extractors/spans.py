"""Spans of a text that are never rewritten (quotes, code, addresses), and text as tokens. Every pattern is bounded: linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["CJK", "PROTECTED", "Token", "bare", "plain", "tokens"]

#: Ideographs; kana and hangul are other languages.
CJK = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

#: Quoted text, titles, inline code, URLs and e-mail addresses.
PROTECTED = (
    r"```[^`\n]{1,500}```|`[^`\n]{1,500}`"
    r"|\"[^\"\n]{1,500}\"|“[^“”\n]{1,500}”|「[^「」\n]{1,500}」|『[^『』\n]{1,500}』|《[^《》\n]{1,200}》|«[^«»\n]{1,500}»"
    r"|(?<!\w)'[^'\n]{1,200}'(?!\w)|(?<!\w)‘[^‘’\n]{1,200}’(?!\w)"
    r"|(?<![A-Za-z0-9])(?:https?://|www\.)[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]{0,2000}[A-Za-z0-9/#=]"
    r"|(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
)

_PROTECTED = re.compile(PROTECTED)
_TOKEN = re.compile(
    rf"(?P<protected>{PROTECTED})|(?P<word>[{CJK}]|[^\W{CJK}]+(?:['’][^\W\d_{CJK}]+)*)|(?P<space>\s+)|(?P<mark>.)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text; all tokens of a text joined are the text."""

    #: "protected", "word", "space" or "mark" (one character).
    kind: str
    text: str

    @property
    def low(self) -> str:
        """Lower case with a straight apostrophe, for comparing words; "" for what is no word."""
        return plain(self.text) if self.kind == "word" else ""


def tokens(text: str) -> list[Token]:
    """The tokens of *text*, in order."""
    return [Token(match.lastgroup or "mark", match.group()) for match in _TOKEN.finditer(text)]


def plain(text: str) -> str:
    """Lower case, curly apostrophes made straight."""
    return text.lower().replace("’", "'")


def bare(text: str, filler: str = " ") -> str:
    """*text* with every protected span replaced by *filler*."""
    return _PROTECTED.sub(lambda _: filler, text)
