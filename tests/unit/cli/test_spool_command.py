"""`memline spool`: what waits on this disk, and sending what processes that are gone have left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memline.contracts.clock import SystemClock
from memline.contracts.ids import TimeOrderedIds
from memline.contracts.scope import Scope
from memline.producer import Spool, TurnStream, build_turn
from tests.unit.cli.program import memline, memline_json


def fill(folder: Path, producer: str, count: int, *, close: bool) -> Spool:
    """A spool of *producer* with *count* turns; closed, it is one that a process left."""
    spool = Spool(folder, producer)
    for number in range(count):
        spool.append(build_turn(Scope.of("default", "mei"), f"turn {number}", ids=TimeOrderedIds(), clock=SystemClock()))
    if close:
        spool.close()
    return spool


@pytest.fixture
def spools(memline_home: Path) -> Iterator[Path]:
    """A folder with three turns of a process that is gone and one of a process that lives."""
    folder = memline_home / "spool"
    fill(folder, "0001", 3, close=True)
    living = fill(folder, "0002", 1, close=False)
    yield folder
    living.close()


def test_an_empty_spool_says_so(memline_home: Path) -> None:
    assert "No turn waits" in memline("spool", "status").stderr
    found = memline_json("spool", "status")
    assert found == {"folder": str(memline_home / "spool"), "turns": 0, "files": []}


def test_status_shows_each_file_and_whether_its_process_lives(spools: Path) -> None:
    found = memline_json("spool", "status")
    assert found["turns"] == 4
    assert [(file["file"], file["turns"], file["owner_alive"]) for file in found["files"]] == [
        ("0001.jsonl", 3, False),
        ("0002.jsonl", 1, True),
    ]
    shown = memline("spool", "status")
    assert "0001.jsonl" in shown.stdout and "is gone" in shown.stdout and "lives" in shown.stdout
    assert "memline spool send" in shown.stderr


@pytest.mark.usefixtures("spools")
def test_sending_needs_to_know_where_redis_is() -> None:
    assert "MEMLINE_REDIS_URL" in memline("spool", "send", exit_code=1).stderr


def test_redis_that_does_not_answer_leaves_the_spool_as_it_is(spools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in spools.glob("*.jsonl")}
    monkeypatch.setenv("MEMLINE_REDIS_URL", "redis://127.0.0.1:1/0")
    assert "does not answer" in memline("spool", "send", exit_code=1).stderr
    assert {path.name: path.read_bytes() for path in spools.glob("*.jsonl")} == before


@pytest.mark.usefixtures("spools")
def test_what_a_process_left_is_sent_and_a_living_one_keeps_its_own(patient_redis: str) -> None:
    found = memline_json("spool", "send")
    assert (found["sent"], found["left"]) == (3, 1)
    stream = TurnStream(patient_redis)
    assert stream.length() == 3
    stream.close()
    again = memline("spool", "send")
    assert "Sent 0 turns" in again.stdout
    assert "1 turn of" in again.stderr
