"""Backups of a SQLite ledger: taken while it is in use, checked, and put back while nobody uses it.

A file is never opened beside SQLite: closing it would take the locks from this process's own connections to it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memline.contracts.errors import ConfigurationError, InvalidInput, ServiceUnavailable

__all__ = ["BackupFile", "aside_of", "left_beside", "put_back", "read_backup", "take_backup"]

#: Seconds to wait for whoever still writes to the ledger that is about to be replaced.
_PATIENCE = 2.0

_ASIDE, _FRESH = ".before-", ".restoring"


@dataclass(frozen=True, slots=True)
class BackupFile:
    """What a backup holds."""

    path: Path
    size: int
    #: The schema's revision.
    revision: str
    #: What tells its ledger from others (`ledger.tenants.ledger_name`); None for one that never had memories.
    ledger: str | None
    memories: int
    jobs: int
    #: When the newest turn in it was accepted, as ISO-8601; None where there is none.
    newest_turn: str | None


def take_backup(ledger: Path, target: Path) -> BackupFile:
    """Writes *ledger* as it is at this moment to *target*, a new file for this user only, and checks it. Writers are not held up.

    Raises InvalidInput where the target is there already, ConfigurationError where it can't be written, ServiceUnavailable where
    the ledger can't be read or the copy is not sound.
    """
    if not ledger.exists():
        raise ConfigurationError(f"There is no ledger at {ledger}: nothing was backed up.")
    if target.exists():
        raise InvalidInput(f"{target} is there already: a backup overwrites nothing. Give another name.")
    part = target.with_name(target.name + ".part")
    _copy(ledger, part)
    try:
        found = read_backup(part)
        os.link(part, target)  # unlike a rename it overwrites nothing
    except FileExistsError:
        raise InvalidInput(f"{target} is there already: a backup overwrites nothing. Give another name.") from None
    except OSError as error:
        raise ConfigurationError(f"The backup can't be written to {target} ({error.strerror}).") from error
    finally:
        part.unlink(missing_ok=True)
    _sync(target.parent)
    return BackupFile(target, found.size, found.revision, found.ledger, found.memories, found.jobs, found.newest_turn)


def read_backup(path: Path) -> BackupFile:
    """What a backup holds, after a check of all its pages and references. Raises InvalidInput for what is no sound backup of a ledger."""
    if not path.is_file():
        raise InvalidInput(f"There is no backup at {path}.")
    try:
        with closing(_connect(path, "ro")) as source:
            problems = [row[0] for row in source.execute("PRAGMA integrity_check(3)") if row[0] != "ok"]
            if not problems and source.execute("PRAGMA foreign_key_check").fetchone() is not None:
                problems = ["a row names another one that is not there"]
            if problems:
                raise InvalidInput(f"{path} is damaged ({problems[0].splitlines()[0]}): it was not used.")
            (revision,) = source.execute("SELECT version_num FROM alembic_version").fetchone()
            name = source.execute("SELECT value FROM ledger_meta WHERE key = 'name'").fetchone()
            (memories,) = source.execute("SELECT count(*) FROM memories WHERE state = 'live'").fetchone()
            jobs, newest = source.execute("SELECT count(*), max(accepted_at) FROM jobs").fetchone()
    except (sqlite3.DatabaseError, TypeError) as error:
        raise InvalidInput(f"{path} is no backup of a ledger ({type(error).__name__}): it was not used.") from error
    return BackupFile(path, path.stat().st_size, revision, None if name is None else name[0], memories, jobs, newest)


def aside_of(ledger: Path, now: datetime) -> Path:
    """Where the ledger goes that a restore at *now* replaces."""
    return ledger.with_name(f"{ledger.name}{_ASIDE}{now:%Y%m%dT%H%M%S%f}")


def left_beside(ledger: Path) -> list[Path]:
    """Whole ledgers that restores have left beside *ledger*: what was there before, and what one that was killed has copied."""
    if not ledger.parent.is_dir():
        return []
    return sorted(path for path in ledger.parent.iterdir() if path.name.startswith((ledger.name + _ASIDE, ledger.name + _FRESH)))


def put_back(backup: BackupFile, ledger: Path, *, aside: Path) -> bool:
    """Puts a backup in the place of *ledger*, whose file goes to *aside*; False where there was none.

    Raises ServiceUnavailable where a process has the ledger open, and where there is no room; nothing was changed then.
    """
    fresh = ledger.with_name(ledger.name + _FRESH)
    fresh.unlink(missing_ok=True)
    _copy(backup.path, fresh)
    try:
        was_there = ledger.exists()
        if was_there:
            with _alone(ledger):
                ledger.rename(aside)
                for end in ("-wal", "-shm", "-journal"):  # of a damaged file; a sound one has none by now
                    if (log := Path(f"{ledger}{end}")).exists():
                        log.rename(f"{aside}{end}")
                fresh.replace(ledger)  # while the former one is shut: nobody finds the place empty, and makes a ledger there
        else:
            fresh.replace(ledger)
    finally:
        fresh.unlink(missing_ok=True)
    _sync(ledger.parent)
    return was_there


def _copy(source: Path, target: Path) -> None:
    """A consistent copy in one file of mode 0600, on disk."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise ConfigurationError(f"{target} is there: another run writes it, or one was killed. Remove it, then try again.") from None
    except OSError as error:
        raise ConfigurationError(f"{target} can't be written ({error.strerror}).") from error
    whole = False
    try:
        with closing(_connect(source, "rw")) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)  # one read transaction: writers go on beside it
            new.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        whole = True
    except sqlite3.Error as error:
        raise ServiceUnavailable(f"{source} can't be copied to {target} ({error}).") from error
    finally:
        if not whole:  # also at Ctrl-C: it would stand in the way of the next one, and hold what an erasure does not reach
            target.unlink(missing_ok=True)
    descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _alone(ledger: Path) -> Iterator[None]:
    """Nobody else has the ledger open: only then does SQLite leave write-ahead logging, and keep all others out afterwards."""
    with closing(sqlite3.connect(ledger, timeout=_PATIENCE, isolation_level=None)) as own:
        try:
            (mode,) = own.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode == "delete":
                own.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            code = error.sqlite_errorcode & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                mode = "delete"  # it is damaged: that is why a backup is put back
            elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                mode = "in use"
            else:
                raise ServiceUnavailable(f"{ledger} can't be taken out of use ({error}).") from error
        if mode != "delete":
            raise ServiceUnavailable(f"A process has {ledger} open: end all that use it, workers and applications, then try again.")
        yield


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=30)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
