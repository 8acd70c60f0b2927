"""How fast a turn is handed over and becomes searchable, with Celery, Redis and PostgreSQL on this machine and a model that answers at
once, and where its time goes: `make bench`.

    python -m bench.speed [--turns 1000] [--scopes 50] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.stages import text, walk
from memline import Memory
from memline.compose import House
from memline.ledger.jobs import STAGES
from memline.settings import load_settings
from tests.integration.path.stacks import celery_stack
from tests.services import PostgresServer, RedisServer

MODEL = {"MEMLINE_EXTRACTOR": "model", "MEMLINE_CHAT_MODEL": "bench.instant:InstantChat"}
LONG = {"MEMLINE_LEASE": "60", "MEMLINE_RESEND": "5", "MEMLINE_MODEL_TIMEOUT": "45"}


def main() -> None:
    """Runs every bench and prints a table."""
    arguments = _arguments()
    figures: dict[str, Any] = {"import memline.producer, ms (median of 5)": _import_time()}
    with RedisServer() as redis, PostgresServer() as postgres, tempfile.TemporaryDirectory() as folder:
        for name, variables in {"model that answers at once": MODEL, "rules": {}}.items():
            home = Path(folder) / name.split()[0]
            with celery_stack(home, redis, postgres, **LONG, **variables) as stack, stack.memory() as memory:
                figures |= {f"{name}: {key}": value for key, value in _through_celery(memory, arguments.turns, arguments.scopes).items()}
        for name, variables in {"model that answers at once": MODEL, "rules": {}}.items():
            url = postgres.url(postgres.create_database())
            settings = load_settings(home=Path(folder) / "stages", ledger_url=url, **fields(variables))
            figures |= {f"{name}: {key}": value for key, value in _by_stage(settings, arguments.turns, arguments.scopes).items()}
        for name, variables in {"rules": {}}.items():
            settings = load_settings(home=Path(folder) / "embedded", **fields(variables))
            figures |= {f"embedded, {name}: {key}": value for key, value in _embedded(settings, arguments.turns, arguments.scopes).items()}
    for key, value in figures.items():
        sys.stdout.write(f"{key:<72} {value:>10.2f}\n")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--scopes", type=int, default=50)
    parser.add_argument("--json")
    return parser.parse_args()


def fields(variables: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("MEMLINE_").lower(): value for name, value in variables.items()}


def _import_time() -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import memline.producer"], check=True)
        middle = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append((middle - started) - (time.perf_counter() - middle))
    return statistics.median(times) * 1000


def _through_celery(memory: Memory, turns: int, scopes: int) -> dict[str, float]:
    memory.add(text(0), user_id="warm", wait=True, timeout=120)
    alone = []
    for number in range(20):
        started = time.perf_counter()
        memory.add(text(number), user_id="alone", wait=True)
        alone.append(time.perf_counter() - started)
    held = []
    started = time.perf_counter()
    for number in range(turns):
        before = time.perf_counter()
        memory.add(text(number), user_id=f"user-{number % scopes}")
        held.append(time.perf_counter() - before)
    memory.flush(600)
    took = time.perf_counter() - started
    return {
        "add on Redis, p50, ms": statistics.median(held) * 1000,
        "add on Redis, p95, ms": sorted(held)[int(turns * 0.95)] * 1000,
        "one turn on an idle system, add to searchable, p50, ms": statistics.median(alone) * 1000,
        f"{turns} turns in {scopes} scopes, turns/s from enqueue to searchable": turns / took,
    }


def _embedded(settings: Any, turns: int, scopes: int) -> dict[str, float]:
    with Memory(settings=settings) as memory:
        memory.add(text(0), user_id="warm", wait=True, timeout=120)
        alone, held = [], []
        for number in range(20):
            started = time.perf_counter()
            memory.add(text(number), user_id="alone", wait=True)
            alone.append(time.perf_counter() - started)
        started = time.perf_counter()
        for number in range(turns):
            before = time.perf_counter()
            memory.add(text(number), user_id=f"user-{number % scopes}")
            held.append(time.perf_counter() - before)
        memory.flush(600)
        took = time.perf_counter() - started
    return {
        "add into the ledger, p50, ms": statistics.median(held) * 1000,
        "one turn on an idle system, add to searchable, p50, ms": statistics.median(alone) * 1000,
        f"{turns} turns in {scopes} scopes, turns/s from enqueue to searchable": turns / took,
    }


def _by_stage(settings: Any, turns: int, scopes: int) -> dict[str, float]:
    """The stages one after the other in this thread, on PostgreSQL, in the batches that a loaded system makes."""
    house = House(settings)
    spent: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        try:
            return call()
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - started

    walk(house, turns, scopes, timed)
    house.close(0)
    order = ["accept", "claim", *(stage.value for stage in STAGES), "relay"]
    return {f"ms a turn in {name}": spent.get(name, 0.0) / turns * 1000 for name in order}


if __name__ == "__main__":
    main()
