"""`memline index reembed`: tells, asks, moves, and goes on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memline.ledger.next_vectors import begin_move
from memline.ledger.session import Ledger
from tests.integration.outbox.moving import dump
from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")

NEW, PAID = "tests.integration.outbox.moving:Letters", "tests.integration.outbox.moving:PaidLetters"


@pytest.fixture
def filled(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a ledger with one memory, by the embedder of the settings."""
    monkeypatch.setenv("MEMLINE_RECONCILE_EVERY", "0")
    memline_json("add", "I live in Porto.", "-u", "mei", "--no-infer")
    return memline_home / "ledger.db"


def rows(file: Path) -> dict[str, list[Any]]:
    with closing(Ledger(f"sqlite:///{file}")) as ledger:
        return dump(ledger)


def test_a_dry_run_tells_count_and_cost_and_changes_nothing(filled: Path) -> None:
    before = rows(filled)
    told = memline_json("index", "reembed", "--embedder", NEW, "--dry-run", "--price-per-million", "2")
    assert told == {
        "from": {"model": "tiny-1", "dimension": 2},
        "to": {"model": "letters", "dimension": 64},
        "memories": 1,
        "entities": 1,
        "tokens": 6,
        "cost": pytest.approx(0.000012),
    }
    shown = memline("index", "reembed", "--embedder", NEW, "--dry-run").stdout
    assert "1 memories, 1 entities" in shown and "nothing" in shown  # it runs here
    assert rows(filled) == before


@pytest.mark.usefixtures("filled")
def test_the_cost_of_a_paid_embedder_without_a_price_is_unknown() -> None:
    assert memline_json("index", "reembed", "--embedder", PAID, "--dry-run")["cost"] is None
    assert "give --price-per-million" in memline("index", "reembed", "--embedder", PAID, "--dry-run").stdout


def test_it_asks_first_and_no_changes_nothing(filled: Path) -> None:
    before = rows(filled)
    assert "Embed them" in memline("index", "reembed", "--embedder", NEW, stdin="n\n", exit_code=1).output
    memline("index", "reembed", "--embedder", NEW, "--json", exit_code=2)
    assert rows(filled) == before


def test_it_moves_and_says_what_is_to_do_next(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = memline_with(monkeypatch, NEW, "search", "Porto", "-u", "mei", exit_code=1)
    assert "memline index reembed" in refused.stderr
    moved = memline("index", "reembed", "--embedder", NEW, stdin="y\n")
    assert "vectors of letters now; 2 texts" in moved.stdout and "Restart what runs" in moved.stderr
    assert "memline index reembed" in memline("search", "Porto", "-u", "mei", exit_code=1).stderr
    assert "`memline index reembed` moves" in memline("doctor", exit_code=4).stdout
    monkeypatch.setenv("MEMLINE_EMBEDDER", NEW)
    assert [found["memory"] for found in memline_json("search", "Porto", "-u", "mei")["results"]] == ["I live in Porto."]
    assert memline_json("verify", "--deep") == {"sound": True, "findings": [], "lag": 0}
    again = memline_json("index", "reembed")
    assert (again["moved"], again["embedded"], again["memories"]) == (False, 0, 0)
    assert "Nothing to do" in memline("index", "reembed").stdout


def test_a_half_done_move_is_told_by_doctor_and_goes_on_or_is_thrown_away(filled: Path) -> None:
    with closing(Ledger(f"sqlite:///{filled}")) as ledger, ledger.write() as tx:
        begin_move(tx, "other-9", 9, run="killed")
    assert "a move to other-9 (9 dimensions) is under way" in " ".join(memline("doctor").stdout.split())
    assert "--discard" in memline("index", "reembed", "--embedder", NEW, "--yes", exit_code=1).stderr
    assert "Nothing to do" in memline("index", "reembed", "--discard").stdout
    assert "other-9" not in memline("doctor").stdout


def memline_with(monkeypatch: pytest.MonkeyPatch, embedder: str, *arguments: str, exit_code: int) -> Any:
    with monkeypatch.context() as patch:
        patch.setenv("MEMLINE_EMBEDDER", embedder)
        return memline(*arguments, exit_code=exit_code)
