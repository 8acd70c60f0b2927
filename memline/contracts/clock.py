"""Time is a parameter: whoever needs it is given a clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> datetime:
        """The time as an aware datetime in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
