"""`python -m ops.stack`: starts the services, says what runs where, waits, and ends them in order at Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ops.stack.compose import MissingVariable, Service, WrongPort, read_env_file, read_services, start_order
from ops.stack.here import Here, PortTaken
from ops.stack.processes import Failed, Running
from ops.stack.recipes import ROOT, Unavailable, available, recipe_of
from ops.stack.secrets import write_env

#: What each service shows to a person, by the port inside its container.
_PAGES = {("flower", 5555): "", ("metrics", 9464): "/metrics", ("prometheus", 9090): "", ("weaviate", 8080): ""}

#: What an application needs of the settings of memline's own processes.
_OF_AN_APPLICATION = (
    *("MEMLINE_HOME", "MEMLINE_REDIS_URL", "MEMLINE_LEDGER_URL", "MEMLINE_WEAVIATE_URL", "MEMLINE_WEAVIATE_API_KEY"),
    *("MEMLINE_WEAVIATE_GRPC_URL", "MEMLINE_OPENAI_API_KEY", "MEMLINE_OPENAI_BASE_URL", "MEMLINE_ERASE_KEY", "MEMLINE_CHAT_MODEL"),
    *("MEMLINE_EMBEDDING_MODEL", "MEMLINE_EMBEDDING_DIMENSION"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the stack until it is told to end; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ops.stack", description=__doc__)
    parser.add_argument("--state", type=Path, default=ROOT / ".memline-stack", help="folder of the stack's data, logs and settings")
    parser.add_argument("--env-file", type=Path, default=ROOT / ".env", help="made from .env.example where it is missing")
    parser.add_argument("--free-ports", action="store_true", help="take ports that are free instead of those in .env")
    parser.add_argument("--without", action="append", default=[], metavar="SERVICE", help="leave a service out (may be repeated)")
    options = parser.parse_args(arguments)
    state: Path = options.state.resolve()
    state.mkdir(parents=True, exist_ok=True, mode=0o711)
    with (state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"A stack of {state} runs already.")
            return 1
        env_file: Path = options.env_file
        try:
            if write_env(env_file):
                say(f"Secrets were drawn and written to {env_file}.")
            variables = read_env_file(env_file)
        except (OSError, UnicodeDecodeError) as error:
            say(f"✗ The settings in {env_file} can't be read or made ({getattr(error, 'strerror', None) or 'no text in UTF-8'}).")
            return 1
        try:
            return _run(state, variables, set(options.without), free_ports=options.free_ports)
        except MissingVariable as error:
            say(f"✗ {env_file} does not set {error.name}: add the line, as .env.example has it, with a secret of letters and digits.")
            return 1
        except (WrongPort, PortTaken, Unavailable, Failed) as error:
            say(f"✗ {error}")
            return 1


def say(line: str) -> None:
    """A line on stderr, whole."""
    print(line, file=sys.stderr, flush=True)


def _run(state: Path, variables: Mapping[str, str], without: set[str], *, free_ports: bool) -> int:
    signals: list[int] = []
    running = Running(state / "log", lambda: bool(signals))

    def heard(number: int, _frame: object) -> None:
        signals.append(number)
        if len(signals) > 1:
            running.kill()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, heard)
    described = read_services(ROOT / "docker-compose.yml", {**variables, **os.environ})
    if unknown := without - set(described):
        raise Unavailable(f"there is no service {', '.join(sorted(unknown))} to leave out; there are {', '.join(described)}")
    missing = {name: "left out" if name in without else available(service) for name, service in described.items()}
    services = {name: service for name, service in described.items() if missing[name] is None}
    for name in {other for service in services.values() if service.own for other in service.depends_on} - set(services) - {"weaviate"}:
        raise Unavailable(f"{name} can't run here, and memline needs it: {missing[name]}")
    services = {name: _among(service, services) for name, service in services.items()}
    here = Here(described, services, ROOT, state, free_ports=free_ports)
    try:
        for wave in start_order(services):
            for name in () if signals else wave:
                running.start(services[name], recipe_of(services[name], here, services))
            for name in wave:
                if not signals:
                    running.wait(name)
        if not signals:
            _write_settings(state / "env", services, here)
            Console(stderr=True, highlight=False).print(_table(described, services, missing, here, running))
            say(f"Logs: {state / 'log'}")
            say(f"An application's settings: set -a; . {state / 'env'}; set +a")
            say("ready: Ctrl-C ends it")
        while not signals:
            for said in running.revive():
                say(f"! {said}")
            time.sleep(0.2)
    finally:
        say("ending …")
        running.end(say)
    say("ended: nothing runs any more")
    return 0


def _among(service: Service, services: Mapping[str, Service]) -> Service:
    """*service*, waiting for those only that run here."""
    return replace(service, depends_on={name: how for name, how in service.depends_on.items() if name in services})


def _write_settings(path: Path, services: Mapping[str, Service], here: Here) -> None:
    """What an application that uses this stack has to set; it holds secrets, so it is its owner's alone."""
    settings = {name: here.text("accept", value) for name, value in services["accept"].environment.items() if name in _OF_AN_APPLICATION}
    if "weaviate" not in services:
        settings = {name: value for name, value in settings.items() if not name.startswith("MEMLINE_WEAVIATE_")}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in settings.items())


def _table(
    described: Mapping[str, Service], services: Mapping[str, Service], missing: Mapping[str, str | None], here: Here, running: Running
) -> Table:
    table = Table(title="memline's services on this machine", title_justify="left")
    for column in ("service", "pid", "where"):
        table.add_column(column, overflow="fold")
    for name, service in described.items():
        if name not in services:
            table.add_row(name, "", f"[yellow]not here: {missing[name]}[/]")
            continue
        pages = [f"http://127.0.0.1:{here.port(name, port)}{path}" for (owner, port), path in _PAGES.items() if owner == name]
        plain = [f"127.0.0.1:{port}" for port in here.ports(name)]
        where = pages or ([f"counts at http://{place}/metrics" for place in plain] if service.own else plain)
        table.add_row(name, "done" if service.once else str(running.pid(name)), "" if service.once else " ".join(where))
    return table


if __name__ == "__main__":
    sys.exit(main())
