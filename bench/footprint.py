"""What a turn costs in CPU by part, and a memory in bytes by table and store: the figures under docs/capacity.md.

    python -m bench.footprint [--turns 5000] [--scopes 250] [--json FILE]

CPU time and not wall clock, so that a busy machine changes little. A model that answers at once, the local embedder; with a `weaviate`
server on the PATH its index, too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.speed import MODEL, fields
from bench.stages import text, walk
from memline.compose import House
from memline.contracts.scope import Scope
from memline.ledger.session import Ledger
from memline.producer import TurnStream, build_turn
from memline.settings import load_settings
from tests.services import PostgresServer, RedisServer
from tests.weaviate_server import WeaviateServer, weaviate_binary

_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5000)
    parser.add_argument("--scopes", type=int, default=250)
    parser.add_argument("--json")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        home = Path(folder)
        figures |= _named("sqlite", _pipeline(load_settings(home=home / "sqlite", **fields(MODEL)), given.turns, given.scopes, None))
        postgres = servers.enter_context(PostgresServer())
        url = postgres.url(postgres.create_database())
        variables: dict[str, Any] = {"home": home / "postgres", "ledger_url": url, **fields(MODEL)}
        weaviate = servers.enter_context(WeaviateServer()) if weaviate_binary() else None
        if weaviate is not None:
            variables |= {name.removeprefix("MEMLINE_").lower(): value for name, value in weaviate.reached.settings().items()}
        figures |= _named("postgres", _pipeline(load_settings(**variables), given.turns, given.scopes, postgres.pid))
        if weaviate is not None:
            figures |= _named("weaviate", _weaviate(weaviate, given.turns))
        redis = servers.enter_context(RedisServer())
        figures |= _named("redis", _stream(redis, given.turns))
    for name, value in figures.items():
        sys.stdout.write(f"{name:<72} {value:>12.3f}\n")
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=2) + "\n")


def _named(store: str, figures: dict[str, float]) -> dict[str, float]:
    return {f"{store}: {name}": value for name, value in figures.items()}


def _pipeline(settings: Any, turns: int, scopes: int, server: int | None) -> dict[str, float]:
    """Every stage in this thread, in the batches that a loaded system makes: CPU milliseconds a turn, and what is left on disk."""
    house = House(settings)
    parts = house.parts
    spent: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        own, theirs = time.process_time(), _cpu_below(server)
        try:
            return call()
        finally:
            spent[name] = spent.get(name, 0.0) + time.process_time() - own
            spent["server"] = spent.get("server", 0.0) + _cpu_below(server) - theirs

    walk(house, turns, scopes, timed)
    with parts.ledger.read() as connection:
        memories = connection.execute(sa.text("SELECT count(*) FROM memories")).scalar_one()
    figures = {f"CPU ms a turn in {name}": seconds / turns * 1000 for name, seconds in spent.items()}
    figures |= {"memories": memories, **{f"bytes a memory in {name}": size / memories for name, size in _tables(parts.ledger).items()}}
    searches = 200
    for number in range(20):
        house.searcher.search("default", f"lamp number {number}", _whose(number % scopes), top_k=10)
    began, theirs = time.process_time(), _cpu_below(server)
    for number in range(searches):
        house.searcher.search("default", f"Which paper lamp {number} did I buy in Kyoto?", _whose(number % scopes), top_k=10)
    figures["CPU ms a search"] = (time.process_time() - began) / searches * 1000
    figures["CPU ms a search in the server"] = (_cpu_below(server) - theirs) / searches * 1000
    house.close(0)
    return figures


def _whose(number: int) -> Any:
    from memline.contracts.filters import parse

    return parse({"user_id": f"user-{number}"})


def _tables(ledger: Ledger) -> dict[str, float]:
    """Bytes by table, its indexes included, and of all."""
    with ledger.read() as connection:
        if ledger.is_sqlite:
            owner = "SELECT s.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema s ON s.name = d.name GROUP BY s.tbl_name"
            rows = connection.exec_driver_sql(owner).all()
        else:
            rows = connection.exec_driver_sql("SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables").all()
    found = {name: float(size) for name, size in sorted(rows, key=lambda row: -row[1])}
    return {"all": sum(found.values()), **{name: size for name, size in found.items() if size > 0.005 * sum(found.values())}}


def _weaviate(server: WeaviateServer, turns: int) -> dict[str, float]:
    time.sleep(5)  # what is in memory goes to disk
    folder = Path(server.folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"bytes on disk a memory, its entities included": size / turns, "resident MiB": _resident(server.pid) / (1 << 20)}


def _stream(redis: RedisServer, turns: int) -> dict[str, float]:
    import redis as client_library

    from memline.contracts.clock import SystemClock
    from memline.contracts.ids import TimeOrderedIds

    ids, clock = TimeOrderedIds(), SystemClock()
    with client_library.Redis.from_url(redis.url) as client, closing(TurnStream(redis.url)) as stream:
        before = client.info("memory")["used_memory"]
        for number in range(turns):
            turn = build_turn(Scope.of("default", f"user-{number % 50}"), text(number), ids=ids, clock=clock)
            stream.append(turn.to_wire())
        used = (client.info("memory")["used_memory"] - before) / turns
    return {"bytes a waiting turn": used, "bytes of its JSON": float(len(turn.to_wire()))}


def _cpu_below(pid: int | None) -> float:
    """CPU seconds of a process and all that it started, those that have ended included."""
    if pid is None:
        return 0.0
    total, todo = 0.0, [pid]
    while todo:
        one = todo.pop()
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(fields[place]) for place in (11, 12, 13, 14)) / _TICKS
            todo += [int(child) for child in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
