"""A text without what stands between the characters of a secret: escapes of JSON, addresses and HTML, bold type, invisible characters.

A tool's answer is often JSON inside JSON, where a line's end is `\\n` and a quote `\\"`; finders look at the text as it was meant, too.
"""

from __future__ import annotations

import re
from bisect import bisect_right

__all__ = ["Unwrapped", "unwrapped"]

#: Soft hyphen, joiners, marks of direction, variation selectors, byte order mark: nobody sees them.
_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
#: A run of backslashes is looked at once, from its beginning.
_WRAPPING = re.compile(
    rf"(?<!\\)\\++(?:u00([2-7][0-9a-fA-F])|([nrt\"'/]))|%(0[9AaDd]|[2-7][0-9A-Fa-f])|&(quot|apos|amp|lt|gt|nbsp|#34|#39|#x22|#x27);"
    rf"|[{_INVISIBLE}]+|(?<![*\w])\*\*(?=[^\s*])|(?<=[^\s*])\*\*(?![*\w])"
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_ENTITIES = {"quot": '"', "#34": '"', "#x22": '"', "apos": "'", "#39": "'", "#x27": "'", "amp": "&", "lt": "<", "gt": ">", "nbsp": " "}


class Unwrapped:
    """A text that was changed, and where each of its characters stood before."""

    __slots__ = ("_pieces", "_starts", "text")

    def __init__(self, pieces: list[tuple[str, int, int]]) -> None:
        """*pieces*: text, and [start, end) of what it stands for; as long as that, or one character."""
        self.text = "".join(piece for piece, _, _ in pieces)
        self._pieces = pieces
        self._starts: list[int] = []
        at = 0
        for piece, _, _ in pieces:
            self._starts.append(at)
            at += len(piece)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text before [start, end) stood; it must not be empty."""
        return self._of(start)[0], self._of(end - 1)[1]

    def _of(self, at: int) -> tuple[int, int]:
        index = bisect_right(self._starts, at) - 1
        piece, start, end = self._pieces[index]
        if len(piece) != end - start:
            return start, end
        begin = start + at - self._starts[index]
        return begin, begin + 1


def unwrapped(text: str) -> Unwrapped | None:
    """*text* unwrapped; None where nothing is wrapped."""
    pieces: list[tuple[str, int, int]] = []
    done = 0
    for match in _WRAPPING.finditer(text):
        if done < match.start():
            pieces.append((text[done : match.start()], done, match.start()))
        if plain := _plain(match):
            pieces.append((plain, *match.span()))
        done = match.end()
    if done == 0:
        return None
    if done < len(text):
        pieces.append((text[done:], done, len(text)))
    return Unwrapped(pieces)


def _plain(match: re.Match[str]) -> str:
    """The character that a match stands for; none for what nobody sees."""
    code, escape, percent, entity = match.groups()
    if code or percent:
        return chr(int(code or percent, 16))
    if escape:
        return _ESCAPES.get(escape, escape)
    return _ENTITIES[entity] if entity else ""
