"""The crash matrix: every failpoint with every fault, on real workers. `python -m tests.chaos.matrix` runs all of it and prints what held.

    python -m tests.chaos.matrix [--index embedded|weaviate|provider] [--seed N --some K] [--only POINT] [--fault FAULT] [--shards N]
                                 [--results FILE] [--write]

`--index weaviate` runs the faults of a remote index, behind TCP proxies, and needs a `weaviate` binary on the PATH; `--index provider`
those of a model's server. `--write` puts the
table into docs/guarantees.md, with the figures of the run. `--results FILE` keeps each case's outcome there as soon as it is known; a
later call with the same file runs only what is not there or did not hold, and the table is of all of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from memline.contracts.failpoints import POINTS
from tests.chaos.changes import VERBS
from tests.chaos.provider import PROVIDER_FAULTS, provider_cases
from tests.chaos.remote import remote_cases
from tests.chaos.remote_index import REMOTE_FAULTS
from tests.chaos.repairs import POINTS_OF
from tests.chaos.running import run_case, servers
from tests.chaos.scenario import FAULTS, Case, Outcome
from tests.weaviate_server import weaviate_binary

__all__ = ["OF_A_COMMAND", "OF_ERASING", "all_cases", "some_cases", "table"]

PAGE = Path(__file__).parent.parent.parent / "docs" / "guarantees.md"
#: Where the table of an index stands there.
PLACES = {
    "embedded": ("<!-- matrix -->\n", "<!-- /matrix -->"),
    "weaviate": ("<!-- matrix of weaviate -->\n", "<!-- /matrix of weaviate -->"),
    "provider": ("<!-- matrix of providers -->\n", "<!-- /matrix of providers -->"),
}

#: Points of a command, not of the path of a turn.
OF_A_COMMAND = "reembed."
OF_ERASING = "erase."

#: The columns: the faults of all matrices.
_COLUMNS = [*FAULTS, *REMOTE_FAULTS, *PROVIDER_FAULTS]

_OF_WORKERS_ONLY = ("duplicated delivery", "reordered delivery", "lease expiry, zombie wakes")
_SHORT = {"lease expiry, zombie wakes": "lease expiry"}


def all_cases(index: str = "embedded") -> list[Case]:
    """Every point with every fault that can happen there: a lost XADD answer only where XADD is, a lease only in a worker.

    The points of `memline index reembed`, which no worker reaches, are killed in `tests/integration/outbox/test_reembed_killed.py`.
    """
    if index == "weaviate":
        return remote_cases()
    if index == "provider":
        return provider_cases()
    cases = []
    for point in POINTS:
        if point.startswith((OF_A_COMMAND, OF_ERASING)):
            continue
        for fault in FAULTS:
            if fault == "XADD answer lost" and point != "hand_over.after_xadd":
                continue
            if fault in _OF_WORKERS_ONLY and point.partition(".")[0] in ("hand_over", POINTS_OF, *VERBS):
                continue
            cases.append(Case(point, fault))
    return cases


def some_cases(number: int, *, seed: int, index: str = "embedded") -> list[Case]:
    """*number* cases, each with another fault as long as there are any, chosen by *seed*."""
    chooser = random.Random(seed)
    by_fault: dict[str, list[Case]] = {}
    for case in all_cases(index):
        by_fault.setdefault(case.fault, []).append(case)
    faults = list(by_fault)
    chooser.shuffle(faults)
    return [chooser.choice(by_fault[faults[index % len(faults)]]) for index in range(number)]


def table(outcomes: Sequence[Outcome]) -> str:
    """What was tried and what held: a row a point, a column a fault."""
    faults = [fault for fault in _COLUMNS if any(outcome.case.fault == fault for outcome in outcomes)]
    cells: dict[tuple[str, str], str] = {}
    for outcome in outcomes:
        cells[outcome.case.point, outcome.case.fault] = ("held" if outcome.reached else "held*") if outcome.held else "**failed**"
    lines = ["| point | " + " | ".join(_SHORT.get(fault, fault) for fault in faults) + " |", "|---" * (len(faults) + 1) + "|"]
    for point in POINTS:
        if any(key[0] == point for key in cells):
            lines.append(f"| `{point}` | " + " | ".join(cells.get((point, fault), "–") for fault in faults) + " |")
    held = sum(outcome.held for outcome in outcomes)
    lost = sum(outcome.lost for outcome in outcomes)
    flushed = sum(outcome.lost for outcome in outcomes if outcome.case.fault == "Redis FLUSHALL")
    missed = sum(not outcome.reached for outcome in outcomes)
    longest = max((outcome.lag_seconds for outcome in outcomes), default=0.0)
    points = len({outcome.case.point for outcome in outcomes})
    lines += [
        "",
        f"{len(outcomes)} runs over {points} points and {len(faults)} faults: {held} held, {len(outcomes) - held} failed.",
        f"Longest time to quiet: {longest:.1f} s.",
        f"Turns lost: {lost}, of them {flushed} by FLUSHALL while their receipt said `queued`.",
    ]
    if searches := sum(outcome.searches for outcome in outcomes):
        alone = sum(outcome.without_index for outcome in outcomes)
        left = [outcome for outcome in outcomes if outcome.drift and not outcome.case.point.startswith(POINTS_OF)]
        objects = sum(outcome.drift for outcome in left)
        lines += [
            f"Searches during a fault: {searches}, of them {alone} answered by the ledger alone.",
            f"Left to the reconcile pass, where nothing had been damaged by hand: {objects} objects in {len(left)} runs.",
        ]
    if missed:
        lines.append(f"\\* the point was not reached in {missed} runs: the fault happened all the same, at another moment.")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs cases and prints a line each, then the table; 1 when something did not hold."""
    given = _arguments()
    if given.index == "weaviate" and weaviate_binary() is None:
        sys.stderr.write("The matrix of weaviate was NOT run: it kills its server, so it needs a `weaviate` server binary on the PATH.\n")
        return 2
    cases = some_cases(given.some, seed=given.seed, index=given.index) if given.some else all_cases(given.index)
    cases = [case for case in cases if given.only in (None, case.point) and given.fault in (None, case.fault)]
    kept = _read(given.results)
    cases = [case for case in cases if case not in kept or not kept[case].held]
    if given.shards > 1:
        with multiprocessing.get_context("spawn").Pool(given.shards) as pool:
            shards = [cases[shard :: given.shards] for shard in range(given.shards)]
            work = partial(_run, index=given.index, results=given.results)
            outcomes = [outcome for part in pool.map(work, shards) for outcome in part]
    else:
        outcomes = _run(cases, index=given.index, results=given.results)
    kept |= {outcome.case: outcome for outcome in outcomes}
    if given.results is not None:
        given.results.write_text("".join(_line(outcome) for outcome in kept.values()), encoding="utf-8")
    outcomes = [outcome for outcome in kept.values() if outcome.case.index == given.index]
    text = table(outcomes)
    sys.stdout.write("\n" + text)
    for problem, number in Counter(problem for outcome in outcomes for problem in outcome.problems).most_common():
        sys.stdout.write(f"{number} × {problem}\n")
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        begin, end = PLACES[given.index]
        head, rest = page.split(begin)
        PAGE.write_text(head + begin + text + end + rest.split(end)[1], encoding="utf-8")
    return 0 if all(outcome.held for outcome in outcomes) else 1


