"""`memline erase` killed (SIGKILL) at each of its points: the subject stays shut, the same command goes on, no byte is left.

Whole programs on SQLite, with an engine.
"""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline.contracts.failpoints import POINTS
from memline.ledger.schema import tombstones
from memline.ledger.session import Ledger
from tests.acceptance.program import Program
from tests.chaos.matrix import OF_ERASING

SECRET, ERASED = "passport X1234567", "mei-the-erased"

#: Whether the tombstone stands when it is killed there: from then on the subject is shut.
KILLED = {
    "erase.placed": False,
    "erase.marked": True,
    "erase.filed": True,
    "erase.before_commit": True,
    "erase.after_commit": True,
    "erase.removed": True,
    "erase.collected": True,
    "erase.indexed": True,
    "erase.waited": True,
    "erase.proved": True,
    "erase.before_finish": True,
    "erase.finished": True,
}


def test_every_point_is_tried() -> None:
    assert set(KILLED) == {point for point in POINTS if point.startswith(OF_ERASING)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two users who said the same, and a turn that waits."""
    home = tmp_path_factory.mktemp("filled") / "home"
    home.mkdir()
    program = _program(home)
    for user in (ERASED, "bob"):
        program.run("add", f"I keep my {SECRET} in Porto.", "-u", user, "--no-infer", "--metadata", json.dumps({"pin": f"pin-{user}"}))
    return home


@pytest.mark.parametrize("point", KILLED)
def test_killed_there_the_same_command_goes_on_and_nothing_is_left(point: str, filled: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(filled, home)
    killed = _program(home, failpoints=f"{point}=kill").start("erase", "--user-id", ERASED, "--yes", "--json")
    killed.communicate(timeout=480)
    assert killed.returncode == -signal.SIGKILL
    program = _program(home)
    assert bool(_stones(home)) is KILLED[point]
    if KILLED[point] and point != "erase.finished":
        assert [finished for _, finished in _stones(home)] == [None]
    arguments = ("erase", "--resume") if point in ("erase.marked", "erase.waited") else ("erase", "--user-id", ERASED, "--yes")
    told = program.json(*arguments)
    certificate = told["certificates"][0] if "certificates" in told else told
    assert certificate["proof"]["sound"]
    assert certificate["epoch"] == (2 if point == "erase.finished" else 1)
    for path in home.rglob("*"):
        if path.is_file():
            assert ERASED.encode() not in path.read_bytes(), path
    assert program.json("verify", "--deep") == {"sound": True, "findings": [], "lag": 0}
    assert [item["memory"] for item in program.json("list", "-u", "bob")["results"]] == [f"I keep my {SECRET} in Porto."]
    assert program.json("list", "-u", ERASED)["results"] == []


def test_yesterdays_ledger_is_erased_again_when_it_is_opened(filled: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(filled, home)
    program = _program(home)
    program.json("erase", "--user-id", ERASED, "--yes")
    for end in ("", "-wal", "-shm"):
        (home / f"ledger.db{end}").unlink(missing_ok=True)
    shutil.copy(filled / "ledger.db", home / "ledger.db")
    assert program.json("tombstones", "replay") == {"replayed": 1}
    assert program.json("list", "-u", ERASED)["results"] == []
    assert len(program.json("list", "-u", "bob")["results"]) == 1
    for path in home.rglob("*"):
        if path.is_file():
            assert ERASED.encode() not in path.read_bytes(), path
    assert program.json("verify", "--deep") == {"sound": True, "findings": [], "lag": 0}
    assert program.json("tombstones", "replay") == {"replayed": 0}
    (stone,) = program.json("tombstones", "list")["tombstones"]
    assert stone["phase"] == "replayed" and ERASED not in json.dumps(stone)


def test_without_the_key_a_restored_ledger_is_not_served(filled: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(filled, home)
    program = _program(home)
    program.json("erase", "--user-id", ERASED, "--yes")
    for end in ("", "-wal", "-shm"):
        (home / f"ledger.db{end}").unlink(missing_ok=True)
    shutil.copy(filled / "ledger.db", home / "ledger.db")
    (home / "erase.key").unlink()
    ran = program.run("list", "-u", ERASED, exit_code=1)
    assert "MEMLINE_ERASE_KEY" in ran.stderr


def _program(home: Path, **settings: str) -> Program:
    return Program(
        home,
        embedder="tests.chaos.small_parts:SmallEmbedder",
        extractor="rules",
        reconcile_every="0",
        prune_every="86400",
        **settings,
    )


def _stones(home: Path) -> list[tuple[str, object]]:
    ledger = Ledger(f"sqlite:///{home / 'ledger.db'}")
    with ledger.read() as connection:
        rows = connection.execute(sa.select(tombstones.c.phase, tombstones.c.finished_at)).all()
    ledger.close()
    return [(row.phase, row.finished_at) for row in rows]
