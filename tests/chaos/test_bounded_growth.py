"""Thousands of turns leave nothing behind that grows: not in Redis, not in the outbox, not in the ledger's tables of work.

`make test` runs a short version; with `MEMLINE_CHAOS_FULL=1` (`make chaos`) it is 5,000 turns.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa

from memline import Memory
from memline.compose import House
from memline.ledger.schema import idempotency_keys, jobs, leases, memories, messages, outbox, owners, postings, stage_results
from memline.outbox.verify import verify
from memline.settings import Settings
from tests.integration.path.stacks import celery_stack
from tests.services import PostgresServer, RedisServer

pytestmark = pytest.mark.chaos

FIRST, LAST = (1000, 5000) if os.environ.get("MEMLINE_CHAOS_FULL") else (200, 1000)
SCOPES = 50

_STAGES = ("extract", "embed", "dedup", "persist", "link", "save")
#: What Celery's transport keeps in Redis while workers live, each with how many members it has for one worker: the queues' bindings,
#: the mailbox of `celery inspect`, and when the latter is forgotten after the last worker.
CELERY = {
    **{f"_kombu.binding.memline.{stage}": 1 for stage in _STAGES},
    **{f"_kombu.binding_permanent.memline.{stage}": 1 for stage in _STAGES},
    "_kombu.binding.celery.pidbox": 1,
    "_kombu.binding_deadlines": 1,
}
EXPECTED = {"turns": 0} | {f"celery:{name}": size for name, size in CELERY.items()}
#: Messages on their way, for a moment (a message to be delivered again is asked for about each 10 s).
PASSING = {"unacked", "unacked_index", "unacked_mutex"}

VARIABLES = {
    "MEMLINE_EMBEDDER": "tests.chaos.small_parts:SmallEmbedder",
    "MEMLINE_LEASE": "60",
    "MEMLINE_MODEL_TIMEOUT": "45",
    "MEMLINE_RESEND": "5",
    "MEMLINE_ORDER_WAIT": "30",
    "MEMLINE_PRUNE_EVERY": "0.5",
}


@pytest.mark.usefixtures("redis_url")  # nothing of another test is in Redis
def test_thousands_of_turns_leave_nothing_that_grows(tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer) -> None:
    with celery_stack(tmp_path, redis_server, postgres_server, **VARIABLES) as stack, stack.memory() as memory:
        prefix = stack.variables["MEMLINE_REDIS_PREFIX"]
        with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
            _hand_over(memory, 0, FIRST)
            early = _look(client, prefix)
            _hand_over(memory, FIRST, LAST)
            late = _look(client, prefix)
            assert late == early == EXPECTED
            told = client.xinfo_stream(f"{prefix}:turns")
            assert (told["length"], told["radix-tree-keys"], client.xpending(f"{prefix}:turns", "accept")["pending"]) == (0, 0, 0)
            assert {ours for ours in client.scan_iter() if not ours.startswith(prefix)} == set()
        assert list((tmp_path / "spool").glob("**/*.spool")) == []
        _check_ledger(stack.settings())
        _check_pruned(stack.settings(keep_payloads=1 / 86400))


def _hand_over(memory: Memory, first: int, last: int) -> None:
    for number in range(first, last):
        text = f"I bought lamp number {number} in Kyoto." if number % 4 else "Thank you!"
        memory.add(text, user_id=f"user-{number % SCOPES}", idempotency_key=f"turn-{number}")
        if number % 100 == 0:
            memory.add(text, user_id=f"user-{number % SCOPES}", idempotency_key=f"turn-{number}")
    memory.flush(300)


def _look(client: redis.Redis, prefix: str) -> dict[str, int]:
    """Every key without a TTL, and how many members it has, once nothing is on its way; what there is after a while where more stays."""
    deadline = time.monotonic() + 240
    while client.hlen(f"{prefix}:celery:unacked") or (found := _keys(client, prefix)) != EXPECTED:
        if time.monotonic() > deadline:
            assert not client.hlen(f"{prefix}:celery:unacked"), "a Celery message is never acknowledged"
            return found
        time.sleep(0.05)
    return found


def _keys(client: redis.Redis, prefix: str) -> dict[str, int]:
    found: dict[str, int] = {}
    sizes = {"set": client.scard, "list": client.llen, "zset": client.zcard, "hash": client.hlen, "stream": client.xlen}
    for key in client.scan_iter(f"{prefix}:*"):
        name = key.removeprefix(f"{prefix}:")
        if client.ttl(key) == -1 and name.removeprefix("celery:") not in PASSING and (kind := client.type(key)) != "none":  # gone meanwhile
            found[name] = sizes[kind](key)
    return found


def _check_ledger(settings: Settings) -> None:
    house = House(settings)
    with house.ledger.read() as connection:

        def count(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
            return connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one()

        facts = sum(1 for number in range(LAST) if number % 4)
        assert count(jobs) == count(jobs, jobs.c.state == "searchable", jobs.c.stage == "done") == LAST
        assert count(memories) == count(memories, memories.c.state == "live") == facts
        assert (count(outbox), count(leases)) == (0, 0)
        assert count(idempotency_keys) == LAST
        live, length = connection.execute(sa.select(sa.func.sum(owners.c.live), sa.func.sum(owners.c.length))).one()
        terms = connection.execute(sa.select(sa.func.sum(postings.c.tf)).where(postings.c.live)).scalar_one()
        assert (live, length) == (facts, terms)
    report = verify(house.ledger, house.index)
    assert report.sound, report.to_json()
    assert report.lag == 0
    house.close(0)


def _check_pruned(settings: Settings) -> None:
    """After its time each payload is gone, and what memories name is still there."""
    time.sleep(1.1)
    house = House(settings)
    house.pruner._budget = 300  # of a slow machine: one turn is to do all of it
    house.pruner.run_from(0)
    with house.ledger.read() as connection:

        def count(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
            return connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one()

        assert count(jobs, jobs.c.messages.is_not(sa.null())) == count(stage_results) == 0
        assert count(jobs) == LAST
        named = sa.exists().where(memories.c.job_id == messages.c.job_id)
        assert count(messages, named) == sum(1 for number in range(LAST) if number % 4)
        in_window = LAST // SCOPES <= 50
        assert (count(messages, ~named) == sum(1 for number in range(LAST) if number % 4 == 0)) is in_window
    report = verify(house.ledger, house.index)
    assert report.sound, report.to_json()
    house.close(0)
