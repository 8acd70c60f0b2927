"""`make stack`: the services of docker-compose.yml as processes of this machine, used, and ended with nothing left behind."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memline import Memory, Status
from memline.ledger.jobs import STAGES
from memline.settings import load_settings
from ops.stack.compose import read_env_file
from tests.patience import patient_clients

pytestmark = [pytest.mark.acceptance, pytest.mark.services]

ROOT = Path(__file__).parents[2]

#: What is left out to be quick, or is tested elsewhere; the index is then the embedded one.
WITHOUT = ["weaviate", "grafana", "prometheus"]


class Stack:
    """A stack in a folder of its own, on free ports."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.env_file = state / "secrets.env"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_", "FLOWER_"))}
        command = [sys.executable, "-m", "ops.stack", "--state", state, "--env-file", self.env_file, "--free-ports"]
        command += [word for name in WITHOUT for word in ("--without", name)]
        self.process = subprocess.Popen(command, cwd=ROOT, env=kept, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.told = ""
        while "ready:" not in self.told:
            line = self.process.stderr.readline()
            assert line, self.told + "".join(path.read_text()[-1500:] for path in state.glob("log/*.log"))
            self.told += line

    def where(self, service: str) -> str:
        (found,) = re.findall(rf"│ {service} +│ \d+ +│ (?:counts at )?(\S+)", self.told)
        return str(found)

    def pids(self) -> dict[int, str]:
        """Every process that the stack started, and every one that those did, with when it began."""
        found: dict[int, str] = {}
        new = {self.process.pid}
        while new:
            new = {child for pid in new for child in children(pid)} - set(found)
            found |= {pid: began for pid in new if (began := born(pid)) is not None}
            new &= set(found)
        return found

    def end(self) -> str:
        """SIGTERM; what it said at its end. Done already, it does nothing."""
        assert self.process.stderr is not None
        if self.process.returncode is not None:
            return ""
        self.process.send_signal(signal.SIGTERM)
        said = self.process.stderr.read()
        self.process.wait(240)
        self.process.stderr.close()
        return said


def children(pid: int) -> set[int]:
    try:
        return {int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()}
    except (FileNotFoundError, ProcessLookupError):
        return set()


def born(pid: int) -> str | None:
    """When a living process began; with it an id is one process's, which another may have later. None where there is none."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if words[0] in "ZX" else words[19]


def words_of(pid: int) -> list[str]:
    """The command line of a process; none where it has ended, as a PostgreSQL's backend may at any moment."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


@pytest.fixture
def stack() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="memline-stack-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL runs as nobody where the tests run as root
        found = Stack(Path(folder))
        yield found
        found.end()


def fetch(url: str, password: str | None = None) -> str:
    request = urllib.request.Request(url)
    if password is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"memline:{password}".encode()).decode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: str = answer.read().decode()
        return found


def until_shown(stack: Stack, password: str, more: Callable[[], object]) -> set[str]:
    """The names of the tasks that Flower has seen through. It serves its pages before it listens to the workers, and what was over by then
    it never sees: now and then there is *more*."""
    deadline = time.monotonic() + 240
    again = time.monotonic() + 15
    while True:
        tasks = json.loads(fetch(f"{stack.where('flower')}/api/tasks", password)).values()
        names = {task["name"] for task in tasks if task["state"] == "SUCCESS"}
        if len(names) == len(STAGES) or time.monotonic() > deadline:
            return names
        if time.monotonic() > again:
            more()
            again = time.monotonic() + 15
        time.sleep(0.2)


def test_the_stack_runs_turns_is_seen_and_ends_with_nothing_left(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    patient_clients(monkeypatch)
    # an application, with the settings that the stack wrote down
    given = {name.removeprefix("MEMLINE_").lower(): value for name, value in read_env_file(stack.state / "env").items() if value}
    assert (stack.state / "env").stat().st_mode & 0o777 == 0o600
    with Memory(settings=load_settings(_env_file=None, **given)) as memory:
        receipts = [memory.add(f"I bought lamp number {number} in Kyoto.", user_id="ann") for number in range(5)]
        assert [receipt.wait(240).status for receipt in receipts] == [Status.SEARCHABLE] * 5
        found = memory.search("which lamp from Kyoto?", filters={"user_id": "ann"}, threshold=0)["results"]
        assert {item["memory"] for item in found} == {f"User bought lamp number {number} in Kyoto" for number in range(5)}

        # each stage was run by the one service that serves it, seen in Flower and in the counts
        password = read_env_file(stack.env_file)["MEMLINE_FLOWER_PASSWORD"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch(f"{stack.where('flower')}/api/tasks")
        assert refused.value.code == 401
        refused.value.close()
        shown = until_shown(stack, password, lambda: memory.add("I bought a vase in Kyoto.", user_id="bob").wait(240))
        assert shown == {f"memline.{stage}" for stage in STAGES}
    page = fetch(stack.where("metrics"))
    deadline = time.monotonic() + 240
    while not re.search(r"^memline_up\{.*\} 1", page, flags=re.MULTILINE):  # a part that is slow is away to one page
        assert time.monotonic() < deadline, page
        page = fetch(stack.where("metrics"))
    counts = {name: fetch(stack.where(name)) for name in ("worker-extract", "worker-nlp", "worker-io", "accept", "relay", "beat")}
    assert all("memline_" in counted for counted in counts.values())
    assert "Kyoto" not in page + "".join(counts.values()) + "".join(path.read_text() for path in stack.state.glob("log/*.log"))

    # one of them dies, and is started again
    before = stack.pids()
    assert len(before) >= 10
    victim = next(pid for pid in before if "--relay" in (words := words_of(pid)) and "none" in words)
    os.kill(victim, signal.SIGKILL)
    assert stack.process.stderr is not None
    assert "relay ended with -9 and was started again" in stack.process.stderr.readline()

    pids = stack.pids() | before
    said = stack.end()
    assert stack.process.returncode == 0
    assert "ended: nothing runs any more" in said
    assert "was killed" not in said  # each ended by itself, within its time
    assert [pid for pid, began in pids.items() if born(pid) == began] == []


def test_a_second_stack_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "ops.stack", "--state", tmp_path, "--env-file", tmp_path / "env"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert "runs already" in done.stderr
