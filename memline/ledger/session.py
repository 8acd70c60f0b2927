"""Connections to the ledger: one engine a process, read and write transactions, upserts that both databases understand."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, TimeoutError

from memline.contracts.errors import ConfigurationError, MissingPackage, ServiceUnavailable
from memline.contracts.fork_gate import ForkGate

__all__ = ["BUSY_TIMEOUT", "Ledger", "before_commit", "insert", "when_committed"]

#: Seconds that a SQLite writer waits for another process before it gives up.
BUSY_TIMEOUT = 30.0

_WRITE = "memline_write"
_WAL_PAUSE = 0.02

#: A server that vanished without a word (its machine lost power, a firewall forgot the connection) is noticed within half a minute, so
#: that threads which wait for it come back.
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}

#: PostgreSQL's codes for a value or a statement that is too large: psycopg calls them operational, but no other try will help.
_OWN_FAULT = ("54000", "54001", "54011", "54023")


class Ledger:
    """The ledger behind one URL (`sqlite:///path` or `postgresql://…`).

    Safe for threads. A forked child gets connections of its own; a fork waits up to `BUSY_TIMEOUT` for transactions of other threads.
    """

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):  # the latter for a port that is no number
            raise ConfigurationError(
                "MEMLINE_LEDGER_URL is not a database URL: use sqlite:///path/to/ledger.db or postgresql://user@host/db."
            ) from None
        backend = parsed.get_backend_name()
        if backend == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        elif backend != "sqlite":
            raise ConfigurationError(f"MEMLINE_LEDGER_URL names {backend}: the ledger is SQLite or PostgreSQL.")
        self.is_sqlite = backend == "sqlite"
        self.path: str | None = parsed.database if self.is_sqlite else None
        if self.is_sqlite and self.path in (None, "", ":memory:"):
            raise ConfigurationError("MEMLINE_LEDGER_URL names no file: each connection would have a ledger of its own. Name a path.")
        self.shown_url = parsed.render_as_string(hide_password=True)
        try:
            if self.is_sqlite:
                # hide_parameters: the text of a memory never stands in an error or a log
                self.engine = sa.create_engine(
                    parsed, hide_parameters=True, connect_args={"timeout": BUSY_TIMEOUT, "check_same_thread": False}
                )
                event.listen(self.engine, "connect", _sqlite_connect)
                event.listen(self.engine, "begin", _sqlite_begin)
            else:
                self.engine = sa.create_engine(
                    parsed,
                    hide_parameters=True,
                    pool_size=pool_size,
                    max_overflow=pool_size,
                    pool_timeout=30,
                    pool_pre_ping=True,
                    connect_args={"connect_timeout": 10, **_ALIVE},
                )
        except ImportError as error:
            raise MissingPackage("A PostgreSQL ledger needs psycopg: install memline[postgres].") from error
        # SQLite has one writer; threads of this process queue here fairly instead of polling the file's lock.
        self._writer = threading.RLock()
        _ledgers.add(self)

    def make_file(self) -> None:
        """Makes the SQLite file and its folder, if they are not there, for this user only; nothing for PostgreSQL.

        Raises ConfigurationError where they can't be made.
        """
        if self.path is None:
            return
        file = Path(self.path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not file.exists():
                file.touch(mode=0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The file {file} can't be made ({error.strerror}): set the permissions of its folder, or name another one "
                "in MEMLINE_HOME or MEMLINE_LEDGER_URL."
            ) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read transaction; a write in it is an error of the programmer."""
        with _TRANSACTIONS.passing(), self._named_errors(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A write transaction: committed when the block ends, rolled back when it raises."""
        if not self.is_sqlite:
            with _TRANSACTIONS.passing(), self._named_errors(), self.engine.begin() as connection:
                _last[connection] = []
                yield connection
                _write_last(connection)
            _tell(connection)
            return
        with self._writer, _TRANSACTIONS.passing(), self._named_errors(), self.engine.connect() as connection:
            connection = connection.execution_options(**{_WRITE: True})
            with connection.begin():
                _last[connection] = []
                yield connection
                _write_last(connection)
        _tell(connection)

    def no_fork(self) -> AbstractContextManager[None]:
        """Around a use of `engine` that is no `read` and no `write`: a fork waits for it, too."""
        return _TRANSACTIONS.passing()

    def close(self) -> None:
        with self.no_fork():
            self.engine.dispose()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turns "can't reach the database" and "the file is damaged" into an error that names it; everything else passes unchanged."""
        try:
            yield
        except TimeoutError as error:
            raise ServiceUnavailable(
                f"All connections of this process to the ledger at {self.shown_url} are in use, and none became free. Nothing was written."
            ) from error
        except (OperationalError, sqlite3.OperationalError) as error:  # the latter while a connection is set up
            cause = error.orig if isinstance(error, OperationalError) else error
            if getattr(cause, "sqlstate", None) in _OWN_FAULT:
                raise
            raise ServiceUnavailable(
                f"The ledger at {self.shown_url} does not answer ({_first_line(cause)}). Nothing was written.{_to_do(cause)}"
            ) from error
        except (DatabaseError, sqlite3.DatabaseError) as error:
            cause = error.orig if isinstance(error, DatabaseError) else error
            if getattr(cause, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
            raise ServiceUnavailable(
                f"The ledger at {self.shown_url} is damaged ({_first_line(cause)}). Nothing was written. Stop what uses it, keep the file, "
                "and put back a backup, or name another file."
            ) from error

    def _before_fork(self) -> None:
        # With a connection that it inherits, even an idle one, a child believes it has its parent's locks of the file, and asks for none:
        # whoever closes the file as the last one it knows of would delete the log into which the child writes.
        if self.is_sqlite:
            self.engine.dispose()

    def _after_fork(self) -> None:
        self._writer = threading.RLock()
        self.engine.dispose(close=False)


def when_committed(tx: Connection, call: Callable[[], None]) -> None:
    """Calls *call* after the commit of a `Ledger.write`; never where it is rolled back, or where the process dies first."""
    _after.setdefault(tx, []).append(call)


def before_commit(tx: Connection, rank: int, call: Callable[[Connection], None]) -> None:
    """Calls *call* with the transaction of a `Ledger.write`, when its block has ended well: for rows that many write, and that are so
    locked in one order by all, and for a moment only. Those of a lower *rank* are written first. It must not keep the transaction.

    Raises KeyError for a transaction of another kind, or one that is over: what was to be written would be lost.
    """
    _last[tx].append((rank, call))


def _write_last(tx: Connection) -> None:
    waiting = _last[tx]
    while waiting:  # what is written last may count
        waiting.sort(key=lambda each: each[0])
        waiting.pop(0)[1](tx)
    del _last[tx]


def _to_do(cause: object) -> str:
    """What helps where a SQLite file can't be used as it lies there; it is written beside also where it is only read."""
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return " Make room on its disk."
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return " Let this user write the file and its folder (memline does so to read, too), or name another one."
    return ""


def _tell(tx: Connection) -> None:
    for call in _after.pop(tx, ()):
        call()


def insert(connection: Connection, table: sa.Table) -> Any:
    """An INSERT that knows ON CONFLICT, for whichever database this is."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def _first_line(cause: BaseException | None) -> str:
    return str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__


def _sqlite_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are opened by _sqlite_begin, not guessed by the driver
    cursor = connection.cursor()
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; see docs/guarantees.md for power loss
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.execute("PRAGMA cache_size = -65536")
    cursor.close()


def _use_wal(cursor: sqlite3.Cursor) -> None:
    """Writes ahead, as every connection to this file does; the first ones may meet while one of them changes the file over."""
    for _ in range(int(BUSY_TIMEOUT / _WAL_PAUSE)):
        try:
            # of this change SQLite says at once that it can't be made now, without the wait that other statements have
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
        time.sleep(_WAL_PAUSE)
    raise sqlite3.OperationalError(f"database is locked: it could not be changed to write-ahead logging for {BUSY_TIMEOUT:g} s")


def _sqlite_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()
#: By transaction, what is to be called after it.
_after: weakref.WeakKeyDictionary[Connection, list[Callable[[], None]]] = weakref.WeakKeyDictionary()
#: By transaction, what is written at its end.
_last: weakref.WeakKeyDictionary[Connection, list[tuple[int, Callable[[Connection], None]]]] = weakref.WeakKeyDictionary()


def _before_fork() -> None:
    for ledger in list(_ledgers):
        ledger._before_fork()


def _after_fork_in_child() -> None:
    for ledger in list(_ledgers):
        ledger._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)

#: A child inherits the notes that SQLite keeps in memory of who holds which lock of a file: it would wait for ever for a transaction that
#: was open in another thread at the fork, and its reads would lean on locks that only its parent has. So a fork waits for transactions.
#: Made after the hooks above: what is registered last is called first before a fork, and idle connections are closed when nobody is inside.
_TRANSACTIONS = ForkGate("a transaction of the ledger", BUSY_TIMEOUT)
