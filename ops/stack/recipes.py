"""How each service becomes a process of this machine: the command, what it needs before, and how one sees that it works."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ops.stack.compose import Service
from ops.stack.here import Here, free_pair, free_port

__all__ = ["Recipe", "Unavailable", "available", "recipe_of"]

ROOT = Path(__file__).parents[2]

#: Of the surroundings' variables, what memline would read as a setting.
_OURS = ("MEMLINE_", "OPENAI_", "FLOWER_")


class Unavailable(Exception):
    """The program behind a service is not on this machine; says what to install."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A process to start."""

    command: list[str]
    environment: Mapping[str, str]
    #: Whether it works; called again and again until it does.
    works: Callable[[], bool]
    #: Further arguments of `subprocess.Popen`.
    how: Mapping[str, Any] = field(default_factory=dict)
    #: Done once, when it works.
    after: Callable[[], None] = lambda: None


def available(service: Service) -> str | None:
    """None where the service can run here; else what is missing, in words."""
    try:
        if not service.own:
            _program(service.name)
    except Unavailable as missing:
        return str(missing)
    return None


def recipe_of(service: Service, here: Here, running: Mapping[str, Service]) -> Recipe:
    """The process of *service*. Raises Unavailable."""
    if service.own:
        return _memline(service, here, running)
    return _SERVERS[service.name](service, here, running)


def _program(name: str) -> Path:
    """The program of a server; raises Unavailable."""
    from tests.services import postgres_binaries, redis_binary

    try:
        if name == "redis":
            return Path(redis_binary())
        if name == "postgres":
            return postgres_binaries() / "postgres"
    except RuntimeError as missing:
        raise Unavailable(str(missing)) from None
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"no `{name}` on the PATH")
    return Path(found)


def _surroundings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def _memline(service: Service, here: Here, running: Mapping[str, Service]) -> Recipe:
    settings = {name: here.text(service.name, value) for name, value in service.environment.items()}
    if "weaviate" not in running:
        settings = {name: value for name, value in settings.items() if not name.startswith("MEMLINE_WEAVIATE_")}
    environment = _surroundings() | settings | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    memline = [sys.executable, "-m", "memline"]
    check = [here.text(service.name, word) for word in service.healthcheck[1:]]
    address = _address(check)

    def healthy() -> bool:
        if address is not None:
            return _answers(address)
        done = subprocess.run([*memline, *check[1:]], env=environment, capture_output=True, timeout=60, check=False)  # noqa: S603
        return done.returncode == 0

    command = [*memline, *(here.text(service.name, argument) for argument in service.command)]
    return Recipe(command, environment, healthy if check else lambda: True)


def _redis(service: Service, here: Here, _running: Mapping[str, Service]) -> Recipe:
    import redis

    port, (folder,) = here.port("redis", 6379), [here.folder("redis", place) for place in service.volumes]
    password = service.environment["REDISCLI_AUTH"]

    def works() -> bool:
        try:
            with redis.Redis(port=port, password=password) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    where = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    return Recipe([str(_program("redis")), *service.command[1:], *where], _surroundings(), works)


