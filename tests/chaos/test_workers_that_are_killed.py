"""Two of three workers are killed with SIGKILL in the middle of a run: nothing is lost, nothing is doubled, each lane keeps its order."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline import Status
from memline.ledger.schema import entity_links, history, jobs, lanes, leases, memories, messages, outbox
from memline.ledger.session import Ledger
from tests.integration.path.stacks import celery_stack
from tests.services import PostgresServer, RedisServer
from tests.workers import Worker

pytestmark = pytest.mark.chaos

TURNS, SCOPES = 200, 10


def test_two_workers_killed_in_the_middle_of_200_turns_lose_and_double_nothing(
    tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    # longer than another worker may take on a busy machine until it has what the killed one had read: a gap would be passed over then
    patient = {"MEMLINE_ORDER_WAIT": "40", "MEMLINE_MAX_ATTEMPTS": "30"}
    with celery_stack(tmp_path, redis_server, postgres_server, workers=3, **patient) as stack, stack.memory() as memory:
        receipts = []
        for number in range(TURNS):
            receipts.append(memory.add(f"I bought lamp number {number} in Kyoto.", user_id=f"user-{number % SCOPES}"))
            if number == TURNS // 3:
                _wait_until_some_ran(stack.variables["MEMLINE_LEDGER_URL"], 5)
                stack.workers[0].kill()
            if number == 2 * TURNS // 3:
                stack.workers[1].kill()
        with Worker(stack.variables):
            for receipt in receipts:
                assert receipt.wait(300).status is Status.SEARCHABLE
            memory.flush(300)
        _check_ledger(stack.variables["MEMLINE_LEDGER_URL"])
        for scope in range(SCOPES):
            filters = {"user_id": f"user-{scope}"}
            listed = memory.get_all(filters=filters, top_k=1000)["results"]
            assert [item["memory"] for item in listed] == [f"User bought lamp number {n} in Kyoto" for n in range(scope, TURNS, SCOPES)]
            found = memory.search("which lamp was bought in Kyoto?", filters=filters, top_k=1000, threshold=0)["results"]
            assert {item["id"] for item in found} == {item["id"] for item in listed}


def _wait_until_some_ran(url: str, number: int) -> None:
    ledger = Ledger(url)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with ledger.read() as connection:
            if connection.execute(sa.select(sa.func.count()).select_from(memories)).scalar_one() >= number:
                break
        time.sleep(0.05)
    ledger.close()


def _check_ledger(url: str) -> None:
    ledger = Ledger(url)
    with ledger.read() as connection:

        def count(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
            return connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one()

        assert count(jobs) == TURNS
        assert count(jobs, jobs.c.state == "searchable", jobs.c.stage == "done") == TURNS
        assert count(memories) == count(memories, memories.c.state == "live") == TURNS
        assert count(history) == TURNS
        assert count(messages) == TURNS
        assert count(entity_links) >= TURNS  # Kyoto, at least
        assert count(leases) == count(outbox) == 0
        assert count(lanes, lanes.c.lease_id.is_not(None)) == 0
        said = connection.execute(sa.select(messages.c.lane, messages.c.text).order_by(messages.c.lane, messages.c.place)).all()
        for lane in {row.lane for row in said}:
            numbers = [int(row.text.split()[4]) for row in said if row.lane == lane]
            assert numbers == sorted(numbers)
    ledger.close()
