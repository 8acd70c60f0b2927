"""Where ids come from: new ones from an injected source, derived ones from what they name."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from memline.contracts.clock import Clock, SystemClock

__all__ = ["IdSource", "TimeOrderedIds", "derived_id", "digest_of", "handed_over_at"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class IdSource(Protocol):
    """Makes ids that were never used before."""

    def new(self) -> str: ...


class TimeOrderedIds:
    """UUID version 7 (RFC 9562): 48 bits of milliseconds, then random bits."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def new(self) -> str:
        milliseconds = (self._clock.now() - _EPOCH) // timedelta(milliseconds=1)
        value = (milliseconds & ((1 << 48) - 1)) << 80 | int.from_bytes(os.urandom(10), "big")
        value = value & ~(0xF << 76) | (0x7 << 76)
        value = value & ~(0x3 << 62) | (0x2 << 62)
        return str(UUID(int=value))


def handed_over_at(turn_id: str) -> datetime | None:
    """The time inside a turn's id; None if it is not an id that `TimeOrderedIds` made."""
    try:
        value = UUID(turn_id)
    except ValueError:
        return None
    if value.version != 7 or str(value) != turn_id:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=value.int >> 80)
    except OverflowError:  # beyond the year 9999
        return None


def digest_of(*parts: str | bytes | None, size: int = 16) -> str:
    """Hex digest of a tuple: each part is length-delimited, so ("a", "bc") and ("ab", "c") differ, and None is not ""."""
    hasher = hashlib.blake2b(digest_size=size)
    for part in parts:
        if part is None:
            hasher.update(b"-")
            continue
        raw = part.encode("utf-8") if isinstance(part, str) else part
        hasher.update(str(len(raw)).encode("ascii") + b":" + raw)
    return hasher.hexdigest()


def derived_id(*parts: str) -> str:
    """A UUID that depends on nothing but *parts*: the same parts give the same id in every process."""
    return str(UUID(hex=digest_of("memline", *parts), version=5))