def _postgres(service: Service, here: Here, _running: Mapping[str, Service]) -> Recipe:
    import psycopg

    from tests.services import within_reach

    port, (folder,) = here.port("postgres", 5432), [here.folder("postgres", place) for place in service.volumes]
    user, password, database = (service.environment[f"POSTGRES_{name}"] for name in ("USER", "PASSWORD", "DB"))
    how: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        how |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    binaries = within_reach(_program("postgres").parent, folder) if not (folder / "site").exists() else folder / "site"
    if binaries == folder / "site":  # the copy of an earlier start
        binaries = next(binaries.glob("*/pginstall/bin"))
    data = folder / "data"
    if not (data / "PG_VERSION").exists():
        secret = folder / "password"
        secret.write_text(password, encoding="utf-8")
        secret.chmod(0o644)  # `nobody` reads it, in a folder that only the two may enter
        initdb = [str(binaries / "initdb"), "-D", str(data), "-U", user, "--auth=scram-sha-256", f"--pwfile={secret}"]
        made = subprocess.run([*initdb, "--encoding=UTF8", "--no-locale"], capture_output=True, text=True, check=False, **how)  # noqa: S603
        secret.unlink()
        if made.returncode:
            raise Unavailable(f"initdb failed: {made.stderr.strip()[-300:]}")

    def works() -> bool:
        try:
            psycopg.connect(host="127.0.0.1", port=port, user=user, password=password, dbname="postgres", connect_timeout=3).close()
        except psycopg.OperationalError:
            return False
        return True

    def make_database() -> None:
        with psycopg.connect(
            host="127.0.0.1", port=port, user=user, password=password, dbname="postgres", autocommit=True, connect_timeout=10
        ) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone() is None:
                connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(database)))

    where = ["-D", str(data), "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    return Recipe([str(binaries / "postgres"), *service.command[1:], *where], _surroundings(), works, how, make_database)


def _weaviate(service: Service, here: Here, _running: Mapping[str, Service]) -> Recipe:
    # kept over restarts: a node that comes back elsewhere finds no leader, not even itself
    (folder,) = (here.folder("weaviate", place) for place in service.volumes)
    kept = folder.with_name("weaviate-ports.json")
    if not kept.exists():
        gossip, raft = free_pair(), free_pair()  # the port behind each is for the node's data, whatever another setting says
        inner = {"GO_PROFILING_PORT": free_port(), "CLUSTER_GOSSIP_BIND_PORT": gossip, "CLUSTER_DATA_BIND_PORT": gossip + 1}
        kept.write_text(json.dumps(inner | {"RAFT_PORT": raft, "RAFT_INTERNAL_RPC_PORT": raft + 1}), encoding="utf-8")
    alone = {"CLUSTER_ADVERTISE_ADDR": "127.0.0.1", "CLUSTER_IN_LOCALHOST": "true", "RAFT_BOOTSTRAP_EXPECT": "1"}
    environment = {
        **_surroundings(),
        **{name: here.text("weaviate", value) for name, value in service.environment.items()},
        **alone,
        **{name: str(port) for name, port in json.loads(kept.read_text(encoding="utf-8")).items()},
        "GRPC_PORT": str(here.port("weaviate", 50051)),
    }
    return _served(service, here, environment)


def _prometheus(service: Service, here: Here, running: Mapping[str, Service]) -> Recipe:
    """Prometheus, with the targets of its configuration in local words."""
    (config,) = (here.folder("prometheus", place) for place, source in service.volumes.items() if source.startswith("./"))
    (data,) = (here.folder("prometheus", place) for place, source in service.volumes.items() if not source.startswith("./"))
    copy = data.parent / "prometheus-config"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(config, copy)
    file = copy / "prometheus.yml"
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    for scrape in document["scrape_configs"]:
        for group in scrape.get("static_configs", []):
            group["targets"] = [here.text("prometheus", target) for target in group["targets"]]
        named = [(name, found["port"]) for found in scrape.pop("dns_sd_configs", []) for name in found["names"]]
        if named:
            targets = [f"127.0.0.1:{here.port(name, port)}" for name, port in named if name in running]
            scrape["static_configs"] = [*scrape.get("static_configs", []), {"targets": targets}]
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    found = _served(service, here, _surroundings())
    return Recipe([argument.replace(str(config), str(copy)) for argument in found.command], found.environment, found.works)


def _served(service: Service, here: Here, environment: Mapping[str, str]) -> Recipe:
    """A server that is its command, and works when the address in its health check answers."""
    address = _address([here.text(service.name, word) for word in service.healthcheck])
    assert address is not None
    command = [str(_program(service.name)), *(here.text(service.name, argument) for argument in service.command)]
    return Recipe(command, environment, lambda: _answers(address))


_SERVERS: dict[str, Callable[[Service, Here, Mapping[str, Service]], Recipe]] = {
    "redis": _redis,
    "postgres": _postgres,
    "weaviate": _weaviate,
    "prometheus": _prometheus,
}


def _address(words: list[str]) -> str | None:
    """The address in a health check that fetches one."""
    found = [part for word in words for part in word.replace("'", " ").split() if part.startswith("http://")]
    return found[0] if found else None


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
