"""A locked file, a full pool, a full disk, a slow one: writers wait or fail clearly, and nothing is ever half there."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline import Memory, Status
from memline.errors import ServiceUnavailable
from memline.language.analysis import TextAnalyser
from memline.ledger import session
from memline.ledger.migrate import open_ledger
from memline.ledger.schema import jobs, memories
from memline.ledger.session import Ledger
from memline.outbox.verify import verify
from memline.settings import Settings, load_settings
from tests.parts import accept, make_parts, make_turn, run_all, table

pytestmark = pytest.mark.chaos

_HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=240)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2])) if sys.argv[2] else sys.stdin.readline()
connection.execute("ROLLBACK")
"""

_ADD = """
import json, resource, sys
from memline import Memory
from memline.errors import ServiceUnavailable
from memline.language.analysis import TextAnalyser

TextAnalyser._load = lambda self: None
most = int(sys.argv[1])
if most:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
accepted, error = [], None
memory = Memory()
for number in range(int(sys.argv[2])):
    try:
        accepted.append(memory.add(f"Box {number} holds {'paper ' * 200}", user_id=f"user-{number % 3}", infer=False).id)
    except ServiceUnavailable as refused:
        error = str(refused)
        break
if not most:
    memory.flush(500)
print(json.dumps({"accepted": accepted, "error": error}), flush=True)
"""


#: A batch whose worker met an outage in the middle goes on when its lease is over.
_SHORT = {"MEMLINE_LEASE": "3", "MEMLINE_MODEL_TIMEOUT": "1"}


@pytest.fixture(autouse=True)
def _terms_by_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextAnalyser, "_load", lambda _self: None)


def settings(home: Path) -> Settings:
    return load_settings(home=home, embedder="tests.unit.cli.parts:Tiny", exit_drain=1, lease=3, model_timeout=1)


@contextmanager
def held(file: Path, seconds: float | None = None) -> Iterator[None]:
    """While another process holds the write lock of a SQLite file, for *seconds*; else until the block has ended."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", _HOLD, str(file), "" if seconds is None else str(seconds)]
    with subprocess.Popen(command, text=True, **pipes) as holder:
        assert holder.stdin is not None and holder.stdout is not None and holder.stdout.readline() == "held\n"
        yield
        holder.stdin.close()
        assert holder.wait(240) == 0


def add_in_a_child(home: Path, *, most_bytes: int, turns: int, **variables: str) -> dict[str, object]:
    """Adds turns in a process that may write files of *most_bytes* (0: of any size)."""
    environment = {
        "MEMLINE_HOME": str(home),
        "MEMLINE_EMBEDDER": "tests.unit.cli.parts:Tiny",
        "MEMLINE_EXIT_DRAIN": "1",
        **_SHORT,
        **variables,
    }
    child = subprocess.run(
        [sys.executable, "-c", _ADD, str(most_bytes), str(turns)], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert child.returncode == 0, child.stderr
    found: dict[str, object] = json.loads(child.stdout)
    return found | {"log": child.stderr}


def sound(memory: Memory) -> bool:
    house = memory._house
    return verify(house.ledger, house.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}


def test_20_adds_wait_while_another_process_holds_the_write_lock_for_3_seconds(tmp_path: Path) -> None:
    with Memory(settings=settings(tmp_path)) as memory:
        memory.add("Box 0", user_id="ann", infer=False, wait=True)
        with held(tmp_path / "ledger.db", 3), ThreadPoolExecutor(8) as pool:
            receipts = list(pool.map(lambda n: memory.add(f"Box {n}", user_id=f"user-{n % 4}", infer=False), range(1, 21)))
        assert [receipt.wait(300).status for receipt in receipts] == [Status.SEARCHABLE] * 20
        memory.flush(300)
        texts = sorted(row.text for row in table(memory._house.ledger, memories))
        assert texts == sorted(f"Box {n}" for n in range(21))
        assert sound(memory)


def test_a_lock_that_is_held_too_long_is_a_clear_error_and_nothing_is_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "BUSY_TIMEOUT", 2.0)
    with Memory(settings=settings(tmp_path)) as memory:
        memory.add("Box 0", user_id="ann", infer=False, wait=True)
        with held(tmp_path / "ledger.db"):
            with pytest.raises(ServiceUnavailable, match=r"ledger\.db does not answer \(database is locked\)\. Nothing was written\."):
                memory.add("Box 1", user_id="ann", infer=False)
            assert len(memory.search("Box", filters={"user_id": "ann"})["results"]) == 1  # readers do not wait
        assert [row.number for row in table(memory._house.ledger, jobs)] == [table(memory._house.ledger, jobs)[0].number]
        assert memory.add("Box 2", user_id="ann", infer=False).wait(300).status is Status.SEARCHABLE
        memory.flush(300)
        assert sorted(row.text for row in table(memory._house.ledger, memories)) == ["Box 0", "Box 2"]
        assert sound(memory)


def test_an_accepted_turn_outlives_a_lock_that_is_held_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stages fail while the lock is held, no memory is to be seen, and it goes on by itself."""
    monkeypatch.setattr(session, "BUSY_TIMEOUT", 1.5)
    with Memory(settings=settings(tmp_path)) as memory:
        memory.add("Box 0", user_id="ann", infer=False, wait=True)
        receipt = memory.add("Box 1", user_id="ann", infer=False)
        with held(tmp_path / "ledger.db", 4):
            pass
        assert receipt.wait(300).status is Status.SEARCHABLE
        memory.flush(300)
        assert sound(memory)


