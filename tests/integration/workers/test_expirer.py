"""The expirer at work: as a loop of a real worker, with the grace of the settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memline.compose import House
from memline.ledger.counters import read_counters
from memline.settings import load_settings
from tests.integration.path.stacks import PATIENT, celery_stack
from tests.services import PostgresServer, RedisServer

#: Passes without pause, and no grace, so that a test sees a memory go.
SOON = PATIENT | {
    "MEMLINE_PRUNE_EVERY": "0.3",
    "MEMLINE_EXPIRED_GRACE": "0",
    "MEMLINE_EMBEDDER": "tests.chaos.small_parts:SmallEmbedder",
}


def eventually(holds: Callable[[], bool], timeout: float = 300) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_a_worker_expires_and_purges_beside_its_sweep(tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    with celery_stack(tmp_path, redis_server, postgres_server, **SOON) as stack, stack.memory() as memory:
        kept = memory.add("I bought lamp number 7.", user_id="ann", wait=True)["results"][0]["id"]
        gone = memory.add("I parked on deck 3.", user_id="ann", expiration_date=yesterday).wait(300, until="committed").results[0]["id"]
        eventually(lambda: memory.get(gone) is None)
        memory.flush(300)
        assert [row["reason"] for row in memory.history(gone)][-1] == "expired"
        assert [item["id"] for item in memory.get_all(filters={"user_id": "ann"}, show_expired=True)["results"]] == [kept]
        house = House(stack.settings())
        with house.ledger.read() as connection:
            assert read_counters(connection)["memories_purged"] == 1
        house.close(0)


def test_the_settings_name_the_grace_and_it_may_be_none(tmp_path: Path) -> None:
    for days in (0, 12):
        house = House(load_settings(home=tmp_path, expired_grace=days))
        assert house.expirer._grace == days
        house.close(0)
