"""The parts behind the commands that look below the front door: one namespace of a `House`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memline.cli.chosen import Chosen
from memline.contracts.errors import UnknownReceipt, WaitTimeout
from memline.contracts.receipt import ReceiptState
from memline.contracts.scope import check_namespace

if TYPE_CHECKING:
    from memline.compose import House

__all__ = ["OpenHouse", "open_house"]

#: Seconds between two looks at the ledger.
_LOOK = 0.05


def open_house(options: Chosen) -> OpenHouse:
    """The parts that the settings name; nothing is built before it is used. Raises ConfigurationError."""
    from memline.compose import House

    settings = options.settings()
    return OpenHouse(House(settings), check_namespace(settings.namespace))


class OpenHouse:
    """Jobs of one namespace, straight from the ledger."""

    def __init__(self, house: House, namespace: str) -> None:
        self.house = house
        self.namespace = namespace

    @property
    def uses_redis(self) -> bool:
        return self.house.uses_redis

    def jobs(self, state: str | None, limit: int) -> list[dict[str, Any]]:
        """The newest jobs first."""
        from memline.ledger.jobs import list_jobs

        with self.house.ledger.read() as connection:
            return list_jobs(connection, self.namespace, state=state, limit=limit)

    def states_of(self, turn_ids: Sequence[str]) -> list[ReceiptState | None]:
        """Where turns are, one answer an id; None for what the ledger has not seen."""
        from memline.ledger.receipts import receipt_state

        with self.house.ledger.read() as connection:
            return [receipt_state(connection, turn_id, namespace=self.namespace) for turn_id in turn_ids]

    def state_of(self, job_id: str) -> ReceiptState:
        """Where a job is; raises UnknownReceipt."""
        (state,) = self.states_of([job_id])
        if state is None:
            raise UnknownReceipt(f"No job {job_id} is in namespace {self.namespace} of this ledger. `memline jobs` lists what is there.")
        return state

    def usage_of(self, job_id: str) -> list[dict[str, Any]]:
        """What the calls of a job used, as long as its replies are kept."""
        from memline.ledger.usage import usage_of_job

        with self.house.ledger.read() as connection:
            return usage_of_job(connection, job_id)

    def retry(self, job_id: str) -> bool:
        """Puts a failed job back; False where it had not failed."""
        from memline.ledger.jobs import retry_job

        with self.house.ledger.write() as tx:
            return retry_job(tx, job_id, now=self.house.clock.now())

    def run(self, job_ids: Sequence[str], timeout: float) -> None:
        """Runs jobs on an engine of this process until they are through; raises WaitTimeout after *timeout* seconds."""
        if not job_ids:
            return
        deadline = time.monotonic() + timeout
        self.house.engine.wake()
        while open_ones := sum(1 for state in self.states_of(job_ids) if state is not None and not _is_through(state)):
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"After {timeout:g} s {open_ones} of {len(job_ids)} jobs are still on their way; they go on.")
            time.sleep(_LOOK)

    def close(self, timeout: float | None = None) -> None:
        """Closes what was opened; waits at most *timeout* seconds (by default MEMLINE_EXIT_DRAIN) for work that was accepted."""
        self.house.close(self.house.settings.exit_drain if timeout is None else timeout)


def _is_through(state: ReceiptState) -> bool:
    return state.finished and state.status.ended
