"""Redis away: the caller is not held up, the turn lies in the spool, and arrives when Redis is back."""

from __future__ import annotations

from pathlib import Path

from memline import Status
from tests.integration.path.stacks import PATIENT, celery_stack
from tests.services import PostgresServer, RedisServer


def test_what_was_spooled_while_redis_was_away_arrives_in_order_when_it_is_back(tmp_path: Path, postgres_server: PostgresServer) -> None:
    with (
        RedisServer() as redis,
        celery_stack(tmp_path, redis, postgres_server, **PATIENT) as stack,
        stack.memory() as memory,
    ):
        before = memory.add("I bought lamp number 0.", user_id="mei").wait(300)
        redis.kill()
        receipts = [memory.add(f"I bought lamp number {number}.", user_id="mei") for number in range(1, 6)]
        assert {receipt.seen.status for receipt in receipts} == {Status.SPOOLED}
        assert receipts[0].status is Status.SPOOLED
        assert memory.get(before.results[0]["id"]) is not None  # reads do not need Redis
        redis.restart()
        for receipt in receipts:
            receipt.wait(300)
        listed = [item["memory"] for item in memory.get_all(filters={"user_id": "mei"})["results"]]
        assert listed == [f"User bought lamp number {number}" for number in range(6)]
