"""How long a search takes in scopes of several sizes, and whether what others remember makes it longer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.bulk import Bulk, Material
from memline.compose import House
from memline.contracts.filters import parse
from memline.contracts.scope import Scope
from memline.search.searcher import Searcher
from memline.settings import Settings

__all__ = ["measure_speed", "percentile", "time_searches"]

#: Memories of each scope that only fills the namespace.
OTHERS = 1_000
#: Searches before the clock counts.
WARM_UP = 10


def measure_speed(
    sizes: Sequence[int],
    total: int,
    settings: Settings,
    house: House,
    material: Material,
    questions: Sequence[str],
    told: Callable[[str], None],
) -> dict[str, Any]:
    """Fills a scope of each of *sizes* and measures it, then fills the namespace up to *total* memories and measures them all again."""
    bulk = Bulk(house.ledger, house.index, material, house.embedder.model)
    searcher = house.searcher
    filled, loads, found = 0, [], []

    def load(scope: Scope, number: int) -> None:
        nonlocal filled
        bulk.fill(scope, number)
        filled += number

    def measure(size: int) -> None:
        told(f"searching a scope of {size:,} in a namespace of {filled:,}")
        found.append({"scope": size, "namespace": filled} | _searches(searcher, settings.namespace, f"size-{size}", questions))

    for size in sizes:
        told(f"loading {size:,} memories")
        loads.append(_timed(size, lambda size=size: load(Scope(settings.namespace, user_id=f"size-{size}"), size)))  # type: ignore[misc]
        measure(size)
    if total > filled:
        missing = total - filled
        told(f"loading {missing:,} memories of others")

        def others() -> None:
            for number in range(-(-missing // OTHERS)):
                load(Scope(settings.namespace, user_id=f"other-{number}"), min(OTHERS, total - filled))
                if number % 50 == 49:
                    told(f"  {filled:,} are there")

        loads.append(_timed(missing, others))
        for size in sizes:
            measure(size)
    return {"loads": loads, "searches": found}


def time_searches(search: Callable[[str], object], questions: Sequence[str]) -> dict[str, float]:
    """Milliseconds of *search* over *questions*, the first `WARM_UP` of which are asked before, too."""
    for question in questions[:WARM_UP]:
        search(question)
    wall, spent = [], []
    for question in questions:
        started, cpu = time.perf_counter(), time.thread_time()
        search(question)
        wall.append((time.perf_counter() - started) * 1000)
        spent.append((time.thread_time() - cpu) * 1000)
    return {
        "p50_ms": percentile(wall, 0.5),
        "p95_ms": percentile(wall, 0.95),
        "cpu_p50_ms": percentile(spent, 0.5),
        "cpu_p95_ms": percentile(spent, 0.95),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value that *share* of *values* do not exceed (nearest rank), to a hundredth."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2)


def _searches(searcher: Searcher, namespace: str, user: str, questions: Sequence[str]) -> dict[str, Any]:
    wanted = parse({"user_id": user})
    phases: dict[str, list[float]] = {}
    missing: set[str] = set()

    def search(question: str) -> None:
        result = searcher.search(namespace, question, wanted, top_k=10, threshold=0, explain=True)
        missing.update(result.missing)
        for name, seconds in result.phases.items():
            phases.setdefault(name, []).append(1000 * seconds)

    first = time.perf_counter()
    search(questions[0])
    cold = round((time.perf_counter() - first) * 1000, 2)
    timed: dict[str, Any] = time_searches(search, questions)
    timed |= {"first_ms": cold, "phases_mean_ms": {name: round(statistics.mean(values), 2) for name, values in sorted(phases.items())}}
    return timed | ({"missing": sorted(missing)} if missing else {})


def _timed(number: int, work: Callable[[], None]) -> dict[str, float]:
    started, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "memories": number,
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
    }
