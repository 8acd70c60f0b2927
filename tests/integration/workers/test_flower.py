"""Flower against a worker that really runs: the chains by stage, ids, and nothing that anybody said."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memline import Status
from memline.ledger.jobs import STAGES
from memline.workers.celery_app import jobs_told, task_name
from tests.integration.path.stacks import celery_stack
from tests.services import PostgresServer, RedisServer, free_port

pytestmark = pytest.mark.services

SAID = "I bought a zanzibar-coloured lamp in Kyoto."

#: On a busy machine a batch that waits, or a worker that is slow, is not lost: each chain is sent once.
PATIENT = {"MEMLINE_LEASE": "600", "MEMLINE_MODEL_TIMEOUT": "300", "MEMLINE_RESEND": "300"}


@contextmanager
def flower(variables: dict[str, str], port: int) -> Iterator[subprocess.Popen[str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_", "FLOWER_"))}
    command = [sys.executable, "-m", "memline", "flower", "--port", str(port)]
    process = subprocess.Popen(command, env=kept | variables, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        told = ""
        while "flower: http://" not in told:
            line = process.stderr.readline()
            assert line, told
            told += line
        process.told = told  # type: ignore[attr-defined]
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def fetch(port: int, path: str, password: str | None) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if password is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"memline:{password}".encode()).decode())
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: str = answer.read().decode()
        return found


def listens(port: int, password: str) -> None:
    """Waits until Flower has heard of a worker: what happened before it listens it never learns."""
    deadline = time.monotonic() + 300
    while not json.loads(fetch(port, "/workers?json=1", password))["data"]:
        assert time.monotonic() < deadline, "Flower hears of no worker"
        time.sleep(0.1)


def chains(port: int, password: str, jobs: Sequence[str]) -> dict[str, Any]:
    """The tasks, once every chain of *jobs* has gone through all six stages; what there is after a while where one has not."""
    deadline = time.monotonic() + 300
    while True:
        found: dict[str, Any] = json.loads(fetch(port, "/api/tasks", password))
        ran = [task for task in found.values() if task["state"] == "SUCCESS"]
        through = Counter(task["root_id"] for task in ran)
        begun = all(any(job in (task["kwargs"] or "") for task in ran) for job in jobs)
        if (begun and through and min(through.values()) >= len(STAGES)) or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def test_flower_shows_the_six_stages_with_ids_and_nothing_that_was_said(
    tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    variables = {"MEMLINE_FLOWER_PASSWORD": "open sesame", **PATIENT}
    with celery_stack(tmp_path, redis_server, postgres_server, **variables) as stack, stack.memory() as memory:
        port = free_port()
        with flower(stack.variables, port) as process:
            for wrong in (None, "sesame"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    fetch(port, "/api/tasks", wrong)
                assert refused.value.code == 401
                refused.value.close()
            listens(port, "open sesame")
            receipts = [memory.add(SAID, user_id=f"user-{number}", idempotency_key=f"key-{number}") for number in range(3)]
            for receipt in receipts:
                assert receipt.wait(300).status is Status.SEARCHABLE
            ids = [receipt.id for receipt in receipts]
            found = chains(port, "open sesame", ids)
            ran = [task for task in found.values() if task["state"] == "SUCCESS"]
            assert {task["name"] for task in ran} == {task_name(stage) for stage in STAGES}
            assert set(Counter(task["root_id"] for task in ran).values()) == {len(STAGES)}  # a chain hangs together
            assert all(task["args"].startswith("batch ") for task in ran)
            shown = " ".join(task["kwargs"] for task in ran)
            assert all(receipt.id in shown for receipt in receipts)
            assert {task["result"].split(" with ")[0] for task in ran} == {"'ended here'", *(f"'on to {stage}" for stage in STAGES[1:])}
            pages = [fetch(port, path, "open sesame") for path in ("/tasks", "/workers", "/broker", "/metrics", "/api/tasks")]
            pages += [fetch(port, f"/task/{task_id}", "open sesame") for task_id in found]
            assert all(word not in page for page in pages for word in ("zanzibar", "Kyoto", "key-1"))
            assert "memline.persist" in pages[3]
            process.send_signal(signal.SIGTERM)
            assert process.wait(300) == 0
        with flower(stack.variables, port):  # and it still knows after a restart
            assert set(found) <= set(chains(port, "open sesame", ids))


def test_without_a_password_one_is_drawn_and_told(tmp_path: Path, redis_server: RedisServer) -> None:
    port = free_port()
    with flower({"MEMLINE_HOME": str(tmp_path), "MEMLINE_REDIS_URL": redis_server.url}, port) as process:
        told: str = process.told  # type: ignore[attr-defined]
        (line,) = (line for line in told.splitlines() if "password is" in line)
        assert fetch(port, "/api/tasks", line.rpartition(" ")[2]) == "{}"
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch(port, "/api/tasks", None)
        refused.value.close()


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path, redis_server: RedisServer) -> None:
    taken = redis_server.url.rpartition(":")[2].partition("/")[0]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_", "FLOWER_"))}
    variables = {"MEMLINE_HOME": str(tmp_path), "MEMLINE_REDIS_URL": redis_server.url, "MEMLINE_FLOWER_PASSWORD": "a"}
    command = [sys.executable, "-m", "memline", "flower", "--port", taken]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: Flower can't listen at 127.0.0.1:{taken} (") and "--port" in line


def test_celery_finds_the_app_by_the_settings(tmp_path: Path, redis_server: RedisServer) -> None:
    variables = {"MEMLINE_HOME": str(tmp_path), "MEMLINE_REDIS_URL": redis_server.url}
    command = [sys.executable, "-m", "celery", "--app", "memline.celery", "report"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    assert "memline.extract" in done.stdout


def test_jobs_are_told_by_number_and_the_first_ids() -> None:
    assert jobs_told(("a",)) == "1 job: a"
    assert jobs_told(("a", "b", "c", "d", "e")) == "5 jobs: a, b, c and 2 more"
    assert jobs_told(()) == "a batch sent again"
