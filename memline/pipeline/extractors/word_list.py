"""Word lists written as text."""

from __future__ import annotations

__all__ = ["words"]


def words(text: str, separator: str | None = None) -> frozenset[str]:
    """The words of *text*, split at white space or at *separator*."""
    return frozenset(text.split(separator))
