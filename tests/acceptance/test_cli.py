"""The program as a person and a program use it: real processes, real models, real servers."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from memline.cli import demo_run
from tests.acceptance.program import Program, widest
from tests.patience import patient_url

pytestmark = pytest.mark.acceptance

TURNS = demo_run.conversation()[:12]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Twelve turns of the demo's conversation, with keys of their own on every second line only."""
    path = tmp_path / "turns.jsonl"
    with path.open("w", encoding="utf-8") as lines:
        for number, turn in enumerate(TURNS):
            left_out = {"session", "key"} if number % 2 else {"session"}
            lines.write(json.dumps({key: value for key, value in turn.items() if key not in left_out}, ensure_ascii=False) + "\n")
    return path


def until(true: Callable[[], bool], seconds: float = 240) -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.1)


def workers_in(program: Program) -> str:
    """What the doctor says of the workers, however it ends."""
    with program.start("doctor", "--json") as asking:
        told, _ = asking.communicate(timeout=480)
    return {part["part"]: str(part["state"]) for part in json.loads(told)["parts"]}["workers"]


def patient(program: Program, redis_url: str) -> Program:
    """The same for a command that asks Redis itself, and waits for it: a slow machine is no Redis that is away."""
    return Program(program.home, redis_url=patient_url(redis_url))


def line_of(stream: Iterator[str], part: str) -> str:
    """The first line that holds *part*."""
    return next(line for line in stream if part in line)


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """How a process ends after a signal: its code, and the rest of what it wrote."""
    process.send_signal(number)
    try:
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    return process.returncode, out, err


def has_jobs(ledger: Path) -> bool:
    """Whether a turn was accepted; looked up here, since a program that starts to look may be slower than all of an import."""
    try:
        with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM jobs LIMIT 1").fetchone() is not None
    except sqlite3.OperationalError:  # it is not made yet
        return False


def test_importing_a_file_twice_changes_nothing(program: Program, file: Path) -> None:
    first = program.json("import", file)
    assert (first["new"], first["known"]) == (12, 0) and first["memories"] > 10
    memories = program.json("list", "-u", "mei", "-k", "200")
    again = program.json("import", file)
    assert (again["new"], again["known"], again["memories"]) == (0, 12, 0)
    assert program.json("list", "-u", "mei", "-k", "200") == memories
    assert program.json("search", "When is my last day at Contoso?", "-u", "mei")["results"]


def test_screens_fit_80_columns_in_a_pipe(program: Program, file: Path) -> None:
    program.run("import", file)
    memory_id = program.json("list", "-u", "mei")["results"][0]["id"]
    job_id = program.json("jobs")["jobs"][0]["id"]
    for command in (
        ["doctor"],
        ["search", "last day at Contoso", "-u", "mei", "--explain"],
        ["list", "-u", "mei"],
        ["get", memory_id],
        ["history", memory_id],
        ["why", memory_id],
        ["jobs"],
        ["jobs", "show", job_id],
        ["receipt", job_id],
        ["add", "I am allergic to walnuts.", "-u", "mei"],
        ["--help"],
        ["import", "--help"],
    ):
        shown = program.run(*command)
        assert widest(shown.stdout) <= 80, command
        assert "\x1b" not in shown.stdout, command


def test_exit_codes(program: Program) -> None:
    assert "allergic" not in program.run("add", "I am allergic to walnuts.", exit_code=1).stderr
    program.run("add", exit_code=2)
    program.run("get", "nope", exit_code=3)
    refused = Program(program.home, embedder="no.such:thing").run("doctor", exit_code=4)
    assert "MEMLINE_EMBEDDER" in refused.stdout


def test_another_embedder_is_refused_with_both_models(program: Program) -> None:
    program.run("add", "I am allergic to walnuts.", "-u", "mei")
    other = Program(program.home, openai_api_key="any", openai_base_url="http://127.0.0.1:1/v1")
    refused = other.run("search", "walnuts", "-u", "mei", exit_code=1).stderr
    assert "text-embedding-3-small (1536 dimensions)" in refused and "(512 dimensions)" in refused
    assert "text-embedding-3-small" in other.run("doctor", exit_code=4).stdout


