"""The program's frame: version, help, exit codes, global options, and what each command says to bad usage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memline as package
from memline.cli.app import app
from memline.cli.worker import parse_stages
from memline.contracts.errors import EvictingRedis, MemoryNotFound
from memline.ledger.jobs import STAGES, Stage
from tests.unit.cli.program import memline, memline_json

COMMANDS = [
    "demo",
    "doctor",
    "add",
    "search",
    "get",
    "list",
    "history",
    "delete",
    "import",
    "receipt",
    "jobs",
    "worker",
    "spool",
    "migrate",
    "sim",
]

pytestmark = pytest.mark.usefixtures("memline_home")


def test_help_names_every_command() -> None:
    shown = memline("--help").stdout
    for command in COMMANDS:
        assert f" {command} " in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_of_its_own(command: str) -> None:
    assert "Usage: memline" in memline(command, "--help").stdout


def test_the_version_is_the_packages() -> None:
    assert memline("--version").stdout.strip() == f"memline {package.__version__}"


#: Runs the module as the program, then says which heavy packages that has loaded.
GLANCE = """
import runpy, sys
heavy = ("sqlalchemy", "numpy", "pydantic_settings", "spacy", "celery", "redis")
try:
    runpy.run_module("memline", run_name="__main__")
finally:
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_module_runs_as_the_program_and_a_glance_loads_no_heavy_part(option: str) -> None:
    ran = subprocess.run([sys.executable, "-c", GLANCE, option], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert "memline" in ran.stdout
    assert ran.stderr.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["search"],
        ["search", "x", "--no-such-option"],
        ["search", "x", "--top-k", "many"],
        ["search", "x", "--filter", "{kind"],
        ["search", "x", "--filter", '["a"]'],
        ["search", "x", "--user-id", "mei", "--filter", '{"user_id": "ann"}'],
        ["add", "x", "--user-id", "mei", "--metadata", "kind=note"],
        ["jobs", "--state", "gone"],
        ["worker", "--stages", "extract,dream"],
        ["worker", "--stages", ""],
        ["worker", "--no-accept", "--no-relay", "--no-sweep", "--stages", "none"],
    ],
)
def test_wrong_usage_ends_with_2_and_says_so_on_stderr(arguments: list[str]) -> None:
    result = memline(*arguments, exit_code=2)
    assert result.stdout == ""
    assert "memline" in result.stderr


def test_an_error_of_memline_is_one_line_on_stderr_and_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_LEASE", "soon")
    result = memline("jobs", exit_code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: Settings are wrong. MEMLINE_LEASE:")
    assert len(result.stderr.splitlines()) == 1


def test_what_is_not_there_ends_with_3() -> None:
    assert "No job nope is in namespace default" in memline("jobs", "show", "nope", exit_code=3).stderr
    assert "nope" in memline("jobs", "retry", "nope", exit_code=3).stderr


@pytest.mark.parametrize(
    ("raised", "exit_code", "told"),
    [
        (MemoryNotFound("m1"), 3, "Error: Memory with id m1"),
        (EvictingRedis(), 1, "Error: This Redis may evict"),
        (KeyboardInterrupt(), 130, "Stopped: Interrupted."),
        (KeyboardInterrupt("3 turns were handed over."), 130, "Stopped: 3 turns were handed over."),
    ],
)
def test_what_a_command_raises_decides_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException, exit_code: int, told: str
) -> None:
    def fail(_options: object) -> Any:
        raise raised

    monkeypatch.setattr("memline.cli.jobs.open_house", fail)
    result = memline("jobs", exit_code=exit_code)
    assert result.stdout == "" and result.stderr.startswith(told)


def test_the_home_option_goes_before_the_environment(tmp_path: Path) -> None:
    found = memline_json("--home", str(tmp_path / "elsewhere"), "migrate")
    assert found["ledger"].endswith("elsewhere/ledger.db")
    assert (tmp_path / "elsewhere" / "ledger.db").exists()


def test_a_namespace_that_is_none_is_refused() -> None:
    assert "namespace" in memline("--namespace", "a b", "jobs", exit_code=1).stderr


def test_migrate_fills_an_empty_ledger_once() -> None:
    first, second = memline_json("migrate"), memline_json("migrate")
    assert first["before"] is None
    assert second["before"] == second["after"] == first["after"]
    assert "nothing to do" in memline("migrate").stdout


def test_no_job_is_said_on_stderr_and_is_an_empty_list_for_programs() -> None:
    assert memline_json("jobs") == {"jobs": []}
    assert memline_json("jobs", "list") == {"jobs": []}
    result = memline("jobs", "--state", "failed")
    assert result.stdout == "" and "No job is failed" in result.stderr


def test_a_worker_needs_redis() -> None:
    assert "MEMLINE_REDIS_URL" in memline("worker", exit_code=1).stderr


@pytest.mark.parametrize(
    ("listed", "stages"),
    [("all", STAGES), ("none", ()), ("link, Extract", (Stage.EXTRACT, Stage.LINK)), ("save,save", (Stage.SAVE,))],
)
def test_stages_are_named_in_any_order(listed: str, stages: tuple[Stage, ...]) -> None:
    assert parse_stages(listed) == stages


def test_every_command_that_a_program_reads_takes_json() -> None:
    for command in set(COMMANDS) - {"jobs", "worker", "spool", "sim"}:
        assert "--json" in memline(command, "--help").stdout, command
    for group, command in [("jobs", "list"), ("jobs", "show"), ("jobs", "retry"), ("spool", "status"), ("spool", "send")]:
        assert "--json" in memline(group, command, "--help").stdout, command


def test_the_program_is_what_the_package_installs() -> None:
    assert callable(app)
    assert "memline.cli:main" in (Path(package.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
