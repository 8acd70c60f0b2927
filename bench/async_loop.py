"""How long an asyncio loop stands still while 200 calls of an `AsyncMemory` run at once, embedded (SQLite, one engine thread, rules).

    python -m bench.async_loop [--calls 200] [--memories 500] [--embedder local] [--json FILE]

A task wakes every 5 ms and notes how late it is. The same is done before, with nothing to do: that much is the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from memline import AsyncMemory
from memline.settings import load_settings

#: Seconds between two beats.
BEAT = 0.005
ANN: dict[str, Any] = {"user_id": "ann"}


class Heart:
    """A task that wakes every `BEAT` seconds; `gaps` are the seconds between two wakings."""

    def __init__(self) -> None:
        self.gaps: list[float] = []

    async def beat(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(BEAT)
            now = time.perf_counter()
            self.gaps.append(now - last)
            last = now


def main() -> None:
    """Prints the figures, in milliseconds."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(_measure(Path(folder), arguments))
    for key, value in figures.items():
        sys.stdout.write(f"{key:<56} {value:>10.2f}\n")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


async def _measure(folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    settings = load_settings(home=folder, embedder=arguments.embedder, extractor="rules")
    async with AsyncMemory(settings=settings) as memory:
        receipts = [await memory.add(f"I keep item {number} in box {number % 17}.", **ANN) for number in range(arguments.memories)]
        await memory.flush(600)
        assert len(receipts) == arguments.memories
        await memory.search("Where is item 3?", filters=ANN)
        half = arguments.calls // 2
        searches = [memory.search(f"Where is item {number}?", filters=ANN) for number in range(half)]
        adds = [memory.add(f"I moved item {number} to shelf {number % 5}.", **ANN) for number in range(arguments.calls - half)]
        figures = _figures("idle", *await _watched([asyncio.sleep(1)]))
        figures |= _figures(f"{arguments.calls} calls", *await _watched([*searches, *adds]))
        await memory.flush(600)
        return figures


async def _watched(calls: Sequence[Awaitable[Any]]) -> tuple[list[float], float]:
    """The gaps while *calls* run, all at once, and the seconds that they took."""
    heart = Heart()
    beating = asyncio.create_task(heart.beat())
    await asyncio.sleep(BEAT * 4)
    began = time.perf_counter()
    await asyncio.gather(*calls)
    took = time.perf_counter() - began
    await asyncio.sleep(BEAT * 2)
    beating.cancel()
    return heart.gaps, took


def _figures(name: str, gaps: list[float], took: float) -> dict[str, float]:
    ordered = sorted(gap * 1000 for gap in gaps)
    return {
        f"{name}: they took, ms": took * 1000,
        f"{name}: beats (of {BEAT * 1000:g} ms)": float(len(ordered)),
        f"{name}: gap, median, ms": ordered[len(ordered) // 2],
        f"{name}: gap, p99, ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
        f"{name}: gap, longest, ms": ordered[-1],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--memories", type=int, default=500)
    parser.add_argument("--embedder", default="local")
    parser.add_argument("--json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
