"""The items of a JSON file, one at a time and in bounded memory: of an array, of an array inside an answer of a server, or one a line.

An answer is an object with its items under `points`, `objects` or `results`, or the like under `result` (Qdrant's scroll, Weaviate's list
of objects, mem0's get_all). Several values in one file follow each other: JSON lines, or several answers.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from memline.contracts.errors import InvalidInput

__all__ = ["items_in"]

_CHUNK = 1 << 16
_SPACE = " \t\r\n"
_HOLDERS = ("points", "objects", "results", "result")

#: Answers nest no deeper than this.
_DEEPEST = 4


def items_in(handle: BinaryIO) -> Iterator[tuple[int, Any]]:
    """Items with the number of the line in which each begins, from 1. Raises InvalidInput where the file is not JSON."""
    text = _Text(handle)
    while text.peek():
        yield from _items(text, 0)


def _items(text: _Text, depth: int) -> Iterator[tuple[int, Any]]:
    opened = text.peek()
    if opened == "[" and depth < _DEEPEST:
        yield from _of_array(text, depth)
    elif opened == "{" and depth < _DEEPEST:
        yield from _of_object(text, depth)
    else:
        yield text.line, text.value()


def _of_array(text: _Text, depth: int) -> Iterator[tuple[int, Any]]:
    text.take("[")
    nested = False
    while text.peek() != "]":
        if text.peek() == "[":  # what a client's scroll returned: the points, and where the next page begins
            nested = True
            yield from _of_array(text, depth + 1)
        else:
            line, value = text.line, text.value()
            if isinstance(value, dict) or not nested:
                yield line, value
        if text.peek() != "]":
            text.take(",")
    text.take("]")


def _of_object(text: _Text, depth: int) -> Iterator[tuple[int, Any]]:
    line = text.line
    text.take("{")
    found: dict[str, Any] = {}
    holds = False
    while text.peek() != "}":
        if text.peek() != '"':
            raise text.wrong()
        name = text.value()
        text.take(":")
        if name in _HOLDERS and (text.peek() == "[" or (name == "result" and text.peek() == "{")):
            holds = True
            yield from _items(text, depth + 1)
        else:
            found[name] = text.value()
        if text.peek() != "}":
            text.take(",")
    text.take("}")
    if not holds:
        yield line, found


class _Text:
    """A file as text, of which a piece is in memory."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._piece = ""
        self._at = 0
        self._ended = False
        #: The line in which the next character stands.
        self.line = 1

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            while self._at < len(self._piece) and self._piece[self._at] in _SPACE:
                self.line += self._piece[self._at] == "\n"
                self._at += 1
            if self._at < len(self._piece):
                return self._piece[self._at]
            if not self._more():
                return ""

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise self.wrong()
        self._at += 1

    def value(self) -> Any:
        """The next JSON value, whole."""
        if not self.peek():
            raise self.wrong()
        while True:
            try:
                found, end = self._json.raw_decode(self._piece, self._at)
            except json.JSONDecodeError:
                if self._more():
                    continue
                raise self.wrong() from None
            except (RecursionError, ValueError) as error:  # nested too deep, or a number of too many digits
                raise InvalidInput(f"line {self.line}: not JSON that can be read ({type(error).__name__}).") from None
            if end == len(self._piece) and self._more():
                continue  # a number may go on
            self.line += self._piece.count("\n", self._at, end)
            self._at = end
            return found

    def wrong(self) -> InvalidInput:
        where = "it ends too early" if self._ended and self._at >= len(self._piece) else "not JSON"
        return InvalidInput(f"line {self.line}: {where}. A JSON array, an answer that holds one, or one JSON object a line is needed.")

    def _more(self) -> bool:
        """Reads on, as much again as is there, so that a long value is not tried too often; False at the end."""
        if self._ended:
            return False
        self._piece = self._piece[self._at :]
        self._at = 0
        raw = self._handle.read(max(_CHUNK, len(self._piece)))
        self._ended = not raw
        try:
            self._piece += self._utf8.decode(raw, final=self._ended)
        except UnicodeDecodeError:
            raise InvalidInput(f"after line {self.line}: not UTF-8.") from None
        return True