def test_threads_wait_for_a_connection_of_a_small_pool(postgres_url: str) -> None:
    with closing(Ledger(postgres_url, pool_size=1)) as ledger:
        open_ledger(ledger)
        parts = make_parts(ledger)
        waiting = ledger.engine.pool
        assert isinstance(waiting, sa.QueuePool)
        waiting._timeout = 300  # threads of a slow machine wait for longer
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda n: accept(parts, make_turn(f"Box {n}", user=f"user-{n}")), range(48)))
        run_all(parts)
        assert len(table(ledger, memories)) == 48


def test_a_pool_that_stays_full_is_a_clear_error(postgres_url: str) -> None:
    with closing(Ledger(postgres_url, pool_size=1)) as ledger:
        open_ledger(ledger)
        parts = make_parts(ledger)
        pool = ledger.engine.pool
        assert isinstance(pool, sa.QueuePool)
        pool._timeout = 0.2
        with ledger.read(), ThreadPoolExecutor(1) as other, ledger.engine.connect():
            refused = other.submit(accept, parts, make_turn("Box 1"))
            with pytest.raises(ServiceUnavailable, match=r"All connections of this process .* are in use.* Nothing was written\."):
                refused.result(240)
        assert table(ledger, jobs) == []
        accept(parts, make_turn("Box 2"))
        run_all(parts)
        assert [row.text for row in table(ledger, memories)] == ["Box 2"]


def test_a_full_disk_is_a_clear_error_and_the_ledger_is_whole_afterwards(tmp_path: Path) -> None:
    """The operating system refuses to let any file grow; what was accepted before that is there, and goes on when there is room."""
    with Memory(settings=settings(tmp_path)) as memory:
        memory.add("Box", user_id="ann", infer=False, wait=True)
    found = add_in_a_child(tmp_path, most_bytes=1_500_000, turns=5000)
    accepted = found["accepted"]
    assert isinstance(accepted, list) and 0 < len(accepted) < 5000
    assert "does not answer" in str(found["error"]) and "Nothing was written." in str(found["error"])
    assert "paper" not in str(found["log"])
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with Memory(settings=settings(tmp_path)) as memory:
        memory.flush(300)
        assert {memory.receipt(turn_id).status for turn_id in accepted} == {Status.SEARCHABLE}
        assert len(table(memory._house.ledger, memories)) == len(accepted) + 1
        assert sound(memory)


def test_a_slow_disk_only_delays(tmp_path: Path) -> None:
    stages = ("extract", "embed", "dedup", "persist", "link", "save")
    slow = ";".join(f"{stage}.before_commit=sleep:0.3" for stage in stages) + ";relay.before_settle=sleep:0.3"
    started = time.monotonic()
    found = add_in_a_child(tmp_path, most_bytes=0, turns=6, MEMLINE_FAILPOINTS=slow)
    assert time.monotonic() - started > 7 * 0.3
    with Memory(settings=settings(tmp_path)) as memory:
        accepted = found["accepted"]
        assert isinstance(accepted, list)
        assert [memory.receipt(turn_id).status for turn_id in accepted] == [Status.SEARCHABLE] * 6
        assert sound(memory)


def test_readers_see_whole_turns_while_the_disk_is_slow(tmp_path: Path) -> None:
    """A turn of several memories appears at once, however long its commit takes."""
    with Memory(settings=settings(tmp_path)) as memory:
        engine = memory._house.ledger.engine

        def slow(_connection: object) -> None:
            time.sleep(0.02)

        sa.event.listen(engine, "commit", slow)
        seen: set[int] = set()
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                seen.add(len(memory.get_all(filters={"user_id": "ann"})["results"]))

        reader = threading.Thread(target=look)
        reader.start()
        try:
            said = [{"role": "user", "content": f"Box {n}"} for n in range(5)]
            memory.add(said, user_id="ann", infer=False, wait=True, timeout=300)
        finally:
            over.set()
            reader.join()
        assert seen <= {0, 5}
        assert len(memory.get_all(filters={"user_id": "ann"})["results"]) == 5
