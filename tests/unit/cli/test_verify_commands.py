"""`memline verify`, `reconcile` and `index rebuild`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


@pytest.fixture
def filled(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a ledger with one memory."""
    monkeypatch.setenv("MEMLINE_RECONCILE_EVERY", "0")
    memline_json("add", "I live in Porto.", "-u", "mei", "--no-infer")
    return memline_home / "ledger.db"


def run(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        (objects,) = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'index_objects%'").fetchone()
        connection.execute(statement.replace("index_objects", objects))
        connection.commit()


def test_sound_stores_end_with_0(filled: Path) -> None:
    assert memline_json("verify", "--deep") == {"sound": True, "findings": [], "lag": 0}
    assert "agrees with what was committed" in memline("verify").stdout


def test_damage_ends_with_5_and_is_told_with_ids_and_no_text(filled: Path) -> None:
    run(filled, "UPDATE memories SET text = 'I live in Oslo.'")
    (finding, other) = memline_json("verify", exit_code=5)["findings"]
    assert finding["store"] == "history"
    assert (other["store"], other["count"]) == ("memories", 1)
    told = memline("verify", exit_code=5).stdout
    assert other["examples"][0][:8] in told and "hashed" in told
    assert "Oslo" not in told and "Porto" not in told


def test_a_damaged_index_is_repaired_by_reconcile(filled: Path) -> None:
    run(filled, "DELETE FROM index_objects")
    result = memline("verify", exit_code=5)
    assert "missing" in result.stdout and "memline reconcile" in result.stderr
    found = memline_json("reconcile")
    assert (found["complete"], found["drift"]["missing"], found["repaired"]) == (True, 2, 2)
    assert memline_json("verify", "--deep")["sound"] is True
    assert "agrees with the ledger" in memline("reconcile", "--deep").stdout
    assert "drift_missing" in memline("doctor").stdout


def test_only_a_chosen_namespace_is_compared(filled: Path) -> None:
    run(filled, "DELETE FROM index_objects")
    assert memline_json("verify", "--namespace", "other")["sound"] is True
    assert memline_json("--namespace", "other", "verify")["sound"] is True
    assert memline_json("verify", "-n", "other", "-n", "default", exit_code=5)["sound"] is False


def test_an_index_is_rebuilt_from_the_ledger(filled: Path) -> None:
    run(filled, "DELETE FROM index_objects")
    found = memline_json("index", "rebuild")
    assert (found["objects"], found["complete"], found["repaired"]) == (2, True, 0)
    assert memline_json("verify", "--deep")["sound"] is True
    assert "2 objects were shown" in memline("index", "rebuild").stdout


def test_a_budget_that_ends_is_told(filled: Path) -> None:
    assert "the next one goes on there" not in memline("reconcile", "--budget", "60").stdout
    memline("reconcile", "--budget", "0", exit_code=2)
