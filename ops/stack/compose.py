"""Reads docker-compose.yml as `docker compose` does: merge keys, variables with defaults, and those that must be set."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

__all__ = ["MissingVariable", "Service", "WrongPort", "interpolated", "read_env_file", "read_services", "seconds", "start_order"]

#: $$, $NAME, ${NAME}, ${NAME:-default}, ${NAME-default}, ${NAME:?message}, ${NAME?message}.
_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|(?P<plain>\w+)|\{(?P<name>\w+)(?:(?P<how>:?[-?])(?P<rest>[^}]*))?\})")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


class MissingVariable(Exception):
    """A variable that must be set is not."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name} is not set: {message}")
        self.name = name


class WrongPort(Exception):
    """What stands where a port should is none."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service, as far as running it needs it."""

    name: str
    image: str
    #: Built from this checkout: a process of memline.
    own: bool
    command: Sequence[str]
    environment: Mapping[str, str]
    #: By name of the service that goes before: service_started, service_healthy or service_completed_successfully.
    depends_on: Mapping[str, str]
    #: Its ports, container's: this machine's.
    ports: Mapping[int, int]
    #: Where its folders lie: path in the container to the name of a volume, or to a path of the checkout (beginning with ./).
    volumes: Mapping[str, str]
    #: What its check runs; empty where it has none.
    healthcheck: Sequence[str]
    #: Runs to its end, and is not started again.
    once: bool
    #: Seconds between asking it to end and ending it.
    grace: float
    stop_signal: str
    tmpfs: Sequence[str] = field(default=())


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of an .env file: NAME=value, a line each."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split("=", 1) for line in lines if line and not line.startswith("#") and "=" in line]
    return {name.strip(): value.strip().strip("'\"") for name, value in pairs}


def read_services(path: Path, variables: Mapping[str, str]) -> dict[str, Service]:
    """The services of a compose file. Raises MissingVariable and WrongPort."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: _service(name, interpolated(found, variables)) for name, found in document["services"].items()}


def interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """*value* with every variable in its strings replaced. Raises MissingVariable."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _replaced(match, variables), value)
    if isinstance(value, list):
        return [interpolated(item, variables) for item in value]
    if isinstance(value, dict):
        return {key: interpolated(item, variables) for key, item in value.items()}
    return value


def _replaced(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match["escaped"]:
        return "$"
    name, how, rest = match["plain"] or match["name"], match["how"] or "", match["rest"] or ""
    value = variables.get(name)
    unset = value is None or (how.startswith(":") and not value)
    if unset and how.endswith("?"):
        raise MissingVariable(name, rest)
    if unset and how.endswith("-"):
        return rest
    return value or ""


def _service(name: str, found: Mapping[str, Any]) -> Service:
    check = found.get("healthcheck") or {}
    ports = [port.rsplit(":", 2) for port in found.get("ports", [])]
    volumes = [volume.split(":") for volume in found.get("volumes", [])]
    return Service(
        name,
        found["image"],
        own="build" in found,
        command=[str(argument) for argument in found.get("command", [])],
        environment={key: str(value) for key, value in (found.get("environment") or {}).items()},
        depends_on={other: wanted["condition"] for other, wanted in (found.get("depends_on") or {}).items()},
        ports={int(inside): _port(outside, name) for _, outside, inside in ports},
        volumes={parts[1]: parts[0] for parts in volumes},
        healthcheck=check.get("test", []),
        once=found.get("restart") == "no",
        grace=seconds(found.get("stop_grace_period", "10s")),
        stop_signal=found.get("stop_signal", "SIGTERM"),
        tmpfs=[place.split(":")[0] for place in found.get("tmpfs", [])],
    )


def _port(given: str, name: str) -> int:
    if given.isascii() and given.isdigit() and 0 < int(given[:6]) < 65536:
        return int(given)
    raise WrongPort(f"The port of {name} must be a number from 1 to 65535, not {given!r}: correct it in .env.")


def seconds(duration: str) -> float:
    """A duration of the specification (1h30m, 40s, 500ms) in seconds; ValueError for what is none."""
    match = _DURATION.fullmatch(duration)
    if match is None or not duration:
        raise ValueError(f"{duration} is no duration: write 40s, 1m30s or 500ms.")
    hours, minutes, whole, thousandths = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + whole + thousandths / 1000


def start_order(services: Mapping[str, Service]) -> list[list[str]]:
    """Names in waves: each service stands in a later one than all it depends on. ValueError where they go in a circle."""
    waves: list[list[str]] = []
    placed: set[str] = set()
    while len(placed) < len(services):
        wave = [name for name, service in services.items() if name not in placed and set(service.depends_on) <= placed]
        if not wave:
            raise ValueError(f"These services wait for each other: {', '.join(sorted(set(services) - placed))}.")
        waves.append(wave)
        placed |= set(wave)
    return waves