def _run(cases: Sequence[Case], *, index: str, results: Path | None) -> list[Outcome]:
    outcomes: list[Outcome] = []
    if not cases:
        return outcomes
    with servers(index) as found:
        for case in cases:
            started = time.monotonic()
            outcome = run_case(found, case)
            outcome.seconds = time.monotonic() - started
            outcomes.append(outcome)
            if results is not None:
                with results.open("a", encoding="utf-8") as file:
                    file.write(_line(outcome))
            told = "held" if outcome.held else "FAILED: " + "; ".join(outcome.problems)
            reached = "" if outcome.reached else " (point not reached)"
            sys.stdout.write(f"{case.point:<26}{case.fault:<30}{outcome.lag_seconds:6.1f} s  {told}{reached}\n")
            sys.stdout.flush()
    return outcomes


def _read(path: Path | None) -> dict[Case, Outcome]:
    """The outcomes that an earlier call kept."""
    if path is None or not path.exists():
        return {}
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {Case(**raw["case"]): Outcome(**(raw | {"case": Case(**raw["case"])})) for raw in found}


def _line(outcome: Outcome) -> str:
    return json.dumps(asdict(outcome)) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", choices=list(PLACES), default="embedded")
    parser.add_argument("--some", type=int, default=0, help="only so many cases, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one point")
    parser.add_argument("--fault", help="one fault")
    parser.add_argument("--shards", type=int, default=2, help="so many cases side by side, each with servers of its own")
    parser.add_argument("--results", type=Path, help="keep outcomes in this file, and go on from it")
    parser.add_argument("--write", action="store_true", help="write the table into docs/guarantees.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
