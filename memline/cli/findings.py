"""What `doctor` finds of one part."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "State"]


class State(StrEnum):
    """How a part is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """A part, how it is, what was seen, and what to do where something is wrong. Never with text of a memory."""

    part: str
    state: State
    detail: str
    hint: str = ""

    def document(self) -> dict[str, str]:
        """As JSON."""
        return {"part": self.part, "state": self.state.value, "detail": self.detail, "hint": self.hint}
