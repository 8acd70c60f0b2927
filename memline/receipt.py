"""A receipt: the caller's handle on a turn that was handed over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from memline.contracts.errors import (
    IdempotencyConflict,
    InvalidInput,
    JobCancelled,
    JobFailed,
    MemlineError,
    TurnLost,
    WaitTimeout,
)
from memline.contracts.options import check_timeout
from memline.contracts.receipt import ReceiptState, Status

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Receipt"]

#: Seconds between two looks while waiting: from the first to the longest.
_FIRST_LOOK, _LONGEST_LOOK = 0.002, 0.1


class Receipt:
    """Where a turn is. `status`, `results` and `reason` look again until the turn has ended; `seen` is the last look."""

    def __init__(self, seen: ReceiptState, look: Callable[[str], ReceiptState]) -> None:
        self.id = seen.id
        self.seen = seen
        self._masked = seen.masked  # only the hand-over and the ledger know it, not the stream between them
        self._look = look

    @property
    def status(self) -> Status:
        """Where the turn is now; never more than is true."""
        return self.refresh().status

    @property
    def results(self) -> list[dict[str, Any]]:
        """{"id", "memory", "event"} for each fact: ADD, or DUPLICATE with the id of the memory that was there. Empty until committed.

        An added one that is close to memories that were there says to which: "near": [{"id", "similarity"}]. Both are kept.
        """
        return [dict(result) for result in self.refresh().results]

    @property
    def notes(self) -> dict[str, int]:
        """What else there is to tell (`ReceiptState.notes`): in how many windows a long turn was read, how much was left out and why."""
        return dict(self.refresh().notes)

    @property
    def reason(self) -> str | None:
        """Why it ended as it did, or why it has no memory."""
        return self.refresh().reason

    @property
    def masked(self) -> dict[str, int]:
        """What the write policy masked in the turn: {kind: how often}."""
        return dict(self.refresh().masked or self._masked)

    def refresh(self) -> ReceiptState:
        """Looks where the turn is."""
        if not self.seen.status.ended:
            self.seen = self._look(self.id)
        return self.seen

    def wait(self, timeout: float = 30, until: Literal["searchable", "committed"] = "searchable") -> Receipt:
        """Waits until the turn's memories exist (`committed`) or are found by a search (`searchable`).

        *timeout* in seconds. Raises JobFailed, JobCancelled, TurnLost or IdempotencyConflict when the turn ended otherwise, and
        WaitTimeout, which says whether it was committed, when the time is over; the turn itself goes on.
        """
        if until not in ("searchable", "committed"):
            raise InvalidInput(f"until must be 'searchable' or 'committed', not {until!r}.")
        deadline = time.monotonic() + check_timeout(timeout)
        pause = _FIRST_LOOK
        while not self._arrived(until):
            left = deadline - time.monotonic()
            if left <= 0:
                seen = self.seen
                raise WaitTimeout(
                    f"Turn {self.id} is {seen.status} after {timeout:g} s, not {until}"
                    + (f" (stage {seen.stage}: {seen.reason})" if seen.reason else "")
                    + "; it goes on. Wait longer, or look at the receipt later.",
                    receipt=self,
                    committed=seen.status.is_committed,
                )
            time.sleep(min(pause, left))
            pause = min(_LONGEST_LOOK, pause * 1.5)
        return self

    def wait_accepted(self, timeout: float) -> Receipt:
        """Waits until the ledger has the turn."""
        deadline = time.monotonic() + timeout
        pause = _FIRST_LOOK
        while self.refresh().status in (Status.SPOOLED, Status.QUEUED):
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"Turn {self.id} is {self.seen.status} after {timeout:g} s, not accepted; it goes on.", receipt=self)
            time.sleep(pause)
            pause = min(_LONGEST_LOOK, pause * 1.5)
        self._raise_ended()
        return self

    def _arrived(self, until: str) -> bool:
        status = self.refresh().status
        self._raise_ended()
        return status is Status.SEARCHABLE or (until == "committed" and status is Status.COMMITTED)

    def _raise_ended(self) -> None:
        status, reason = self.seen.status, self.seen.reason
        if status is Status.FAILED:
            told = f"Turn {self.id} failed: {_sentence(reason)} It is kept with its replies: `memline jobs retry {self.id}` replays it."
            raise JobFailed(told, receipt=self)
        if status is Status.CANCELLED:
            raise JobCancelled(f"Turn {self.id} was cancelled: {_sentence(reason)}", receipt=self)
        if status is Status.LOST:
            raise TurnLost(receipt=self)
        if status is Status.CONFLICT:
            raise _conflict(self)

    def __repr__(self) -> str:
        return f"Receipt(id={self.id!r}, status={self.seen.status.value!r})"


def _sentence(reason: str | None) -> str:
    """A reason, with one full stop: those of errors have theirs."""
    return f"{(reason or 'nobody knows why').rstrip('.')}."


def _conflict(receipt: Receipt) -> MemlineError:
    return IdempotencyConflict(
        f"The idempotency key of turn {receipt.id} was used before, by {receipt.seen.same_as}, for another content: "
        "the first one stands. Use a new key, or send the same content."
    )
