"""A SQLite ledger whose disk is full, or that may not be written: the error says what to do, and the ledger goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline.contracts.errors import ServiceUnavailable
from memline.ledger.session import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    with opened.write() as tx:
        tx.execute(sa.text("CREATE TABLE said (what TEXT)"))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("pragma", "to_do"),
    [("max_page_count = 1", "Make room on its disk."), ("query_only = 1", "Let this user write the file and its folder")],
)
def test_the_error_says_what_to_do(ledger: Ledger, pragma: str, to_do: str) -> None:
    with ledger.write() as tx:
        tx.exec_driver_sql(f"PRAGMA {pragma}")  # of the one connection that writes: no more room, or no right, as SQLite itself says it
    with pytest.raises(ServiceUnavailable, match="Nothing was written") as caught, ledger.write() as tx:
        tx.execute(sa.text("INSERT INTO said VALUES (:what)"), {"what": "my secret " * 10_000})
    assert to_do in str(caught.value) and "secret" not in str(caught.value)
    ledger.engine.dispose()  # a new connection has room and rights
    with ledger.write() as tx:
        tx.execute(sa.text("INSERT INTO said VALUES ('more')"))
        assert tx.execute(sa.text("SELECT count(*) FROM said")).scalar_one() == 1


def test_a_file_that_can_not_be_opened_is_told_likewise(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    with pytest.raises(ServiceUnavailable, match="Let this user write the file and its folder"), ledger.read() as connection:
        connection.execute(sa.text("SELECT 1"))
    ledger.close()
