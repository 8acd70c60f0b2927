"""Ctrl-C in a command that hands over or follows: it is never lost, wherever the command is."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memline.cli import changes, import_run, importing
from memline.cli.interrupt import interruptible
from tests.unit.cli.program import memline


@pytest.fixture(autouse=True)
def _as_in_a_program() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Collected:
    """Ctrl-C comes while it is collected, where Python would write a KeyboardInterrupt to stderr and forget it."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_it_waits_for_the_next_point_and_is_not_lost() -> None:
    with interruptible() as interrupt:
        interrupt.check()
        interrupt.wait(0.001)
        Collected()
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
        with pytest.raises(KeyboardInterrupt):
            interrupt.wait(600)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_ends_it_at_once() -> None:
    with interruptible():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


class Silent(io.BytesIO):
    """A pipe that falls silent after its first line: Ctrl-C comes while the next one is waited for."""

    def __next__(self) -> bytes:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it went on waiting")


def test_the_wait_for_a_line_ends_at_once() -> None:
    with interruptible() as interrupt:
        assert list(interrupt.reading([1, 2])) == [1, 2]
        with pytest.raises(KeyboardInterrupt):
            next(interrupt.reading(Silent()))
        with pytest.raises(KeyboardInterrupt):
            next(interrupt.reading([1]))  # asked is asked


def test_who_ignores_it_goes_on_to_do_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible() as interrupt:
        signal.raise_signal(signal.SIGINT)
        interrupt.check()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("light")
def test_an_import_ends_and_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text("".join(json.dumps({"content": f"Box {number}.", "user_id": "mei"}) + "\n" for number in range(120)), encoding="utf-8")
    plain = import_run.ImportRun._give

    def give(run: Any, turns: Any) -> None:
        plain(run, turns)
        Collected()

    monkeypatch.setattr(import_run.ImportRun, "_give", give)
    told = memline("import", str(file), "--no-infer", exit_code=130).stderr
    assert "50 turns were handed over. Run the same command again" in told


@pytest.mark.usefixtures("light")
def test_an_import_of_a_silent_pipe_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def lines_of(_file: str) -> Iterator[io.BytesIO]:
        yield Silent(b'{"content": "Box 1.", "user_id": "mei"}\n')

    monkeypatch.setattr(importing, "_lines_of", lines_of)
    told = memline("import", "-", "--no-infer", exit_code=130).stderr
    assert "0 turns were handed over. Run the same command again" in told


@pytest.mark.usefixtures("light")
def test_following_changes_ends_and_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    memline("add", "Box 12.", "-u", "mei", "--no-infer")
    plain, cursors = changes._page, []

    def page(*given: Any, **named: Any) -> dict[str, Any]:
        found = plain(*given, **named)
        cursors.append(found["cursor"])
        Collected()
        return found

    monkeypatch.setattr(changes, "_page", page)
    told = memline("changes", "--follow", "--json", exit_code=130)
    assert [json.loads(line)["event"] for line in told.stdout.splitlines()] == ["ADD"]
    assert f"go on with --since {cursors[0]}" in told.stderr and len(cursors) == 1
