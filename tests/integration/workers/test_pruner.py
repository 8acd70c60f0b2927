"""The pruner at work: as a loop of a real worker and on the engine's thread, with the retentions of the settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline import Memory, Status
from memline.compose import House
from memline.contracts.clock import SystemClock
from memline.contracts.ids import TimeOrderedIds
from memline.errors import UnknownReceipt
from memline.ledger.counters import read_counters
from memline.ledger.schema import jobs
from memline.settings import load_settings
from tests.integration.path.stacks import PATIENT, be_patient, celery_stack, engine_stack
from tests.parts import HandClock
from tests.services import PostgresServer, RedisServer

#: A retention of a second, so that a test sees it pass.
SOON = PATIENT | {
    "MEMLINE_PRUNE_EVERY": "0.3",
    "MEMLINE_KEEP_PAYLOADS": str(1 / 86400),
    "MEMLINE_EMBEDDER": "tests.chaos.small_parts:SmallEmbedder",
}


def eventually(holds: Callable[[], bool], timeout: float = 300) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def stripped(house: House) -> bool:
    with house.ledger.read() as connection:
        return connection.execute(sa.select(jobs.c.messages.is_(sa.null()))).scalars().all() == [True]


def test_a_worker_prunes_beside_its_sweep(tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer) -> None:
    with celery_stack(tmp_path, redis_server, postgres_server, **SOON) as stack, stack.memory() as memory:
        memory.add("I bought lamp number 7.", user_id="ann").wait(300)
        house = House(stack.settings())
        eventually(lambda: stripped(house))
        with house.ledger.read() as connection:
            assert read_counters(connection)["payloads_pruned"] == 1
        house.close(0)
        assert [item["memory"] for item in memory.get_all(filters={"user_id": "ann"})["results"]] == ["User bought lamp number 7"]


def test_the_engine_prunes_on_its_thread(tmp_path: Path) -> None:
    with engine_stack(tmp_path, **SOON) as stack, stack.memory() as memory:
        memory.add("I bought lamp number 7.", user_id="ann").wait(300)
        eventually(lambda: stripped(memory._house))


def test_a_receipt_older_than_the_jobs_that_are_kept_is_unknown_and_not_lost(tmp_path: Path, redis_url: str) -> None:
    settings = load_settings(home=tmp_path, redis_url=redis_url, embedder="tests.chaos.small_parts:SmallEmbedder")
    now = SystemClock().now()
    old, lost = (TimeOrderedIds(HandClock(now - timedelta(days=days))).new() for days in (91, 89))
    with Memory(settings=settings) as memory:
        be_patient(memory)
        with pytest.raises(UnknownReceipt, match="MEMLINE_KEEP_JOBS"):
            memory.receipt(old)
        assert memory.receipt(lost).status is Status.LOST
        with memory._house.ledger.read() as connection:
            assert read_counters(connection)["lost_turns"] == 1


def test_the_settings_name_the_retentions_in_days(tmp_path: Path) -> None:
    house = House(load_settings(home=tmp_path, keep_payloads=1.5, keep_failed=2, key_retention=3, keep_jobs=4))
    try:
        keep = house.pruner._keep
        days = [kept.total_seconds() / 86400 for kept in (keep.payloads, keep.failed, keep.keys, keep.jobs)]
        assert days == [1.5, 2, 3, 4]
    finally:
        house.close(0)
