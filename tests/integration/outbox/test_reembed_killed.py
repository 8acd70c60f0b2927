"""`memline index reembed` killed (SIGKILL) at each of its points: the former embedder serves until the swap, and the same command goes on.

Whole programs, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from memline.contracts.failpoints import POINTS
from memline.ledger.meta import embedders
from memline.ledger.session import Ledger
from tests.acceptance.program import Program
from tests.chaos.matrix import OF_A_COMMAND
from tests.services import PostgresServer

OLD, NEW = "tests.chaos.small_parts:SmallEmbedder", "tests.integration.outbox.moving:Letters"

#: Every point of the command, and how many texts are embedded twice at most: those whose vectors were on their way.
KILLED = {
    "reembed.before_call": 0,
    "reembed.after_call": 4,
    "reembed.before_commit": 4,
    "reembed.after_commit": 0,
    "reembed.filled": 0,
    "reembed.before_swap": 0,
    "reembed.after_swap": 0,
}


def test_every_point_of_the_command_is_tried() -> None:
    assert set(KILLED) == {point for point in POINTS if point.startswith(OF_A_COMMAND)}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty ledger."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'home' / 'ledger.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.create_database()
    yield server.url(name)
    server.drop_database(name)


def test_killed_at_each_point_in_turn_it_goes_on_and_ends_whole(place: str, tmp_path: Path) -> None:
    """One ledger, killed at one point after another, until nothing is left to be killed at."""
    home, counted = tmp_path / "home", tmp_path / "embedded"
    home.mkdir()
    common = {"ledger_url": place, "reconcile_every": "0", "extractor": "rules"}
    old = Program(home, embedder=OLD, **common)
    for n in range(3):
        old.run("add", f"I own {n} cups.", "-u", "mei", "--no-infer", "--timeout", "240")
    doubles = 0
    for point, twice in KILLED.items():
        failing = Program(home, embedder=NEW, failpoints=f"{point}=kill", test_embedded=str(counted), **common)
        killed = failing.start("index", "reembed", "--yes")
        killed.communicate(timeout=240)
        assert killed.returncode == -signal.SIGKILL, point
        doubles += twice
        swapped = point == "reembed.after_swap"
        assert _model(place) == ("letters" if swapped else "words-64")
        if not swapped:  # what runs goes on with the former embedder, and is told of a move
            found = old.json("search", "cups", "-u", "mei")
            assert len(found["results"]) == 3 and "missing" not in found
    new = Program(home, embedder=NEW, test_embedded=str(counted), **common)
    done = new.json("index", "reembed", "--yes")
    assert (done["moved"], done["embedded"]) == (False, 0)
    assert new.json("verify", "--deep") == {"sound": True, "findings": [], "lag": 0}
    assert len(new.json("search", "cups", "-u", "mei")["results"]) == 3
    assert counted.stat().st_size <= _texts(place) + doubles
    ran = old.run("search", "cups", "-u", "mei", exit_code=1)
    assert "memline index reembed" in ran.stderr


def _model(url: str) -> str:
    ledger = Ledger(url)
    with ledger.read() as connection:
        own = embedders(connection).own
    ledger.close()
    assert own is not None
    return own[0]


def _texts(url: str) -> int:
    ledger = Ledger(url)
    with ledger.read() as connection:
        found = sum(connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in ("vectors", "entities"))
    ledger.close()
    return int(found)
