"""An import at work: hands turns over, never far ahead of the ledger, and follows what becomes of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from memline.cli.houses import OpenHouse
from memline.cli.import_gates import Gate, Given
from memline.cli.import_lines import BadLine, Numbered
from memline.contracts.errors import InvalidInput, WaitTimeout
from memline.contracts.receipt import Event, ReceiptState, Status

__all__ = ["AHEAD", "ImportRun", "Tally"]

#: Most turns that are handed over and not through.
AHEAD = 1000

#: Seconds between two looks at what is on its way.
_LOOK = 0.1

#: Turns that a look begins with, the oldest ones: a lane goes in order, so while they are not through, hardly any other is.
_HEADS = 1

#: Seconds without progress among the oldest after which all are looked at: other lanes may go on. It doubles while nothing moves.
_STUCK = 5.0

#: Lines named of each kind of trouble.
_NAMED = 5


@dataclass(slots=True)
class Tally:
    """What came of an import so far."""

    turns: int = 0
    new: int = 0
    known: int = 0
    skipped: int = 0
    conflicts: int = 0
    failed: int = 0
    memories: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    #: What went wrong, at most a few lines of it.
    trouble: list[str] = field(default_factory=list)

    def name(self, what: str) -> None:
        if len(self.trouble) < _NAMED:
            self.trouble.append(what)

    def document(self, on_the_way: int) -> dict[str, Any]:
        """The summary as JSON."""
        return {
            "turns": self.turns,
            "new": self.new,
            "known": self.known,
            "skipped": self.skipped,
            "conflicts": self.conflicts,
            "failed": self.failed,
            "on_the_way": on_the_way,
            "memories": self.memories,
            "duplicates": self.duplicates,
            "seconds": round(self.seconds, 3),
            "turns_per_second": round(self.turns / self.seconds, 1) if self.seconds > 0 else 0.0,
            "trouble": self.trouble,
        }


class ImportRun:
    """One import. *patience*: seconds without any progress after which it gives up. *told* hears of progress. *check*, called where the
    import may end, raises what ends it.
    """

    def __init__(
        self,
        house: OpenHouse,
        gate: Gate,
        *,
        skip_bad: bool,
        patience: float,
        told: Callable[[Tally], None],
        ahead: int = AHEAD,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.tally = Tally()
        self._house = house
        self._gate = gate
        self._skip_bad = skip_bad
        self._patience = patience
        self._told = told
        self._ahead = ahead
        self._check = check
        self._open: deque[Given] = deque()
        self._began = self._moved = time.monotonic()
        self._next_look = self._began + _LOOK
        self._stuck = _STUCK

    @property
    def on_the_way(self) -> int:
        """Turns that were handed over and are not through."""
        return len(self._open)

    def hand_over(self, turns: Iterable[Numbered | BadLine]) -> None:
        """Hands every turn over. Raises InvalidInput at the first bad line, after the turns before it were handed over."""
        waiting: list[Numbered] = []
        for turn in turns:
            self._check()
            if isinstance(turn, BadLine):
                if not self._skip_bad:
                    self._give(waiting)
                    raise InvalidInput(f"line {turn.number}: {turn.reason}")
                self.tally.skipped += 1
                self.tally.name(f"line {turn.number}: {turn.reason}")
                continue
            waiting.append(turn)
            if len(waiting) >= self._gate.batch:
                self._give(waiting)
                waiting = []
        self._give(waiting)
        self._tell()

    def finish(self) -> None:
        """Waits until everything handed over is through."""
        self._next_look = self._began  # at once
        self._wait(0)

    def _give(self, turns: list[Numbered]) -> None:
        if not turns:
            return
        for given in self._gate.give(turns):
            self.tally.turns += 1
            if given.conflict:
                self._conflict(given)
            elif given.known:
                self.tally.known += 1
            else:
                self._open.append(given)
        self._moved = time.monotonic()
        self._wait(self._ahead)

    def _wait(self, most: int) -> None:
        """Follows what is on its way, now and then, until no more than *most* turns are."""
        while True:
            self._check()
            if time.monotonic() >= self._next_look:
                self._look()
                self._next_look = time.monotonic() + _LOOK
            if len(self._open) <= most:
                return
            if time.monotonic() - self._moved > self._patience:
                raise WaitTimeout(
                    f"Nothing moved for {self._patience:g} s while {len(self._open)} turns are on their way: is a worker running "
                    "(`memline worker`, `memline doctor`)? Import the file again later: what was taken is known by its key."
                )
            time.sleep(max(0.0, self._next_look - time.monotonic()))

    def _look(self) -> None:
        """Counts what is through."""
        size = _HEADS
        while self._open and self._count_oldest(size):
            size = min(2 * size, 100)
            self._tell()
        if self._open and time.monotonic() - self._moved > self._stuck:
            self._stuck *= 2
            self._count_oldest(len(self._open))
        self._tell()

    def _count_oldest(self, most: int) -> bool:
        """Counts those of the oldest turns on their way that are through; False where none is."""
        looked_at = [self._open.popleft() for _ in range(min(most, len(self._open)))]
        states = self._house.states_of([given.turn_id for given in looked_at])
        still = [given for given, state in zip(looked_at, states, strict=True) if not self._count(given, state)]
        self._open.extendleft(reversed(still))
        if len(still) == len(looked_at):
            return False
        self._moved, self._stuck = time.monotonic(), _STUCK
        return True

    def _count(self, given: Given, state: ReceiptState | None) -> bool:
        """Counts a turn that is through; False for one on its way."""
        if state is None or not state.status.ended:
            return False
        tally = self.tally
        if state.status is Status.CONFLICT:
            self._conflict(given)
        elif state.same_as is not None:
            tally.known += 1
        elif state.status is Status.SEARCHABLE:
            tally.new += 1
            tally.memories += sum(result["event"] == Event.ADD for result in state.results)
            tally.duplicates += sum(result["event"] == Event.DUPLICATE for result in state.results)
        else:
            tally.failed += 1
            tally.name(f"line {given.number}: turn {given.turn_id} is {state.status} ({state.reason or 'no reason given'})")
        return True

    def _conflict(self, given: Given) -> None:
        self.tally.conflicts += 1
        self.tally.name(f"line {given.number}: its key was used before in this scope, for another content; the first one stands")

    def _tell(self) -> None:
        self.tally.seconds = time.monotonic() - self._began
        self._told(self.tally)
