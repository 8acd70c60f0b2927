"""Doctor's look at what keeps: home folder, ledger, Redis and its workers, spool."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memline.cli.findings import Finding, State
from memline.contracts.errors import EvictingRedis, MemlineError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from memline.compose import House
    from memline.ledger.meta import Move
    from memline.ledger.session import Ledger

__all__ = ["LedgerFound", "examine_ledger", "home", "redis", "spool"]

#: Free bytes of the home folder's disk below which doctor warns, and below which it calls it bad.
LITTLE_SPACE, NO_SPACE = 1 << 30, 50 << 20

#: Seconds in which a worker has to answer.
WORKERS_ANSWER = 1.0


@dataclass(slots=True)
class LedgerFound:
    """What the ledger said."""

    findings: list[Finding] = field(default_factory=list)
    #: Model and dimension of its vectors; None before the first.
    embedder: tuple[str, int] | None = None
    #: To another embedder, begun and not at its end.
    move: Move | None = None
    counters: dict[str, int] = field(default_factory=dict)


def home(house: House) -> Finding:
    """Whether the home folder can be written, and how much room its disk has. Nothing is left behind."""
    folder = house.settings.home_folder()
    existing = folder
    while not _is_there(existing) and existing != existing.parent:
        existing = existing.parent
    hint = "Set its permissions, or name another folder in MEMLINE_HOME."
    try:
        if not existing.is_dir():
            return Finding("home", State.BAD, f"{existing} is not a folder", "Name a folder in MEMLINE_HOME.")
        if existing == folder:
            with tempfile.TemporaryFile(dir=folder):
                pass
        elif not os.access(existing, os.W_OK | os.X_OK):
            return Finding("home", State.BAD, f"{folder} can't be made: {existing} is not writable", hint)
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return Finding("home", State.BAD, f"{folder} can't be written ({error.strerror})", hint)
    detail = f"{folder}, {_size(free)} free" + ("" if existing == folder else ", made at the first use")
    if free < LITTLE_SPACE:
        return Finding("home", State.BAD if free < NO_SPACE else State.WARN, detail, "Make room on this disk.")
    return Finding("home", State.OK, detail)


def examine_ledger(house: House) -> LedgerFound:
    """The ledger's kind, schema and counts. One that is not there yet is not made."""
    from memline.ledger.session import Ledger

    found = LedgerFound()
    try:
        ledger = Ledger(house.settings.ledger_location())
    except MemlineError as error:
        found.findings.append(Finding("ledger", State.BAD, str(error), "Correct MEMLINE_LEDGER_URL."))
        return found
    with closing(ledger):
        if ledger.path and not _is_there(Path(ledger.path)):
            found.findings.append(Finding("ledger", State.OK, f"SQLite {sqlite3.sqlite_version}, {ledger.path}: made at the first use"))
            return found
        try:
            _read_ledger(ledger, house.settings.namespace, found)
        except MemlineError as error:
            hint = "" if ledger.is_sqlite else "Start it, or correct MEMLINE_LEDGER_URL."  # of a file the error says all
            found.findings.append(Finding("ledger", State.BAD, str(error), hint))
    return found


def _is_there(path: Path) -> bool:
    """Whether it exists, as far as this user may see; what keeps the user out is told of the home folder."""
    try:
        return path.exists()
    except OSError:
        return False


def _read_ledger(ledger: Ledger, namespace: str, found: LedgerFound) -> None:
    from memline.ledger.counters import read_counters
    from memline.ledger.jobs import list_jobs
    from memline.ledger.memories import count_memories
    from memline.ledger.meta import embedders
    from memline.ledger.migrate import HEAD, schema_revision
    from memline.ledger.outbox import outbox_size
    from memline.ledger.pending import pending_work

    with ledger.read() as connection:
        kind = _server_of(ledger, connection)
        revision = schema_revision(connection)
        if revision is None:
            found.findings.append(Finding("ledger", State.OK, f"{kind}, {ledger.shown_url}: empty, filled at the first use"))
            return
        if revision != HEAD:
            hint = "Back it up, then run `memline migrate`." if revision < HEAD else "Upgrade memline."
            detail = f"{kind}, {ledger.shown_url}: schema {revision}, this memline needs {HEAD}"
            found.findings.append(Finding("ledger", State.BAD, detail, hint))
            return
        memories, (unfinished, _) = count_memories(connection, namespace), pending_work(connection, namespace)
        failed = len(list_jobs(connection, namespace, state="failed", limit=_MOST_FAILED))
        waiting, parked = outbox_size(connection)
        known, found.counters = embedders(connection), read_counters(connection)
        found.embedder, found.move = known.own, known.move
    many = "1 memory" if memories == 1 else f"{memories} memories"
    found.findings.append(Finding("ledger", State.OK, f"{kind}, {ledger.shown_url}, schema {revision}; namespace {namespace}: {many}"))
    found.findings.append(_jobs(unfinished, failed))
    found.findings.append(_outbox(waiting, parked))


