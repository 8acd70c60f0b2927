"""Where in a message the sentences stand that a statement was made of."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Spans"]

#: How far on a sentence is looked for, in characters: they come in order, so that a message is walked once.
_AHEAD = 20_000


class Spans:
    """The places of one message's sentences, asked for in about their order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def of(self, sentences: Sequence[str]) -> list[int] | None:
        """[start, end) of what goes from the first of *sentences* to the last; None where one does not stand there to the letter."""
        if not sentences:
            return None
        start = end = -1
        for sentence in sentences:
            found = self._find(sentence, end if end >= 0 else self._at)
            if found < 0:
                return None
            start = found if start < 0 else start
            end = found + len(sentence)
        self._at = start
        return [start, end]

    def _find(self, sentence: str, after: int) -> int:
        found = self._text.find(sentence, after, after + _AHEAD + len(sentence))
        return found if found >= 0 else self._text.find(sentence, 0, min(after, _AHEAD))
