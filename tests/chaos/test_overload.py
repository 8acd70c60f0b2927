"""Under a load ten times what the workers carry, turns wait in the ledger, and no lease runs out by waiting."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from memline import Status
from memline.ledger.counters import read_counters
from memline.ledger.schema import jobs, leases
from memline.ledger.session import Ledger
from tests.integration.path.stacks import celery_stack
from tests.services import PostgresServer, RedisServer

pytestmark = pytest.mark.chaos

TURNS, SCOPES = 300, 60


def test_no_lease_runs_out_while_turns_wait(tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer) -> None:
    slow = {
        "MEMLINE_LEASE": "10",
        "MEMLINE_EXTRACTOR": "model",
        "MEMLINE_CHAT_MODEL": "tests.chaos.small_parts:SlowChat",
        "MEMLINE_EMBEDDER": "tests.chaos.small_parts:SmallEmbedder",
        "MEMLINE_IN_FLIGHT": "4",
        "MEMLINE_BATCH": "8",
    }
    with celery_stack(tmp_path, redis_server, postgres_server, **slow) as stack, stack.memory() as memory:
        # All at once: what one worker needs about twenty seconds for arrives within two, and every lease lasts ten.
        receipts = [memory.add(f"I bought lamp number {number}.", user_id=f"user-{number % SCOPES}") for number in range(TURNS)]
        ledger = Ledger(stack.variables["MEMLINE_LEDGER_URL"])
        # what a batch leaves behind, or sends ahead of its slow calls, is counted at the next stage, and comes beside the limit
        claimed = sa.select(sa.func.count()).select_from(leases).where(leases.c.stage == "extract")
        most_out = 0
        while any(not receipt.refresh().status.ended for receipt in receipts[-SCOPES:]):
            with ledger.read() as connection:
                most_out = max(most_out, connection.execute(claimed).scalar_one())
        assert {receipt.wait(300).status for receipt in receipts} == {Status.SEARCHABLE}
        with ledger.read() as connection:
            counted = read_counters(connection)
            attempts = connection.execute(sa.select(sa.func.sum(jobs.c.attempts))).scalar_one()
        ledger.close()
        assert counted["leases_expired"] == 0
        assert attempts == 0
        assert 0 < most_out <= 4
