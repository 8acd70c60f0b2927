"""What may happen while something runs, and where."""

from __future__ import annotations

from dataclasses import dataclass

from memline.ledger.jobs import Stage

__all__ = ["ACCEPT", "INSIDE", "RELAY", "STAGE", "Trouble"]

#: Where something may happen (each time also where no transaction is open), by what is run.
STAGE = ("taken", "inside", "before_commit", "after_commit"), ("taken", "inside", "after_commit")
RELAY = ("claimed", "before_write", "after_write", "before_settle", "after_settle"), ("claimed", "before_write", "after_write")
ACCEPT = ("before_commit", "after_commit", "after_done"), ("after_commit", "after_done")
INSIDE = {Stage.EXTRACT: ("extract.before_ask", "extract.after_ask", "extract.after_store"), Stage.EMBED: ("embed.before_call",)}


@dataclass(frozen=True)
class Trouble:
    """What happens at a named point: the process is killed, an exception, an answer lost; or this goes on *meanwhile*."""

    kind: str
    at: int
    meanwhile: tuple[str, ...] = ()

    def point(self, points: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
        which = points[self.kind == "meanwhile"]
        return which[self.at % len(which)]
