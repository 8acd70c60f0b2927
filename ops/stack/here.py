"""Where the services of the compose file lie on this machine: names of hosts, ports and folders of containers, put in local words."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Collection, Mapping
from pathlib import Path

from ops.stack.compose import Service

__all__ = ["Here", "PortTaken", "free_pair", "free_port"]

#: Settings that name a port at which a service listens, besides those that it publishes.
_PORT_SETTINGS = ("MEMLINE_METRICS_PORT",)


class PortTaken(Exception):
    """Somebody listens there already."""


class Here:
    """Translates what the compose file says of *services* for processes of this machine, whose state lies in *state*."""

    def __init__(self, services: Mapping[str, Service], running: Collection[str], root: Path, state: Path, *, free_ports: bool) -> None:
        self._services = services
        self._root, self._state = root, state
        self._ports: dict[tuple[str, int], int] = {}
        for name in running:
            service = services[name]
            inside = {*service.ports, *(int(service.environment[setting]) for setting in _PORT_SETTINGS if setting in service.environment)}
            for port in sorted(inside):
                published = service.ports.get(port)
                here = free_port(self._ports.values()) if free_ports or published is None else _untaken(published, name)
                self._ports[name, port] = here
        hosts = "|".join(re.escape(name) for name in sorted(running, key=len, reverse=True))
        self._host = re.compile(rf"(?<![\w.-])({hosts}):(\d+)(?!\d)")

    def port(self, name: str, inside: int) -> int:
        """This machine's port of a service's port *inside* its container; KeyError where it has none."""
        return self._ports[name, inside]

    def ports(self, name: str) -> list[int]:
        """All of a service's ports."""
        return [port for (owner, _), port in self._ports.items() if owner == name]

    def folder(self, name: str, place: str) -> Path:
        """The folder that a service sees at *place*; it is made where it is not the checkout's."""
        source = self._services[name].volumes.get(place)
        if source is not None and source.startswith("./"):
            return self._root / source
        folder = self._state / (source or f"tmp/{name}")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def text(self, name: str, value: str) -> str:
        """A setting or an argument of the service *name*, in local words."""
        service = self._services[name]
        if value == "0.0.0.0":  # noqa: S104
            return "127.0.0.1"
        if value.isdigit() and (name, int(value)) in self._ports:
            return str(self._ports[name, int(value)])
        value = self._host.sub(lambda match: f"127.0.0.1:{self._ports.get((match[1], int(match[2])), match[2])}", value)
        value = re.sub(
            r"(?:0\.0\.0\.0|127\.0\.0\.1):(\d+)",
            lambda match: f"127.0.0.1:{self._ports.get((name, int(match[1])), match[1])}",
            value,
        )
        for place in (*service.volumes, *service.tmpfs):
            found = re.compile(rf"(?<![\w./]){re.escape(place)}(?=/|$)")
            if found.search(value):
                value = found.sub(str(self.folder(name, place)).replace("\\", r"\\"), value)
        return value


def free_port(given: Collection[int] = ()) -> int:
    """A port of the loopback interface that nobody listens on now, and that is none of those *given* to others already."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in given:
            return port


def free_pair() -> int:
    """A port that is free and has a free one behind it."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError, OverflowError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port


def _untaken(port: int, name: str) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise PortTaken(
                f"Port {port} of {name} is taken on this machine: name another one in .env (see .env.example), or use --free-ports."
            ) from None
    return port
