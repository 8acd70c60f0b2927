"""Leaving nothing of what was removed in a SQLite file: the log is taken in and cut, and the file is written anew."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memline.contracts.errors import ServiceUnavailable
from memline.ledger.session import Ledger

__all__ = ["Compacted", "compact", "files_of"]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was done to a file. `log_cut`: its write-ahead log is empty."""

    file: str
    secure_delete: bool
    vacuumed: bool
    log_cut: bool


def files_of(ledger: Ledger) -> list[Path]:
    """The files of a SQLite database that are there: itself, its log, the log's index, a rollback journal. None of another database."""
    if ledger.path is None:
        return []
    return [path for end in ("", "-wal", "-shm", "-journal") if (path := Path(f"{ledger.path}{end}")).exists()]


def compact(ledger: Ledger, *, patience: float = 30.0, sleep: Callable[[float], None] = time.sleep) -> Compacted:
    """VACUUM, then `wal_checkpoint(TRUNCATE)`; waits up to *patience* seconds for readers and writers of other processes.

    Raises ServiceUnavailable where they do not let it. To be called on SQLite only.
    """
    deadline = time.monotonic() + patience
    with ledger.no_fork(), closing(ledger.engine.raw_connection()) as raw:
        cursor = raw.cursor()
        secure = bool(cursor.execute("PRAGMA secure_delete").fetchone()[0])
        _until(lambda: cursor.execute("VACUUM") is not None, ledger, deadline, sleep)
        _until(lambda: cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, ledger, deadline, sleep)
        cursor.close()
    log = Path(f"{ledger.path}-wal")
    return Compacted(str(ledger.path), secure, True, not log.exists() or log.stat().st_size == 0)


def _until(attempt: Callable[[], Any], ledger: Ledger, deadline: float, sleep: Callable[[float], None]) -> None:
    while True:
        try:
            if attempt():
                return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise ServiceUnavailable(f"The file {ledger.path} can't be written anew ({error}): make room on its disk.") from error
        if time.monotonic() >= deadline:
            raise ServiceUnavailable(
                f"Others read or write {ledger.path} all the time, so it can't be written anew: close them, then erase again."
            )
        sleep(0.05)
