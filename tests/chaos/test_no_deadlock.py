"""Everybody who writes to a ledger in PostgreSQL locks in one order: however they meet, none is rolled back for another's sake."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline import Memory
from memline.errors import DuplicateMemory, MemlineError, MemoryNotFound, VersionConflict
from memline.ledger.session import Ledger
from memline.outbox.verify import verify
from tests.integration.path.stacks import PATIENT, Stack, celery_stack
from tests.services import PostgresServer, RedisServer

pytestmark = pytest.mark.chaos

#: Seconds that they write; without the one order there was a deadlock about every six seconds.
WRITE_FOR = 20.0
CALLERS = 5
SAID = ("I live in Porto.", "I moved to Lisbon.", "I like tea with Anna.", "Bob met Anna in Oslo.", "My phone has the number 4417.")
NAMESPACES = ("default", "other")
CALLS = (*["add"] * 8, "delete", "update", "delete_all", "delete_all of a run", "reset")


def call(memory: Memory, chance: random.Random) -> None:
    """One call of an application, of one of few users, so that they meet."""
    user, what = f"user-{chance.randrange(3)}", chance.choice(CALLS)
    if what == "add":
        memory.add(chance.choice(SAID), user_id=user, run_id=chance.choice([None, "run"]), infer=chance.choice([True, False]))
    elif what == "delete_all":
        memory.delete_all(user_id=user)
    elif what == "delete_all of a run":
        memory.delete_all(run_id="run")
    elif what == "reset":
        memory.reset(confirm=memory.namespace)
    elif found := memory.get_all(filters={"user_id": user})["results"]:
        memory_id = chance.choice(found)["id"]
        try:
            if what == "delete":
                memory.delete(memory_id)
            else:
                memory.update(memory_id, chance.choice(SAID))
        except (MemoryNotFound, VersionConflict, DuplicateMemory):
            pass  # other callers were faster, or another memory says so


def keep_calling(stack: Stack, number: int, until: float, wrong: list[MemlineError]) -> None:
    """Calls until it is over, or until one failed."""
    chance = random.Random(number)
    with stack.memory() as memory:
        try:
            while time.monotonic() < until and not wrong:
                call(memory.in_namespace(chance.choice(NAMESPACES)), chance)
        except MemlineError as error:
            wrong.append(error)


def test_no_two_writers_wait_for_each_other(tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer) -> None:
    wrong: list[MemlineError] = []
    with celery_stack(tmp_path, redis_server, postgres_server, workers=2, **PATIENT) as stack:
        until = time.monotonic() + WRITE_FOR
        callers = [threading.Thread(target=keep_calling, args=(stack, number, until, wrong)) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(WRITE_FOR + 240)
        assert not any(caller.is_alive() for caller in callers) and wrong == []
        with stack.memory() as memory:
            for namespace in NAMESPACES:
                memory.in_namespace(namespace).flush(300)
            assert verify(memory._house.ledger, memory._house.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}
        ledger = Ledger(stack.variables["MEMLINE_LEDGER_URL"])
        with ledger.read() as connection:
            query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            assert connection.execute(sa.text(query)).scalar_one() == 0
        ledger.close()