_MOST_FAILED = 1000


def _jobs(unfinished: int, failed: int) -> Finding:
    many = f"{failed}{' or more' if failed == _MOST_FAILED else ''}"
    if failed:
        hint = "`memline jobs --state failed` shows the reasons, `memline jobs retry ID` tries again."
        return Finding("jobs", State.WARN, f"{unfinished} on their way, {many} failed", hint)
    return Finding("jobs", State.OK, f"{unfinished} on their way, none failed")


def _outbox(waiting: int, parked: int) -> Finding:
    if parked:
        detail = f"{waiting} objects wait for the index, {parked} were set aside after too many failures"
        return Finding("outbox", State.WARN, detail, "The index refused them: searches fall back on the ledger for these.")
    return Finding("outbox", State.OK, f"{waiting} objects wait for the index")


def redis(house: House) -> list[Finding]:
    """Redis with its policy, the stream, and the workers that answer; nothing where it is not set."""
    url = house.settings.redis_url
    if url is None:
        return []
    from memline.producer import TurnStream

    with closing(TurnStream(url.get_secret_value(), prefix=house.settings.redis_prefix)) as stream:
        try:
            stream.ping()
            warning = stream.check_policy()
            length = stream.length()
            version = _redis_version(url.get_secret_value())
        except EvictingRedis as error:
            return [Finding("redis", State.BAD, str(error), "It may drop turns: no worker starts on it.")]
        except MemlineError as error:
            return [Finding("redis", State.BAD, str(error), "Turns go to this machine's spool until it answers.")]
    detail = f"{version} at {stream.place}, {length} turns in its stream"
    if warning:
        return [Finding("redis", State.WARN, detail, warning), _workers(house, url.get_secret_value())]
    return [Finding("redis", State.OK, f"{detail}, noeviction"), _workers(house, url.get_secret_value())]


def _workers(house: House, url: str) -> Finding:
    from kombu.exceptions import OperationalError

    from memline.workers.celery_app import make_app

    app = make_app(url, prefix=house.settings.redis_prefix)
    try:
        answers: dict[str, Any] = app.control.inspect(timeout=WORKERS_ANSWER).ping() or {}
    except OperationalError as error:
        return Finding("workers", State.WARN, f"they can't be asked ({type(error).__name__})", "Redis answered a moment ago: ask again.")
    finally:
        app.close()
    if not answers:
        return Finding("workers", State.WARN, "none answers", "Start one: `memline worker`. Turns wait in Redis until then.")
    return Finding("workers", State.OK, f"{len(answers)} answer: {', '.join(sorted(answers))}")


def spool(house: House) -> list[Finding]:
    """Turns on this disk; nothing where Redis was never set and none waits."""
    from memline.producer import Spool

    try:
        files = Spool(house.settings.home_folder() / "spool").status()
    except MemlineError as error:
        return [Finding("spool", State.BAD, str(error))]
    turns = sum(file.turns for file in files)
    left = sum(file.turns for file in files if not file.owner_alive)
    if left:
        detail = f"{turns} turns wait on this disk, {left} of them left by processes that are gone"
        return [Finding("spool", State.WARN, detail, "`memline spool send` sends them.")]
    if turns:
        return [Finding("spool", State.WARN, f"{turns} turns wait on this disk for Redis", "Their process sends them once Redis answers.")]
    return [Finding("spool", State.OK, "empty")] if house.uses_redis else []


def _server_of(ledger: Ledger, connection: Connection) -> str:
    if ledger.is_sqlite:
        return f"SQLite {sqlite3.sqlite_version}"
    version = connection.exec_driver_sql("SHOW server_version").scalar_one()
    return f"PostgreSQL {str(version).split()[0]}"


def _redis_version(url: str) -> str:
    """Its name and version, as far as it tells."""
    import redis as client_library

    with client_library.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1) as client:
        try:
            told = client.info("server")
        except client_library.RedisError:  # a managed one may forbid INFO
            return "Redis"
    name = "Valkey" if told.get("server_name") == "valkey" else "Redis"
    return f"{name} {told.get('valkey_version') or told.get('redis_version') or ''}".strip()


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"
