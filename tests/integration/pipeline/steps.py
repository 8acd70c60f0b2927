"""Steps that the tests of the runner share: a batch claimed, run one stage or up to one, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memline.ledger.jobs import Stage
from memline.ledger.leases import Lease
from memline.ledger.schema import jobs, lanes, leases, memories
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.pipeline.runner import claim_and_send, run_stage
from tests.parts import HandClock, job_of, table

__all__ = ["claimed", "clock", "live", "nothing_is_left_over", "stage", "state", "up_to"]


def clock(parts: Parts) -> HandClock:
    assert isinstance(parts.clock, HandClock)
    return parts.clock


def live(ledger: Ledger) -> list[str]:
    return [row.text for row in table(ledger, memories, memories.c.state == "live")]


def claimed(parts: Parts) -> list[Lease]:
    found: list[Lease] = []
    claim_and_send(parts, found.extend)
    return found


def stage(parts: Parts, lease: Lease, send: Callable[[Sequence[Lease]], None] | None = None) -> Lease | None:
    return run_stage(parts, lease.id, lease.epoch, lease.stage, worker="w", send=send or (lambda _: None))


def up_to(parts: Parts, lease: Lease, wanted: Stage) -> Lease:
    current: Lease | None = lease
    while current is not None and current.stage is not wanted:
        current = stage(parts, current)
    assert current is not None
    return current


def state(ledger: Ledger, job_id: str) -> tuple[str, str, int, bool]:
    row = job_of(ledger, job_id)
    return row.state, row.stage, row.attempts, row.alone


def nothing_is_left_over(ledger: Ledger) -> None:
    assert table(ledger, leases) == []
    assert {row.lease_id for row in table(ledger, jobs)} <= {None}
    assert all(row.lease_id is None and row.done_position == row.last_position for row in table(ledger, lanes))
