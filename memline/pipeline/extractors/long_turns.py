"""A turn that is longer than a model is asked at once, as windows: cut where a reader would, never inside what fits.

A window is the whole turn with only some of its text: messages keep their index, those that lie outside have none. What was said right
before a window is shown with it for understanding, as the last lines of the older messages, and is no source there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memline.contracts.message import CONTEXT, CONTEXT_LIMIT, SOURCES, Message, cut
from memline.language.windows import pieces
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.tokens import prefix_within, tokens_of

__all__ = ["OVERLAP", "START", "Place", "between", "end_of", "tokens_between", "window_end"]

#: Characters before a window that are shown with it: as many as of any older message (`prompt.WINDOW_LIMIT`).
OVERLAP = 300

#: Older messages that go with a window, as with a turn.
_MOST_OLDER = 10

#: Tokens of a message beside its text: role, index, name and the signs of JSON.
_FRAME = 20

#: A message is begun at the end of a window only where this share of it is left; otherwise it begins the next one.
_WORTH_BEGINNING = 0.25

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a turn: the index of a message, and characters into its text."""

    message: int
    offset: int = 0


START = Place(0)


def end_of(messages: Sequence[Message]) -> Place:
    """The place after the last message."""
    return Place(len(messages))


def tokens_between(messages: Sequence[Message], start: Place, end: Place) -> int:
    """Tokens of what stands from *start* up to *end*, estimated, with the frame of each message."""
    return sum(_cost(message) for message in _shown(messages, start, end))


def window_end(messages: Sequence[Message], start: Place, budget: int) -> Place:
    """Where the window of at most *budget* tokens ends that begins at *start*; at least one character on."""
    left = budget
    place = start
    while place.message < len(messages):
        message = messages[place.message]
        text = message.text[place.offset :]
        begun = place != start
        if message.role in SOURCES and text.strip():
            size = prefix_within(text, max(1, left - _FRAME))  # no further than it has to look: the rest may be long
            if size < len(text):
                if begun and left < _WORTH_BEGINNING * budget:
                    return place
                size = _piece(text, size)
                return Place(place.message + 1) if size >= len(text) else Place(place.message, place.offset + size)
        cost = _cost(message if not place.offset else replace(message, text=text))
        if cost > left and begun:
            return place
        left -= cost  # what a tool said goes whole, cut in the prompt
        place = Place(place.message + 1)
    return place


def between(request: Request, start: Place, end: Place) -> Request:
    """*request* with only what stands from *start* up to *end* as new, and the rest of the turn before it among the older messages."""
    if start == START and end == end_of(request.messages):
        return request
    return replace(request, messages=_shown(request.messages, start, end), window=_older(request, start))


def _shown(messages: Sequence[Message], start: Place, end: Place) -> tuple[Message, ...]:
    """The messages without what lies outside; each keeps its index."""
    found: list[Message] = []
    for index, message in enumerate(messages):
        first = len(message.text) if index < start.message else start.offset if index == start.message else 0
        last = len(message.text) if index < end.message else end.offset if index == end.message else 0
        found.append(message if (first, last) == (0, len(message.text)) else replace(message, text=message.text[first:last], images=()))
    return tuple(found)


def _cost(message: Message) -> int:
    if message.role in SOURCES:
        return tokens_of(message.text) + _FRAME if message.text.strip() else 0
    return tokens_of(cut(message.text, CONTEXT_LIMIT)) + _FRAME if message.role in CONTEXT and message.text.strip() else 0


def _older(request: Request, start: Place) -> tuple[Message, ...]:
    """The older messages of the lane, those of the turn before *start*, and the end of what was cut there."""
    said = [message for message in request.messages[: start.message] if message.role in (*SOURCES, *CONTEXT) and message.text.strip()]
    if said and start.offset == 0 and len(said[-1].text) > OVERLAP:
        said[-1] = replace(said[-1], text=_tail(said[-1].text))
    if start.offset:
        message = request.messages[start.message]
        said.append(replace(message, text=_tail(message.text[: start.offset]), images=()))
    return (*request.window, *said)[-_MOST_OLDER:]


def _tail(text: str) -> str:
    return text if len(text) <= OVERLAP else "…" + text[-(OVERLAP - 1) :]


def _piece(text: str, most: int) -> int:
    """Characters of *text* up to the best border before *most*: outside a block of code where there is one, else a sentence, a word."""
    if most >= len(text):
        return len(text)
    size = len(pieces(text[: most + 1], most)[0][1])
    opened: int | None = None
    for fence in _FENCE.finditer(text[: most + 4]):
        if opened is None:
            opened = fence.start()
            continue
        if opened < size < fence.end():  # the border lies inside a block that would have fitted whole
            return fence.end() if fence.end() <= most else (opened if opened > most // 4 else size)
        opened = None
    if opened is not None and most // 4 < opened < size:
        return opened
    return size
