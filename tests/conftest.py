"""What tests share: real servers, empty ledgers, and an environment in which no setting of the machine leaks in.

A server is started when the first test asks for it and ended with the session. One that can't be started is an error with the way
to get it, never a skipped test; but for Weaviate, which no package brings. A test that kills a server starts one of its own
(`tests.services`).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from memline import Memory, Receipt
from memline.ledger.migrate import open_ledger
from memline.ledger.session import Ledger
from tests.patience import PATIENT_CLIENT
from tests.services import PostgresServer, RedisServer
from tests.weaviate_server import NO_WEAVIATE, Reached, reach

# A slow machine is no failure of a property; in CI the examples are the same in each run.
hypothesis.settings.register_profile("memline", deadline=None, print_blob=True, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("memline")

_SERVERS = {"redis_server", "postgres_server", "weaviate_server"}


def pytest_configure() -> None:
    """A shell that starts the tests in the background has them ignore Ctrl-C, as `nohup` does a hang-up, and so would every program that a
    test interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if Path(".env").exists():  # memline's processes read it where they start, and a test must not meet a real key or server
        raise pytest.UsageError("A .env lies in this folder (`make up` and `make stack` write one): move it away while the tests run.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as `services` what asks for a server, so that `-m "not services"` needs none."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if names & _SERVERS or parameters.get("ledger_url") == "postgres" or "weaviate" in parameters.values():
            item.add_marker("services")


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads a key or a URL of the machine, or writes to a user's data folder."""
    with pytest.MonkeyPatch.context() as patch:
        _clear_settings(patch)
        patch.setenv("MEMLINE_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("MEMLINE_SEARCH_DEADLINE", "30")  # a slow machine is no ledger that is down
        # and none on which turns stay for ever: a test that names no time waits for longer than an application does
        patch.setitem(Memory.add.__kwdefaults__, "timeout", 300)
        patch.setattr(Memory.flush, "__defaults__", (300,))
        patch.setattr(Receipt.wait, "__defaults__", (300, "searchable"))
        yield


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command that takes the logging of its process over does so in this process only until its test ends."""
    root = logging.getLogger()
    names = ["memline", "celery", "kombu", "billiard"]
    kept = root.handlers[:], root.level, {name: logging.getLogger(name).level for name in names}
    hooks = sys.excepthook, threading.excepthook, warnings.showwarning, sys.unraisablehook
    yield
    root.handlers[:], root.level = kept[0], kept[1]
    for name, level in kept[2].items():
        logging.getLogger(name).setLevel(level)
    sys.excepthook, threading.excepthook, warnings.showwarning, sys.unraisablehook = hooks
    if "celery.signals" in sys.modules:
        sys.modules["celery.signals"].setup_logging.disconnect(dispatch_uid="memline.logs")


@pytest.fixture
def memline_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder of the test's own, in MEMLINE_HOME; every other MEMLINE_* and OPENAI_* variable is unset."""
    home = tmp_path / "memline-home"
    home.mkdir()
    _clear_settings(monkeypatch)
    monkeypatch.setenv("MEMLINE_HOME", str(home))
    monkeypatch.setenv("MEMLINE_SEARCH_DEADLINE", "30")
    return home


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The session's Redis."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of the session's Redis, which holds nothing."""
    import redis

    with redis.Redis.from_url(redis_server.url, **PATIENT_CLIENT) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def weaviate_server() -> Iterator[Reached]:
    """A Weaviate for the session, with a low cap on results where it is started here; without one the test is skipped, and says so."""
    with reach(QUERY_MAXIMUM_RESULTS="100") as found:
        if found is None:
            pytest.skip(NO_WEAVIATE)
        yield found


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database of the test's own."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database: the test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session")
def _migrated(postgres_server: PostgresServer) -> str:
    """The name of a PostgreSQL database with the newest schema, to make copies of: a copy takes less than a migration."""
    name = postgres_server.create_database()
    opened = Ledger(postgres_server.url(name))
    open_ledger(opened)
    opened.close()
    return name


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger with the newest schema and no rows: the test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        opened = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
        open_ledger(opened)
        yield opened
        opened.close()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.create_database(template=request.getfixturevalue("_migrated"))
    opened = Ledger(server.url(name))
    yield opened
    opened.close()
    server.drop_database(name)


def _clear_settings(patch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("MEMLINE_", "OPENAI_")):
            patch.delenv(name)
