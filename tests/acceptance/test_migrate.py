"""`memline migrate` and the reads that name nobody: what is refused, and how."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.acceptance.program import Program

pytestmark = pytest.mark.acceptance


def test_a_ledger_of_a_newer_memline_is_not_called_done(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.run("migrate")
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    assert "upgrade memline" in program.run("migrate", exit_code=1).stderr


def test_the_database_of_somebody_else_gets_no_tables(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    assert "no memline schema" in Program(tmp_path).run("migrate", exit_code=1).stderr
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()


def test_a_search_that_names_nobody_says_by_which_option(tmp_path: Path) -> None:
    assert "--user-id" in Program(tmp_path).run("search", "anything", exit_code=1).stderr
