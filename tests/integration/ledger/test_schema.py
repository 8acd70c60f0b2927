"""The schema on both databases: migrations lead to it, unknown ones are refused, and its constraints hold what the design promises."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from memline.contracts.errors import SchemaMismatch
from memline.ledger import migrate, schema
from memline.ledger.migrate import HEAD, open_ledger, schema_revision
from memline.ledger.session import Ledger

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def empty(ledger_url: str) -> Iterator[Ledger]:
    opened = Ledger(ledger_url)
    yield opened
    opened.close()


def described(connection: Connection) -> dict[str, Any]:
    """Everything the database itself tells of its tables, in an order of no meaning."""
    inspector = sa.inspect(connection)
    tables: dict[str, Any] = {}
    for name in inspector.get_table_names():
        if name == "alembic_version":
            continue
        tables[name] = {
            "columns": [
                (column["name"], str(column["type"]), column["nullable"], column["default"], column.get("autoincrement"))
                for column in inspector.get_columns(name)
            ],
            "primary key": inspector.get_pk_constraint(name),
            "foreign keys": sorted(map(repr, inspector.get_foreign_keys(name))),
            "unique": sorted(map(repr, inspector.get_unique_constraints(name))),
            "checks": sorted(map(repr, inspector.get_check_constraints(name))),
            "indexes": sorted(_index(index) for index in inspector.get_indexes(name)),
            "options": _sqlite_options(connection, name),
        }
    return tables


def _index(index: Any) -> tuple[str, str]:
    options = {option: str(value) for option, value in index.get("dialect_options", {}).items()}
    return str(index["name"]), repr((index["column_names"], bool(index["unique"]), options))


def _sqlite_options(connection: Connection, table: str) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []
    made = connection.execute(sa.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name"), {"name": table}).scalar_one()
    return [option for option in ("AUTOINCREMENT", "WITHOUT ROWID", "STRICT") if option in made]


def test_migrations_lead_to_exactly_the_tables_of_the_schema_module(empty: Ledger) -> None:
    open_ledger(empty)
    with empty.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_server_default": True}), schema.metadata) == []
        migrated = described(connection)
        schema.metadata.drop_all(connection)
        schema.metadata.create_all(connection)
        assert migrated == described(connection)
        connection.rollback()
    assert set(migrated) == set(schema.metadata.tables)


def test_head_is_the_newest_revision_file() -> None:
    folder = resources.files("memline.ledger") / "migrations"
    config = Config()
    config.set_main_option("script_location", str(folder))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]
    files = sorted(path.name for path in Path(str(folder), "versions").glob("[0-9]*.py"))
    assert files[-1].startswith(f"{HEAD}_")
    assert [name.split("_")[0] for name in files] == [f"{number:04}" for number in range(1, len(files) + 1)]


def test_an_empty_database_is_filled_once_and_then_left_alone(empty: Ledger) -> None:
    open_ledger(empty)
    with empty.write() as tx:
        tx.execute(sa.insert(schema.counters).values(name="seen", value=7))
    open_ledger(empty)
    with empty.read() as connection:
        assert schema_revision(connection) == HEAD
        assert connection.execute(sa.select(schema.counters.c.value)).scalars().all() == [7]


def test_processes_that_open_an_empty_database_at_the_same_time_fill_it_once(empty: Ledger, ledger_url: str) -> None:
    code = (
        "import sys, alembic.command\n"
        "from memline.ledger.migrate import open_ledger\n"
        "from memline.ledger.session import Ledger\n"
        "ledger = Ledger(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "open_ledger(ledger)\n"
    )
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", code, ledger_url]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, cwd=root, **pipes) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    with empty.read() as connection:
        assert schema_revision(connection) == HEAD
        assert set(described(connection)) == set(schema.metadata.tables)


def test_a_database_that_another_process_fills_while_it_is_looked_at_is_opened(
    empty: Ledger, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[str] = []

    def and_fill(look: Callable[[Connection], object]) -> Callable[[Connection], object]:
        def first(connection: Connection) -> object:
            found = look(connection)
            if not filled:  # what is looked at next is there
                filled.append(look.__name__)
                with closing(Ledger(ledger_url)) as other:
                    migrate.upgrade(other)
            return found

        return first

    for look in (migrate._tables, migrate.schema_revision):
        monkeypatch.setattr(migrate, look.__name__, and_fill(look))
    open_ledger(empty)
    assert filled
    with empty.read() as connection:
        assert schema_revision(connection) == HEAD


@pytest.mark.parametrize(("revision", "advice"), [("9999", "upgrade memline"), ("0000", "memline migrate")])
def test_a_schema_of_another_memline_is_refused_with_the_way_on(empty: Ledger, revision: str, advice: str) -> None:
    open_ledger(empty)
    with empty.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    with pytest.raises(SchemaMismatch, match=advice) as refused:
        open_ledger(empty)
    assert revision in str(refused.value)
    assert HEAD in str(refused.value)
    with empty.read() as connection:
        assert schema_revision(connection) == revision


def test_a_database_of_somebody_else_is_refused_and_left_as_it_was(empty: Ledger) -> None:
    with empty.write() as tx:
        tx.execute(sa.text("CREATE TABLE invoices (id INTEGER)"))
    with pytest.raises(SchemaMismatch, match="MEMLINE_LEDGER_URL"):
        open_ledger(empty)
    with empty.read() as connection:
        assert sa.inspect(connection).get_table_names() == ["invoices"]


def test_the_password_of_the_ledger_stands_in_no_refusal(postgres_url: str) -> None:
    opened = Ledger(postgres_url.replace("postgres@", "postgres:hush-hush@"))
    with opened.write() as tx:
        tx.execute(sa.text("CREATE TABLE invoices (id INTEGER)"))
    with pytest.raises(SchemaMismatch) as refused:
        open_ledger(opened)
    opened.close()
    assert "hush-hush" not in str(refused.value)


# What the constraints hold. Each test first shows that the row is taken without the fault.


def add_lane(tx: Connection, key: str = "lane-1", *, owner: int = 1) -> None:
    tx.execute(sa.insert(schema.owners).values(no=owner, key=f"owner-{owner}", namespace="default", user_id="ann"))
    tx.execute(sa.insert(schema.lanes).values(key=key, namespace="default", user_id="ann", owner_no=owner, ready_at=NOW))


def memory(no: int, **other: Any) -> dict[str, Any]:
    row = {
        "no": no, "id": f"memory-{no}", "namespace": "default", "lane": "lane-1", "owner_no": 1, "user_id": "ann",
        "job_id": f"job-{no}", "ordinal": 0, "place": no, "state": "live", "version": 1, "text": "a text", "length": 2,
        "content_hash": "hash", "md5": "md5", "digest": "digest", "metadata": {}, "verbatim": False,
        "occurred_at": NOW, "created_at": NOW, "updated_at": NOW, "valid_from": NOW,
    }  # fmt: skip
    return row | other


def add_memory(ledger: Ledger, no: int, **other: Any) -> None:
    with ledger.write() as tx:
        tx.execute(sa.insert(schema.memories).values(**memory(no, **other)))


@pytest.fixture
def lane(ledger: Ledger) -> Ledger:
    """A ledger with one lane, `lane-1` of the owner 1."""
    with ledger.write() as tx:
        add_lane(tx)
    return ledger


def test_no_two_live_memories_of_a_lane_have_the_same_hash(lane: Ledger) -> None:
    add_memory(lane, 1)
    with pytest.raises(IntegrityError):
        add_memory(lane, 2)
    add_memory(lane, 3, state="expired")
    with pytest.raises(IntegrityError), lane.write() as tx:  # nor by bringing an old one back to life
        tx.execute(sa.update(schema.memories).where(schema.memories.c.no == 3).values(state="live"))


@pytest.mark.parametrize("ended", [{"state": "superseded", "superseded_by": "memory-9"}, {"state": "expired"}, {"state": "deleted"}])
def test_a_memory_that_is_not_live_never_blocks_its_twin(lane: Ledger, ended: dict[str, str]) -> None:
    add_memory(lane, 1, **ended)
    add_memory(lane, 2, **ended)
    add_memory(lane, 3)


def test_another_lane_may_hold_the_same_hash(lane: Ledger) -> None:
    with lane.write() as tx:
        add_lane(tx, "lane-2", owner=2)
    add_memory(lane, 1)
    add_memory(lane, 2, lane="lane-2", owner_no=2)


def test_a_superseded_memory_names_its_successor_and_no_other_memory_does(lane: Ledger) -> None:
    with pytest.raises(IntegrityError):
        add_memory(lane, 1, state="superseded")
    with pytest.raises(IntegrityError):
        add_memory(lane, 2, superseded_by="memory-9")
    with pytest.raises(IntegrityError):
        add_memory(lane, 3, state="half-alive")


def test_a_vector_has_as_many_bytes_as_its_dimension_says(lane: Ledger) -> None:
    add_memory(lane, 1)
    add_memory(lane, 2, content_hash="other")
    row = sa.insert(schema.vectors)
    with lane.write() as tx:
        tx.execute(row.values(memory_no=1, model="m", dimension=3, vector=bytes(12)))
    for length in (0, 8, 11, 13):
        with pytest.raises(IntegrityError), lane.write() as tx:
            tx.execute(row.values(memory_no=2, model="m", dimension=3, vector=bytes(length)))


def test_the_outbox_holds_one_row_an_object(ledger: Ledger) -> None:
    row = {"object_id": "object-1", "namespace": "default", "version": 1, "queued_at": NOW, "next_at": NOW}
    with ledger.write() as tx:
        tx.execute(sa.insert(schema.outbox).values(kind="memory", **row))
        tx.execute(sa.insert(schema.outbox).values(kind="entity", **row))
    with pytest.raises(IntegrityError), ledger.write() as tx:
        tx.execute(sa.insert(schema.outbox).values(kind="memory", **row | {"version": 2}))
    with pytest.raises(IntegrityError), ledger.write() as tx:
        tx.execute(sa.insert(schema.outbox).values(kind="rumour", **row))


def test_a_key_has_one_effect_in_a_lane(lane: Ledger) -> None:
    row = {"lane": "lane-1", "key": "key-1", "job_id": "job-1", "fingerprint": "f", "created_at": NOW}
    with lane.write() as tx:
        tx.execute(sa.insert(schema.idempotency_keys).values(**row))
    with pytest.raises(IntegrityError), lane.write() as tx:
        tx.execute(sa.insert(schema.idempotency_keys).values(**row | {"job_id": "job-2"}))


def test_a_reply_is_stored_once_for_a_job_stage_and_ask(lane: Ledger) -> None:
    job = {
        "id": "job-1", "lane": "lane-1", "namespace": "default", "producer": "", "number": 0, "place": 1, "position": 1,
        "state": "accepted", "stage": "extract", "epochs": 0, "infer": True, "fingerprint": "f",
        "said_at": NOW, "handed_at": NOW, "accepted_at": NOW,
    }  # fmt: skip
    reply = {"job_id": "job-1", "stage": "extract", "ask": 1, "body": "{}", "stored_at": NOW}
    with lane.write() as tx:
        tx.execute(sa.insert(schema.jobs).values(**job))
        tx.execute(sa.insert(schema.stage_results).values(**reply))
        tx.execute(sa.insert(schema.stage_results).values(**reply | {"ask": 2}))
    with pytest.raises(IntegrityError), lane.write() as tx:
        tx.execute(sa.insert(schema.stage_results).values(**reply | {"body": "another"}))
    with pytest.raises(IntegrityError), lane.write() as tx:  # no two jobs have one place in the queue
        tx.execute(sa.insert(schema.jobs).values(**job | {"id": "job-2"}))
    with pytest.raises(IntegrityError), lane.write() as tx:
        tx.execute(sa.insert(schema.jobs).values(**job | {"id": "job-3", "position": 2, "state": "half-done"}))


def test_history_and_links_refer_to_memories_that_exist(lane: Ledger) -> None:
    add_memory(lane, 1)
    history = {"namespace": "default", "version": 1, "event": "ADD", "at": NOW}
    with lane.write() as tx:
        tx.execute(sa.insert(schema.history).values(memory_id="memory-1", **history))
    with pytest.raises(IntegrityError), lane.write() as tx:  # one row a version
        tx.execute(sa.insert(schema.history).values(memory_id="memory-1", **history))
    with pytest.raises(IntegrityError), lane.write() as tx:
        tx.execute(sa.insert(schema.history).values(memory_id="memory-9", **history))
    with pytest.raises(IntegrityError), lane.write() as tx:
        tx.execute(sa.insert(schema.entity_links).values(entity_no=1, memory_no=1))


def test_one_entity_has_a_name_in_a_lane(lane: Ledger) -> None:
    row = {
        "namespace": "default", "lane": "lane-1", "owner_no": 1, "name": "Ann Lee", "norm": "ann lee", "type": "PROPER", "version": 1,
        "model": "m", "vector": bytes(4), "created_at": NOW,
    }  # fmt: skip
    with lane.write() as tx:
        tx.execute(sa.insert(schema.entities).values(id="entity-1", **row))
    with pytest.raises(IntegrityError), lane.write() as tx:
        tx.execute(sa.insert(schema.entities).values(id="entity-2", **row))


def test_a_lane_has_at_least_one_scope_id(lane: Ledger) -> None:
    with pytest.raises(IntegrityError), lane.write() as tx:
        tx.execute(sa.insert(schema.lanes).values(key="nobody's", namespace="default", owner_no=1, ready_at=NOW))