def test_an_interrupted_import_goes_on_where_it_was(program: Program, tmp_path: Path) -> None:
    # so many that it can not be over before it is interrupted
    path = tmp_path / "long.jsonl"
    said = [{"content": f"My locker code is {number}.", "user_id": f"user-{number % 20}"} for number in range(2000)]
    path.write_text("".join(json.dumps(turn) + "\n" for turn in said), encoding="utf-8")
    importing = program.start("import", path, "--no-infer")
    deadline = time.monotonic() + 240
    while not has_jobs(program.home / "ledger.db") and time.monotonic() < deadline:
        time.sleep(0.02)
    code, _, told = end(importing, signal.SIGINT)
    assert code == 130
    assert "Run the same command again" in told and "Traceback" not in told
    again = program.json("import", path, "--no-infer", "--no-wait")
    assert again["turns"] == 2000 and again["known"] > 0
    assert again["known"] + again["new"] + again["on_the_way"] == 2000


def test_a_pipe_that_closes_early_is_no_traceback(program: Program) -> None:
    program.run("add", "I am allergic to walnuts.", "-u", "mei")
    with program.start("list", "-u", "mei") as listing:
        assert listing.stdout is not None and listing.stderr is not None
        listing.stdout.close()
        listing.wait(timeout=240)
        assert "Traceback" not in listing.stderr.read()


def test_the_simulator_says_how_to_reach_it_and_stops_at_ctrl_c(program: Program) -> None:
    serving = program.start("sim", "--port", "0")
    assert serving.stdout is not None
    url = line_of(iter(serving.stdout), "answers at").split()[-1]
    assert line_of(iter(serving.stdout), "MEMLINE_OPENAI_BASE_URL").strip() == f"export MEMLINE_OPENAI_BASE_URL={url}"
    with urllib.request.urlopen(f"{url}/models", timeout=60) as answer:
        assert json.load(answer)["data"]
    code, _, told = end(serving, signal.SIGINT)
    assert code == 0
    assert "/v1/models 1" in told


def test_facts_come_from_the_simulator_where_the_settings_name_it(tmp_path: Path) -> None:
    serving = Program(tmp_path / "home").start("sim", "--port", "0")
    assert serving.stdout is not None
    url = line_of(iter(serving.stdout), "answers at").split()[-1]
    try:
        program = Program(tmp_path / "model", openai_api_key="any", openai_base_url=url)
        assert program.json("add", "I am allergic to walnuts.", "-u", "mei")["results"]
        assert "not asked" in program.run("doctor").stdout
    finally:
        end(serving, signal.SIGINT)


@pytest.mark.services
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_takes_what_goes_through_redis_until_it_is_told_to_stop(tmp_path: Path, file: Path, redis_url: str, pool: str) -> None:
    program = Program(tmp_path / "home", redis_url=redis_url, stop_within="110")
    handed = patient(program, redis_url).json("add", "I am allergic to walnuts.", "-u", "ann", "--no-wait")
    assert handed["status"] == "queued"
    working = program.start("worker", "--pool", pool, "--concurrency", "2")
    try:
        assert working.stderr is not None
        up = line_of(iter(working.stderr), "worker: accept")
        assert "accept, relay, sweep, stages extract,embed,dedup,persist,link,save" in up and str(working.pid) in up
        found = patient(program, redis_url).json("import", file)
        assert (found["new"], found["known"]) == (12, 0)
        again = patient(program, redis_url).json("import", file)
        assert (again["new"], again["known"]) == (0, 12)
        until(lambda: patient(program, redis_url).json("receipt", handed["id"])["status"] == "searchable")
        until(lambda: workers_in(program) == "ok")
    finally:
        code, out, err = end(working, signal.SIGTERM)
    assert code == 0
    assert "stopped" in err and "Traceback" not in err
    assert "walnuts" not in out + err


@pytest.mark.services
def test_a_worker_without_stages_accepts_and_stops(tmp_path: Path, redis_url: str) -> None:
    program = Program(tmp_path / "home", redis_url=redis_url, stop_within="110")
    handed = patient(program, redis_url).json("add", "I am allergic to walnuts.", "-u", "ann", "--no-wait")
    working = program.start("worker", "--stages", "none", "--no-relay", "--no-sweep")
    try:
        assert working.stderr is not None
        assert "accept, stages none" in line_of(iter(working.stderr), "worker: accept")
        until(lambda: patient(program, redis_url).json("receipt", handed["id"])["status"] != "queued")
        assert patient(program, redis_url).json("receipt", handed["id"])["status"] == "accepted"
    finally:
        code, _, err = end(working, signal.SIGTERM)
    assert code == 0 and "Traceback" not in err


def test_the_demo_data_ships_with_the_package() -> None:
    folder = resources.files("memline.cli") / "demo_data"
    assert {entry.name for entry in folder.iterdir()} >= {"conversation.jsonl", "questions.json"}
    assert os.fspath(Path(str(folder))).endswith("demo_data")
