"""Backup and restore: the ledger of an hour ago beside a newer index. What was erased since stays erased, and index and ledger agree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from memline import Memory
from memline.contracts.errors import ServiceUnavailable, StaleCursor
from memline.ledger.backup import put_back, read_backup, take_backup
from memline.ledger.erase_census import holders_of
from memline.ledger.session import Ledger
from memline.outbox.tombstone_file import TombstoneFile
from memline.outbox.verify import verify
from memline.settings import load_settings
from tests.acceptance.program import Program
from tests.parts import MemoryIndex, make_turn
from tests.services import PostgresServer, postgres_binaries
from tests.weaviate_server import Reached

SCRIPT = Path(__file__).parents[3] / "ops" / "backup" / "postgres.sh"
SECRET = "Zanzibar77"


class World:
    """A ledger with an index that does not lie in it."""

    def __init__(self, folder: Path, variables: dict[str, str], index: MemoryIndex | None = None) -> None:
        self.home = folder / "home"
        self.variables = {"MEMLINE_HOME": str(self.home), "MEMLINE_SEARCH_DEADLINE": "30", "MEMLINE_EXIT_DRAIN": "120", **variables}
        self.file = folder / "backups" / "ledger.backup"
        self._index = index
        short = {name.removeprefix("MEMLINE_").lower(): value for name, value in self.variables.items()}
        self.settings = load_settings(**short)
        self.program = Program(Path(short.pop("home")), **short)

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        with Memory(settings=self.settings, **({} if self._index is None else {"index": self._index})) as found:
            yield found

    def back_up(self) -> None:
        told = self.program.json("backup", self.file)
        assert told["memories"] == 3 and told["bytes"] == self.file.stat().st_size

    def restore(self) -> dict[str, Any]:
        found: dict[str, Any] = self.program.json("restore", self.file, "--yes")
        return found


class PostgresWorld(World):
    """Backed up and restored by the script, as its page says."""

    def __init__(self, folder: Path, postgres: PostgresServer, variables: dict[str, str]) -> None:
        self.postgres = postgres
        self.database = postgres.create_database()
        super().__init__(folder, {"MEMLINE_LEDGER_URL": postgres.url(self.database), **variables})
        self.file.parent.mkdir()

    def script(self, *arguments: str | Path, exit_code: int = 0, url: str | None = None) -> str:
        environment = {
            **os.environ,
            "MEMLINE_LEDGER_URL": url or self.postgres.url(self.database),
            "PATH": f"{postgres_tools()}{os.pathsep}{os.environ['PATH']}",
        }
        ran = subprocess.run(["sh", str(SCRIPT), *map(str, arguments)], env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == exit_code, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def back_up(self) -> None:
        assert "backed up" in self.script(
            "backup", self.file, url=self.postgres.url(self.database).replace("postgresql:", "postgresql+psycopg:")
        )
        assert "overwrites nothing" in self.script("backup", self.file, exit_code=1)

    def restore(self) -> dict[str, Any]:
        assert "rename it and make an empty one" in self.script("restore", self.file, exit_code=1)
        self.postgres.drop_database(self.database)
        self.postgres._execute(f'CREATE DATABASE "{self.database}" TEMPLATE template0')
        assert "restored" in self.script("restore", self.file)
        found: dict[str, Any] = self.program.json("restore")
        return found


def postgres_tools() -> Path:
    """A folder with all three programs of the script, of the version of the server that tests use."""
    folders = [postgres_binaries(), *Path("/usr/lib/postgresql").glob("*/bin")]
    whole = [folder for folder in folders if all((folder / name).exists() for name in ("pg_dump", "pg_restore", "psql"))]
    assert whole, "Debian's postgresql-client brings pg_dump, pg_restore and psql"
    return whole[0]  # the tools of the server itself


@pytest.fixture(params=["sqlite", "postgres", "weaviate"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """SQLite with an index that lies elsewhere; PostgreSQL with index.db in the home folder; PostgreSQL with Weaviate."""
    if request.param == "sqlite":
        yield World(tmp_path, {}, MemoryIndex())
        return
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    variables: dict[str, str] = {}
    if request.param == "weaviate":
        reached: Reached = request.getfixturevalue("weaviate_server")
        variables = {**reached.settings(), "MEMLINE_WEAVIATE_PREFIX": "BackupTest"}
    found = PostgresWorld(tmp_path, postgres, variables)
    yield found
    postgres.drop_database(found.database)


def say(memory: Memory, text: str, user: str, **options: Any) -> str:
    (made,) = memory.add(text, user_id=user, infer=False, wait=True, timeout=300, **options)["results"]
    memory.flush(300)
    return str(made["id"])


def texts(memory: Memory, user: str) -> set[str]:
    return {item["memory"] for item in memory.get_all(filters={"user_id": user})["results"]}


def asked(memory: Memory, question: str, user: str) -> set[str]:
    return {item["memory"] for item in memory.search(question, filters={"user_id": user}, threshold=0.0)["results"]}


def test_the_ledger_of_an_hour_ago_beside_a_newer_index(world: World) -> None:
    with world.memory() as memory:
        say(memory, "Ann rows on Mondays.", "ann", idempotency_key="ann-1")
        bobs = say(memory, "Bob rows on Tuesdays.", "bob")
        say(memory, f"Cat hides in {SECRET}.", "cat")
        name = _name(memory)
    world.back_up()

    with world.memory() as memory:  # an hour later
        say(memory, "Ann moored at pier nine.", "ann", idempotency_key="ann-2")
        memory.delete(bobs)
        certificate = memory.erase(user_id="cat")
        say(memory, "Dan came aboard.", "dan")
        memory.flush(300)
        cursor = memory.changes(since="now")["cursor"]
        index = memory._house.index
        assert len(list(index.walk("memory", "default"))) == 3
        stones = TombstoneFile(world.home / "tombstones.jsonl").path.read_bytes()

    told = world.restore()
    assert told["tombstones_replayed"] == 1

    with world.memory() as memory:
        # before anything was repaired: the newer index is there, and no read shows what the ledger does not have
        assert asked(memory, "Where did Ann moor? pier nine", "ann") == {"Ann rows on Mondays."} == texts(memory, "ann")
        assert texts(memory, "cat") == set() == asked(memory, SECRET, "cat")
        assert texts(memory, "bob") == {"Bob rows on Tuesdays."}, "a deletion since the backup is lost, unlike an erasure"
        assert texts(memory, "dan") == set(), "and so is what was committed since"
        assert _name(memory) == name
        with pytest.raises(StaleCursor):
            memory.changes(since=cursor)

        house = memory._house
        memory.flush(300)
        house.reconciler.run()
        house.relay.drain()
        assert verify(house.ledger, house.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}
        assert len(list(house.index.walk("memory", "default"))) == 2
        with house.ledger.read() as connection:
            assert holders_of(connection, SECRET) == []

        # turns that come late: one from before the backup is the first job again, one that was lost is taken, an erased one is cancelled
        again = memory.add("Ann rows on Mondays.", user_id="ann", infer=False, idempotency_key="ann-1").wait(300)
        assert [made["memory"] for made in again.results] == ["Ann rows on Mondays."]
        say(memory, "Ann moored at pier nine.", "ann", idempotency_key="ann-2")
        assert texts(memory, "ann") == {"Ann rows on Mondays.", "Ann moored at pier nine."}
        _accept_late(memory, certificate["began_at"])
        memory.flush(300)
        assert texts(memory, "cat") == set()
        with house.ledger.read() as connection:
            assert holders_of(connection, SECRET) == []
        assert verify(house.ledger, house.index, deep=True).sound
    assert (world.home / "tombstones.jsonl").read_bytes().startswith(stones), "a restore puts no older file in its place"


def _accept_late(memory: Memory, before: str) -> None:
    """A turn of the erased subject that was handed over before its erasure, and comes out of a spool now."""
    from datetime import datetime, timedelta

    from memline.ledger.accept import accept_turns

    house = memory._house
    turn = make_turn(f"Cat hides in {SECRET} again.", user="cat", at=datetime.fromisoformat(before) - timedelta(minutes=5), spooled=True)
    with house.ledger.write() as tx:
        entry = f"{int(house.clock.now().timestamp() * 1000)}-0"
        accept_turns(tx, [turn], now=house.clock.now(), order_wait=3, entries=[entry], clock_margin=60)


def _name(memory: Memory) -> str:
    from memline.ledger.tenants import ledger_name

    with memory._house.ledger.write() as tx:
        return ledger_name(tx, "another")


def test_a_backup_is_taken_while_a_writer_is_at_work_and_is_for_this_user_only(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, "Ann rows on Mondays.", "ann")
        with memory._house.ledger.write() as tx:
            tx.exec_driver_sql("INSERT INTO counters (name, value) VALUES ('order_gaps', 5)")
            told = world.program.json("backup", world.file)
        say(memory, "Ann moored at pier nine.", "ann")
    assert told["memories"] == 1
    assert world.file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in world.file.parent.iterdir()] == [world.file.name]
    with closing(Ledger(f"sqlite:///{world.file}")) as copy, copy.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM counters WHERE name = 'order_gaps'").scalar_one() == 0


def test_a_backup_overwrites_nothing_and_a_restore_refuses_what_is_none(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    assert "no ledger" in world.program.run("backup", world.file, exit_code=1).stderr
    with world.memory() as memory:
        say(memory, "Ann rows on Mondays.", "ann")
    world.program.run("backup", world.file)
    assert "there already" in world.program.run("backup", world.file, exit_code=1).stderr
    broken = tmp_path / "broken"
    broken.write_bytes(world.file.read_bytes()[:8192] + b"\xff" * 4096 + world.file.read_bytes()[12288:])
    other = tmp_path / "other"
    other.write_text("no database")
    for bad, told in ((broken, "not used"), (other, "no backup"), (tmp_path / "absent", "no backup")):
        assert told in world.program.run("restore", bad, "--yes", exit_code=1).stderr
    stranger = World(tmp_path / "stranger", {})
    with stranger.memory() as memory:
        say(memory, "Bob rows on Tuesdays.", "bob")
    assert "another ledger" in stranger.program.run("restore", world.file, "--yes", exit_code=1).stderr
    with world.memory() as memory:
        assert texts(memory, "ann") == {"Ann rows on Mondays."}


def test_a_ledger_that_is_in_use_is_not_replaced(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, "Ann rows on Mondays.", "ann")
        world.program.run("backup", world.file)
        say(memory, "Ann moored at pier nine.", "ann")
        assert "has" in world.program.run("restore", world.file, "--yes", exit_code=1).stderr
        assert len(texts(memory, "ann")) == 2
        say(memory, "Ann sold the boat.", "ann")
    assert sorted(path.name for path in world.home.iterdir() if path.name.startswith("ledger.db")) == ["ledger.db"]
    told = world.restore()
    assert Path(told["ledger_before"]).exists()
    with world.memory() as memory:
        assert texts(memory, "ann") == {"Ann rows on Mondays."}


def test_a_damaged_ledger_is_replaced_and_its_log_with_it(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, "Ann rows on Mondays.", "ann")
    world.program.run("backup", world.file)
    path = world.home / "ledger.db"
    path.write_bytes(b"\xff" * 5000)
    Path(f"{path}-wal").write_bytes(b"\xff" * 5000)
    world.restore()
    assert not Path(f"{path}-wal").exists() or Path(f"{path}-wal").read_bytes()[:4] != b"\xff" * 4
    with world.memory() as memory:
        assert texts(memory, "ann") == {"Ann rows on Mondays."}


def test_postgres_is_left_to_its_own_tools(tmp_path: Path, postgres_url: str) -> None:
    world = World(tmp_path, {"MEMLINE_LEDGER_URL": postgres_url})
    assert "ops/backup/postgres.sh" in world.program.run("backup", world.file, exit_code=1).stderr
    given = {**os.environ, "MEMLINE_LEDGER_URL": f"sqlite:///{world.home}/ledger.db"}
    ran = subprocess.run(["sh", str(SCRIPT), "backup", str(world.file)], env=given, capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "memline backup" in ran.stderr


def test_an_erasure_does_not_end_while_a_restore_has_left_a_ledger_beside(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, f"Cat hides in {SECRET}.", "cat")
        say(memory, "Ann rows on Mondays.", "ann")
    world.program.run("backup", world.file)
    aside = Path(world.restore()["ledger_before"])
    with world.memory() as memory:
        with pytest.raises(ServiceUnavailable, match="put aside") as told:
            memory.erase(user_id="cat")
        assert str(aside) in str(told.value)
        assert texts(memory, "cat") == set(), "what is served is gone already"
        with pytest.raises(ServiceUnavailable, match="put aside"):
            memory.erase(user_id="cat")
        aside.unlink()
        read = memory.erase(user_id="cat")["proof"]["reads"]
        assert not any(look["found"] for look in read)


def test_an_erasure_reads_backups_that_lie_in_the_home_folder(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, f"Cat hides in {SECRET}.", "cat")
    copy = world.home / "copies" / "mine"
    world.program.run("backup", copy)
    with world.memory() as memory, pytest.raises(ServiceUnavailable, match="copies/mine"):
        memory.erase(user_id="cat")


def test_a_restore_is_refused_where_it_would_lose_an_erasure(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, f"Cat hides in {SECRET}.", "cat")
    world.program.run("backup", world.file)
    with world.memory() as memory:
        memory.erase(user_id="cat")
    stones, kept = world.home / "tombstones.jsonl", tmp_path / "kept"
    stones.rename(kept)
    assert "knows 1 erasures" in world.program.run("restore", world.file, "--yes", exit_code=1).stderr
    assert not list(world.home.glob("ledger.db.*"))
    kept.rename(stones)
    assert world.restore()["tombstones_replayed"] == 1
    with world.memory() as memory:
        assert texts(memory, "cat") == set()


def test_a_restore_beside_an_old_file_of_tombstones_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, "Ann rows on Mondays.", "ann")
        memory.erase(user_id="cat")
    world.program.run("backup", world.file)
    elsewhere = World(tmp_path / "elsewhere", {})
    elsewhere.file = world.file
    assert elsewhere.restore()["tombstones_unfiled"] == 1
    assert "not the newest" in " ".join(elsewhere.program.run("restore").stderr.split())
    (elsewhere.home / "tombstones.jsonl").write_bytes((world.home / "tombstones.jsonl").read_bytes())
    assert elsewhere.program.json("restore")["tombstones_unfiled"] == 0


def test_a_backup_with_an_older_schema_is_put_back_and_the_way_on_is_told(tmp_path: Path) -> None:
    import sqlite3

    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, "Ann rows on Mondays.", "ann")
    world.program.run("backup", world.file)
    with closing(sqlite3.connect(world.file)) as old:
        old.execute("UPDATE alembic_version SET version_num = '0001'")
        old.commit()
    told = " ".join(world.program.run("restore", world.file, "--yes", exit_code=1).stderr.split())
    (aside,) = world.home.glob("ledger.db.before-*")
    assert "memline migrate" in told and "without FILE" in told and aside.name in told.replace(" ", "")


def test_ctrl_c_leaves_no_half_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, {})
    with world.memory() as memory:
        say(memory, "Ann rows on Mondays.", "ann")
    world.program.run("backup", world.file)
    found, ledger = read_backup(world.file), world.home / "ledger.db"
    before = sorted(world.home.iterdir())

    def stopped(*_given: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("memline.ledger.backup._connect", stopped)
    with pytest.raises(KeyboardInterrupt):
        take_backup(ledger, tmp_path / "backups" / "second")
    with pytest.raises(KeyboardInterrupt):
        put_back(found, ledger, aside=tmp_path / "aside")
    assert [path.name for path in world.file.parent.iterdir()] == [world.file.name]
    assert sorted(world.home.iterdir()) == before


def test_the_password_of_a_postgres_ledger_is_in_no_argument_that_others_can_read(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    tool = tools / "pg_dump"
    tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{tmp_path}/arguments"\nprintf %s "$PGPASSWORD" >"{tmp_path}/password"\nexit 1\n')
    tool.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "MEMLINE_LEDGER_URL": "postgresql+psycopg://ann:p%40ss:w%2Ford@127.0.0.1:5432/db",
    }
    ran = subprocess.run(
        ["sh", str(SCRIPT), "backup", str(tmp_path / "file")], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    arguments = (tmp_path / "arguments").read_text()
    assert "postgresql://ann@127.0.0.1:5432/db" in arguments.splitlines()
    assert (tmp_path / "password").read_text() == "p@ss:w/ord"
    assert "p%40ss" not in arguments + ran.stdout + ran.stderr
