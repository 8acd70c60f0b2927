"""Looking for bytes in the files of a database that this process has open, beside other processes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from memline.outbox.byte_scan import files_below, scan

_OTHER = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM t').fetchall(); db.close()"


def test_a_scan_takes_no_lock_from_the_connections_of_its_process(tmp_path: Path) -> None:
    """A close of the file ends every lock of the process on it: the other process would take the log of a live database away."""
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as own:
        own.execute("PRAGMA journal_mode = WAL")
        own.execute("CREATE TABLE t (x TEXT)")
        own.execute("INSERT INTO t VALUES ('needle-in-the-log')")
        log = path.with_name("ledger.db-wal")
        before = log.stat().st_ino
        for _ in range(3):
            assert str(log) in scan(files_below([tmp_path]), ["needle-in-the-log"])
        subprocess.run([sys.executable, "-c", _OTHER, str(path)], check=True)
        assert log.exists() and log.stat().st_ino == before
        own.execute("INSERT INTO t VALUES ('more')")
        assert own.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_a_text_that_lies_across_two_parts_of_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"x" * (4 * 1024 * 1024 - 3) + b"needle" + b"x" * 100)
    assert scan([path, tmp_path / "absent"], ["needle", "nothing"]) == {str(path): [0]}
