"""What the ledger should have made of the turns that arrived: a few dictionaries, written from DESIGN.md and not from the code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from memline.contracts.fact import Fact
from memline.contracts.turn import Turn
from tests.parts import facts_of

__all__ = ["Reference", "facts_told"]


def facts_told(turn: Turn) -> list[Fact]:
    """The facts of a turn, as the extractors of these tests find them."""
    if not turn.infer:
        return [Fact(message.text) for message in turn.messages]
    return facts_of(line for message in turn.messages for line in message.text.splitlines() if line != "hello")


@dataclass(slots=True)
class _Numbers:
    """What one producer handed to one lane."""

    expected: int = 1
    #: Number -> (turn that is a job, or None; until when it is held).
    waiting: dict[int, tuple[str | None, datetime]] = field(default_factory=dict)
    #: Jobs in the order in which they have their seats.
    seated: list[str] = field(default_factory=list)

    def seat(self, job_id: str | None) -> None:
        if job_id is not None:
            self.seated.append(job_id)

    def follow(self) -> None:
        while self.expected in self.waiting:
            self.seat(self.waiting.pop(self.expected)[0])
            self.expected += 1


@dataclass(slots=True)
class Reference:
    """The jobs, repeats and seats that there should be (G2, G5)."""

    order_wait: float
    jobs: dict[str, Turn] = field(default_factory=dict)
    #: Turn -> (its first job, whether the content differs).
    repeats: dict[str, tuple[str, bool]] = field(default_factory=dict)
    keys: dict[tuple[str, str], Turn] = field(default_factory=dict)
    numbers: dict[tuple[str, str], _Numbers] = field(default_factory=dict)
    late: int = 0
    gaps: int = 0

    def arrive(self, turns: Sequence[Turn], now: datetime, cancelled: Collection[str] = ()) -> None:
        """Turns that were accepted in one transaction. Those *cancelled* came behind a mark: they use their number and have no seat."""
        for turn in turns:
            if turn.id not in self.jobs and turn.id not in self.repeats:
                job_id = self._job(turn)
                self._number(turn, None if job_id in cancelled else job_id, now)

    def cancel(self, job_ids: Collection[str]) -> None:
        """Jobs that were cancelled while they were held never have a seat."""
        for numbers in self.numbers.values():
            for number, (job_id, until) in numbers.waiting.items():
                if job_id in job_ids:
                    numbers.waiting[number] = (None, until)

    def _job(self, turn: Turn) -> str | None:
        if turn.idempotency_key is not None:
            first = self.keys.setdefault((turn.scope.lane, turn.idempotency_key), turn)
            if first is not turn:
                self.repeats[turn.id] = (first.id, first.fingerprint != turn.fingerprint)
                return None
        self.jobs[turn.id] = turn
        return turn.id

    def _number(self, turn: Turn, job_id: str | None, now: datetime) -> None:
        numbers = self.numbers.setdefault((turn.scope.lane, turn.producer), _Numbers())
        if turn.number > numbers.expected:
            numbers.waiting[turn.number] = (job_id, now + timedelta(seconds=self.order_wait))
            return
        self.late += turn.number < numbers.expected
        numbers.expected += turn.number == numbers.expected
        numbers.seat(job_id)
        numbers.follow()

    def pass_gaps(self, now: datetime) -> None:
        """What a sweep does for turns that were held for `order_wait`: the missing ones are gaps."""
        for numbers in self.numbers.values():
            due = sorted(number for number, (job_id, until) in numbers.waiting.items() if job_id is not None and until <= now)
            for number in due:
                if number < numbers.expected:
                    continue
                self.gaps += sum(1 for missing in range(numbers.expected, number) if missing not in numbers.waiting)
                for earlier in sorted(earlier for earlier in numbers.waiting if earlier < number):
                    numbers.seat(numbers.waiting.pop(earlier)[0])
                numbers.expected = number
                numbers.follow()
