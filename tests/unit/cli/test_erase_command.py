"""`memline erase` and `memline tombstones` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memline.contracts.scope import Subject
from tests.unit.cli.program import memline as run

EMBEDDER = "tests.chaos.small_parts:SmallEmbedder"


@pytest.fixture
def home(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMLINE_EMBEDDER", EMBEDDER)
    monkeypatch.setenv("MEMLINE_EXIT_DRAIN", "120")
    run("add", "I like green tea very much.", "-u", "mei-the-erased", "--no-infer")
    return memline_home


def test_it_erases_and_shows_what_was_removed_and_writes_the_certificate(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    shown = run("erase", "-u", "mei-the-erased", "--yes", "--certificate", str(file))
    assert "memories" in shown.stdout and "Erased, epoch 1" in shown.stdout
    certificate = json.loads(file.read_text())
    assert certificate["proof"]["sound"] and certificate["counts"]["removed"]["memories"] == 1
    assert "mei-the-erased" not in file.read_text() and Subject("default", "user", "mei-the-erased").key not in file.read_text()
    assert [line.split()[1:4] for line in run("tombstones", "list").stdout.splitlines()[2:]] == [["user", "1", "finished"]]
    listed = json.loads(run("tombstones", "list", "--json").stdout)["tombstones"]
    assert [stone["phase"] for stone in listed] == ["finished"] and listed[0]["certificate"]["erasure"] == certificate["erasure"]


def test_nothing_is_erased_without_a_yes_or_without_exactly_one_id(home: Path) -> None:
    run("erase", "-u", "mei-the-erased", stdin="n\n", exit_code=1)
    run("erase", "-u", "mei-the-erased", "--json", exit_code=2)
    run("erase", "--yes", exit_code=1)
    run("erase", "-u", "mei-the-erased", "--agent-id", "a", "--yes", exit_code=1)
    run("erase", "-u", "mei-the-erased", "--resume", exit_code=2)
    assert len(json.loads(run("list", "-u", "mei-the-erased", "--json").stdout)["results"]) == 1
    assert json.loads(run("erase", "--resume", "--json").stdout) == {"certificates": []}
    assert "Nothing was erased" in run("tombstones", "list").stderr
