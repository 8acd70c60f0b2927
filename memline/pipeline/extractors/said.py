"""What a request turned out to say."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Said"]


@dataclass(frozen=True, slots=True)
class Said:
    """A statement that stood in a request, or (asked) the request itself."""

    text: str
    #: Then *text* continues "User asks": ": what …?" or "to find …".
    asked: bool = False
