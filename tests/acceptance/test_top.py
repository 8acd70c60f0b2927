"""`memline top` on a real terminal, in a pipe, and as JSON."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.program import Program, widest

_TEXT = "Ann keeps her bicycle in garage 4417"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a memory, and a job that failed."""
    folder = tmp_path_factory.mktemp("top") / "home"
    Program(folder).run("add", _TEXT, "-u", "ann", "--no-infer")
    return folder


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, home: Path, *arguments: str, columns: int, lines: int = 40) -> None:
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_"))}
        environment |= {"MEMLINE_HOME": str(home), "TERM": "xterm", "NO_COLOR": "1"}
        environment.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memline", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def until(self, text: str) -> None:
        """Reads what is shown until *text* is among it."""
        deadline = time.monotonic() + 120
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown[-2000:]
            if select.select([self._own], [], [], 0.2)[0]:
                self.shown += os.read(self._own, 65536).decode("utf-8", "replace")

    def type(self, keys: str) -> None:
        os.write(self._own, keys.encode("ascii"))

    def ended(self) -> int:
        """The exit code; what is still shown is read meanwhile, as a terminal does."""
        deadline = time.monotonic() + 120
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            if select.select([self._own], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self._own, 65536).decode("utf-8", "replace")
                except OSError:  # the other end is closed
                    self.process.wait(60)
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._own)


@contextmanager
def terminal(home: Path, *arguments: str, columns: int = 120) -> Iterator[Terminal]:
    found = Terminal(home, *arguments, columns=columns)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("columns", [120, 60])
def test_it_shows_frames_until_q(home: Path, columns: int) -> None:
    with terminal(home, "top", "--every", "0.2", columns=columns) as shown:
        shown.until("turns/s")
        shown.until("q ends")
        assert "outbox" in shown.shown and "extract" in shown.shown
        shown.type("xq")
        assert shown.ended() == 0
    assert "\x1b[31m" not in shown.shown, "NO_COLOR is set"
    assert "bicycle" not in shown.shown


def test_ctrl_c_ends_it_without_a_word(home: Path) -> None:
    with terminal(home, "top", "--every", "5") as shown:
        shown.until("q ends")
        shown.process.send_signal(signal.SIGINT)
        assert shown.ended() == 0
    assert "Traceback" not in shown.shown


def test_in_a_pipe_it_is_one_frame(home: Path) -> None:
    shown = Program(home, columns=60).run("top", "--every", "0.1").stdout
    assert shown.count("memline top") == 1 and "0.0 accepted" in shown and "q ends" not in shown
    assert widest(shown) <= 60
    assert "bicycle" not in shown


def test_json_has_counts_and_ids_and_no_text(home: Path) -> None:
    found = Program(home).json("top", "--once", "--every", "0.1")
    assert set(found) == {
        "at", "ledger", "gauges", "per_second", "searchable_seconds", "workers", "failures", "counters_moved", "away",
    }  # fmt: skip
    assert found["per_second"] == {"accepted": 0.0, "committed": 0.0, "searchable": 0.0}
    assert found["gauges"]["jobs_unfinished"]["extract"] == 0
    assert found["searchable_seconds"] is None or found["searchable_seconds"]["turns"] == 1
    assert "bicycle" not in str(found)


def test_a_part_that_is_away_is_named_and_the_rest_is_shown(home: Path) -> None:
    found = Program(home, redis_url="redis://127.0.0.1:1/0").json("top", "--once", "--every", "0.1")
    assert list(found["away"]) == ["redis"] and "jobs_unfinished" in found["gauges"]


def test_without_a_ledger_it_says_so_and_makes_none(tmp_path: Path) -> None:
    ran = Program(tmp_path / "none").run("top", "--once", exit_code=1)
    assert "no ledger" in ran.stderr and not (tmp_path / "none").exists()
