"""The two ways to run memline, each real: the engine thread on SQLite, and Celery workers on Redis and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memline import Memory
from memline.settings import Settings, load_settings
from tests.services import PostgresServer, RedisServer
from tests.workers import Worker

__all__ = ["PATIENT", "Stack", "be_patient", "celery_stack", "engine_stack"]

#: Short times, so that a test of a killed worker takes seconds.
QUICK = {"MEMLINE_LEASE": "4", "MEMLINE_MODEL_TIMEOUT": "2", "MEMLINE_RESEND": "1", "MEMLINE_ORDER_WAIT": "3"}

#: In their place where nobody dies: a worker or a server that stands still for seconds is slow, not dead.
PATIENT = {"MEMLINE_LEASE": "60", "MEMLINE_MODEL_TIMEOUT": "40", "MEMLINE_ORDER_WAIT": "30"}


@dataclass
class Stack:
    """A running memline: `variables` make any process part of it."""

    name: str
    variables: dict[str, str]
    redis: RedisServer | None = None
    workers: list[Worker] = field(default_factory=list)

    def settings(self, **given: Any) -> Settings:
        fields = {name.removeprefix("MEMLINE_").lower(): value for name, value in self.variables.items()}
        return load_settings(**(fields | given))

    @contextmanager
    def memory(self, namespace: str = "default", **given: Any) -> Iterator[Memory]:
        with Memory(namespace, settings=self.settings(**given)) as memory:
            be_patient(memory)
            yield memory


def be_patient(memory: Memory) -> None:
    """A Redis that stands still for seconds is slow, not away: else turns would go to the spool, and a deletion would be refused."""
    if memory._house.uses_redis:
        stream = memory._house.stream
        stream._socket_timeout = 120.0
        stream.close()  # what it opened has the product's own limit


@contextmanager
def engine_stack(folder: Path, **variables: str) -> Iterator[Stack]:
    """Nothing but a folder."""
    yield Stack("engine", {"MEMLINE_HOME": str(folder), **QUICK, **variables})


@contextmanager
def celery_stack(folder: Path, redis: RedisServer, postgres: PostgresServer, *, workers: int = 1, **variables: str) -> Iterator[Stack]:
    """Redis, a PostgreSQL database, and worker processes."""
    database = postgres.create_database()
    settings = {
        "MEMLINE_HOME": str(folder),
        "MEMLINE_REDIS_URL": redis.url,
        "MEMLINE_REDIS_PREFIX": f"memline-{database}",
        "MEMLINE_LEDGER_URL": postgres.url(database),
        **QUICK,
        **variables,
    }
    started: list[Worker] = []
    try:
        for _ in range(workers):
            started.append(Worker(settings).start())
        yield Stack("celery", settings, redis, started)
    finally:
        for worker in started:
            worker.stop()
        postgres.drop_database(database)
