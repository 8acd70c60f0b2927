"""A real Weaviate for tests: one that is named, a server binary that is started here, or a container.

`reach()` takes the first of these that there is. A server that is started here has ports and a folder of its own on loopback, and is
killed by its process id.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.services import free_port

__all__ = ["NO_WEAVIATE", "Reached", "WeaviateServer", "free_ports", "reach", "weaviate_binary"]

#: Why a test that needs Weaviate did not run.
NO_WEAVIATE = (
    "no Weaviate is reachable, so the weaviate backend was NOT tested: set MEMLINE_TEST_WEAVIATE_URL, put a `weaviate` server binary on "
    "the PATH, or start docker"
)

#: Read before a test can clear it.
_NAMED = {name: os.environ.get(f"MEMLINE_TEST_WEAVIATE_{name}") for name in ("URL", "GRPC_URL", "API_KEY")}


@dataclass(frozen=True)
class Reached:
    """A Weaviate that answers, as the settings name it."""

    url: str
    grpc_url: str | None
    api_key: str | None = None

    def settings(self) -> dict[str, str]:
        """The variables of a memline that uses it."""
        named = {"URL": self.url, "GRPC_URL": self.grpc_url, "API_KEY": self.api_key}
        return {f"MEMLINE_WEAVIATE_{name}": value for name, value in named.items() if value is not None}


@contextlib.contextmanager
def reach(**variables: str) -> Iterator[Reached | None]:
    """A Weaviate, or None where there is none; *variables* go to the environment of one that is started here."""
    if _NAMED["URL"] is not None:
        yield Reached(_NAMED["URL"], _NAMED["GRPC_URL"], _NAMED["API_KEY"])
    elif weaviate_binary() is not None:
        with WeaviateServer(**variables) as server:
            yield server.reached
    elif _docker("info") is not None:
        with _container(variables) as found:
            yield found
    else:
        yield None


def weaviate_binary() -> str | None:
    """The path of a Weaviate server, or None."""
    return shutil.which("weaviate")


def free_ports(number: int) -> list[int]:
    """That many TCP ports of the loopback interface that nobody listens on now, all different, and none that a connection may take."""
    return [free_port() for _ in range(number)]


def _two_free_ports() -> int:
    """A port that is free and has a free one behind it."""
    while True:
        port = free_ports(1)[0]
        with contextlib.suppress(OSError, OverflowError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port


class WeaviateServer:
    """A Weaviate of one's own: `with WeaviateServer() as server: ... server.url, server.grpc_port`.

    *variables* go to its environment (`QUERY_MAXIMUM_RESULTS="50"`). Every port is its own, so that several run side by side; the ports
    stay the same over restarts.
    """

    def __init__(self, **variables: str) -> None:
        self.variables = variables
        self.port, self.grpc_port, profiling = free_ports(3)
        # a node in localhost takes the port behind RAFT_PORT for its RPC, whatever RAFT_INTERNAL_RPC_PORT says
        gossip, raft = _two_free_ports(), _two_free_ports()
        self._ports = {
            "CLUSTER_GOSSIP_BIND_PORT": gossip,
            "CLUSTER_DATA_BIND_PORT": gossip + 1,
            "RAFT_PORT": raft,
            "RAFT_INTERNAL_RPC_PORT": raft + 1,
            "GO_PROFILING_PORT": profiling,
        }
        self._folder = tempfile.TemporaryDirectory(prefix="memline-weaviate-")
        self.folder = Path(self._folder.name)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def reached(self) -> Reached:
        return Reached(self.url, str(self.grpc_port))

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("this WeaviateServer does not run")
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started and not ended by a method of this class."""
        return self._process is not None

    def start(self) -> Self:
        """Start it and wait until it is ready."""
        if self._process is not None:
            raise RuntimeError("this WeaviateServer runs already")
        binary = weaviate_binary()
        if binary is None:
            raise RuntimeError(NO_WEAVIATE)
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [binary, "--host", "127.0.0.1", "--port", str(self.port), "--scheme", "http"],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + 240
        while not _is_ready(self.url):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"weaviate did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """End it as an operator would (SIGTERM)."""
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        self._end(subprocess.Popen.kill)

    def restart(self, *, kill: bool = False) -> None:
        """End it and start it again on the same ports and folder."""
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

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.folder),
            "PERSISTENCE_DATA_PATH": str(self.folder / "data"),
            "DISABLE_TELEMETRY": "true",
            "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
            "DEFAULT_VECTORIZER_MODULE": "none",
            "CLUSTER_HOSTNAME": "node1",
            "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
            "CLUSTER_IN_LOCALHOST": "true",
            "RAFT_BOOTSTRAP_EXPECT": "1",
            "GRPC_PORT": str(self.grpc_port),
            "LOG_LEVEL": "warning",
            # the machine that runs the tests may have a nearly full disk, and would make every collection read-only
            "DISK_USE_READONLY_PERCENTAGE": "0",
            "DISK_USE_WARNING_PERCENTAGE": "0",
            **{name: str(port) for name, port in self._ports.items()},
            **self.variables,
        }

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        how(process)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v1/.well-known/ready", timeout=2) as answer:
            ready: bool = answer.status == 200
            return ready
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def _container(variables: dict[str, str]) -> Iterator[Reached]:
    """The image that docker-compose.yml pins, on ports of loopback that docker chooses."""
    compose = (Path(__file__).parent.parent / "docker-compose.yml").read_text(encoding="utf-8")
    image = re.search(r"image: (\S*/weaviate:\S+)", compose)
    assert image is not None, "docker-compose.yml pins no Weaviate"
    given = {"AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true", "DISABLE_TELEMETRY": "true", "CLUSTER_HOSTNAME": "node1", **variables}
    options = [option for name, value in given.items() for option in ("--env", f"{name}={value}")]
    ports = ("--publish", "127.0.0.1::8080", "--publish", "127.0.0.1::50051")
    container = _docker("run", "--detach", "--rm", *ports, *options, image.group(1), timeout=600)
    if container is None:
        raise RuntimeError(f"docker could not start {image.group(1)}: see `docker run {image.group(1)}`")
    try:
        http, grpc = ((_docker("port", container, port) or "").splitlines()[0].rpartition(":")[2] for port in ("8080", "50051"))
        url = f"http://127.0.0.1:{http}"
        deadline = time.monotonic() + 90
        while not _is_ready(url):
            if time.monotonic() > deadline:
                raise RuntimeError(f"weaviate in the container {container[:12]} did not start")
            time.sleep(0.2)
        yield Reached(url, grpc)
    finally:
        _docker("kill", container)


def _docker(*arguments: str, timeout: float = 20) -> str | None:
    """What a docker command prints; None where there is no docker, or it fails."""
    if shutil.which("docker") is None:
        return None
    try:
        done = subprocess.run(["docker", *arguments], check=False, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
