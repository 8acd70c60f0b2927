"""The package as a user gets it: the wheel built from the sdist, in an empty environment outside the checkout, runs the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ["cli", "workers", "pipeline", "outbox", "search", "producer", "language", "ledger", "contracts"]
SHOWN_BY_LINKS = ["producer", "workers", "pipeline", "outbox", "search", "ledger"]
DATA = [".md", ".json", ".jsonl", ".mako", ".typed", ".txt"]

#: Lets a process reach this machine only, and notes every attempt at another place.
NO_NETWORK = """
import os, socket

def _refuse(place):
    with open(os.environ["TRIED_TO_REACH"], "a") as tried:
        tried.write(f"{place}\\n")
    raise OSError(f"no network in this test: {place}")

_connect, _connect_ex, _resolve = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo
_HERE = ("127.0.0.1", "::1", "localhost", None)

def _is_here(address):
    return not isinstance(address, tuple) or address[0] in _HERE

socket.socket.connect = lambda self, address: _connect(self, address) if _is_here(address) else _refuse(address)
socket.socket.connect_ex = lambda self, address: _connect_ex(self, address) if _is_here(address) else _refuse(address)
socket.getaddrinfo = lambda host, *rest, **named: _resolve(host, *rest, **named) if host in _HERE else _refuse(host)
"""

pytestmark = pytest.mark.acceptance


def run(*command: str | Path, **how: Any) -> str:
    """The standard output of a command that ends with 0; the end of both outputs is shown if it does not."""
    ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **how)
    assert ran.returncode == 0, f"{command} ended with {ran.returncode}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout


def package_files() -> set[str]:
    """Every file of the package in the checkout that belongs in a wheel, as a path from the root."""
    found = (path for path in (ROOT / "memline").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in found if path.suffix in {".py", *DATA}}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    (path,) = built.glob("memline-*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("memline-*-py3-none-any.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that holds the wheel and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=folder)
    return programs


class Demo:
    """The installed `memline demo` in a folder of its own, without network and without a setting but MEMLINE_HOME and time to search."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._memline = programs / "memline"
        self._folder = folder
        self._tried = folder / "tried-to-reach"
        guard = folder / "guard"
        guard.mkdir()
        (guard / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "user"),
            "LANG": "C.UTF-8",
            "COLUMNS": "160",
            "PYTHONPATH": str(guard),
            "MEMLINE_HOME": str(folder / "home"),
            "MEMLINE_SEARCH_DEADLINE": "30",  # a slow machine is no part that is missing
            "TRIED_TO_REACH": str(self._tried),
        }

    def run(self, *options: str) -> str:
        shown = run(self._memline, "demo", "--timeout", "240", *options, cwd=self._folder, env=self._environment, timeout=600)
        assert not self._tried.exists(), f"the demo tried to reach {self._tried.read_text()}"
        return shown


@pytest.fixture
def demo(installed: Path, tmp_path: Path) -> Demo:
    return Demo(installed, tmp_path)


def test_the_wheel_holds_every_file_of_the_package_and_no_link_of_the_root(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
    assert names == package_files()
    assert {name.split("/")[0] for name in names} == {"memline"}
    assert {f"memline/{room}/__init__.py" for room in ROOMS} <= names
    assert {
        "memline/py.typed",
        "memline/cli/demo_data/conversation.jsonl",
        "memline/cli/demo_data/questions.json",
        "memline/ledger/migrations/script.py.mako",
        "memline/ledger/migrations/versions/0001_the_first_schema.py",
    } <= names
    assert len(licences) == 1


def test_the_sdist_holds_the_package_once_and_what_it_is_built_and_tested_with(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    names = {member.name.partition("/")[2] for member in members}
    assert package_files() <= names
    assert not any(member.issym() or member.islnk() for member in members)
    assert not {name.split("/")[0] for name in names} & set(SHOWN_BY_LINKS)
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "tests/conftest.py"} <= names
    assert not [name for name in names if "__pycache__" in name or ".venv" in name]


def test_the_installed_package_stands_alone_and_gives_its_version(installed: Path, tmp_path: Path) -> None:
    code = "import memline, importlib.metadata as m; print(memline.__file__, memline.__version__ == m.version('memline'))"
    where, same = run(installed / "python", "-c", code, cwd=tmp_path).split()
    assert Path(where).is_relative_to(installed.parent)
    assert same == "True"
    run(installed / "python", "-m", "pip", "check", cwd=tmp_path)
    assert run(installed / "memline", "--help", cwd=tmp_path)


def test_the_installed_demo_answers_its_questions_and_a_second_run_adds_nothing(demo: Demo) -> None:
    questions = json.loads((ROOT / "memline/cli/demo_data/questions.json").read_text(encoding="utf-8"))
    first = demo.run("--json")
    told = json.loads(first)
    assert told["added"] > 0
    assert [asked["question"] for asked in told["questions"]] == [question["question"] for question in questions]
    for question, asked in zip(questions, told["questions"], strict=True):
        memories = " ".join(found["memory"] for found in asked["results"])
        for expected in question["expect"]:
            assert expected in memories, question["question"]
    again = json.loads(demo.run("--json"))
    assert again["added"] == 0
    assert again["duplicates"] > 0
    assert _ids(again) == _ids(told)


def test_the_installed_demo_shows_its_answers_to_a_person_and_says_that_a_second_run_added_nothing(demo: Demo) -> None:
    questions = json.loads((ROOT / "memline/cli/demo_data/questions.json").read_text(encoding="utf-8"))
    first = demo.run()
    for question in questions:
        assert question["question"] in first
    assert "INC-48213" in first
    second = demo.run().lower()
    assert "already" in second or "nothing was added" in second or "0 added" in second
    for question in questions:
        assert question["question"].lower() in second


def _ids(told: dict[str, Any]) -> list[list[str]]:
    return [[found["id"] for found in asked["results"]] for asked in told["questions"]]
