"""Runs the samples of `memline check` in a throwaway namespace, and takes the namespace away afterwards, whatever happened."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from memline.cli.check_samples import ANN, BOB, CAT, Bench, Broken, Sample, Skipped
from memline.contracts.errors import InvalidInput, MemlineError, WaitTimeout
from memline.contracts.scope import Scope

if TYPE_CHECKING:
    from memline.compose import House
    from memline.memory import Memory

__all__ = ["PREFIX", "Outcome", "Verdict", "clean", "fresh_namespace", "idle_roles", "is_of_a_check", "run"]

#: What the namespaces of checks begin with.
PREFIX = "memline-check-"

_DIGITS = 16

#: Seconds between two looks while the namespace is cleaned up.
_LOOK = 0.1


class Verdict(StrEnum):
    """How a sample ended."""

    HOLDS = "holds"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was promised, and what was seen."""

    name: str
    promise: str
    verdict: Verdict
    seen: str
    seconds: float

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "verdict": self.verdict.value, "seconds": round(self.seconds, 3)}


def fresh_namespace() -> str:
    """A name that no namespace has."""
    return PREFIX + secrets.token_hex(_DIGITS // 2)


def is_of_a_check(namespace: str) -> bool:
    """Whether a check has made it; no other is ever cleaned up, such as an application's that begins like one."""
    return re.fullmatch(f"{PREFIX}[0-9a-f]{{{_DIGITS}}}", namespace) is not None


def idle_roles(house: House, *, patience: float = 5.0) -> list[str]:
    """What no worker does, by the heartbeats in the ledger; empty where everything is at work, and in the embedded mode.

    Looks again for *patience* seconds: a worker that was started a moment ago beats when its first rounds have ended.
    """
    until = time.monotonic() + patience
    while (idle := _idle(house)) and time.monotonic() < until:
        time.sleep(_LOOK)
    return idle


def _idle(house: House) -> list[str]:
    from memline.ledger.heartbeats import STAGE_LOOP, read_beats
    from memline.ledger.jobs import STAGES

    if not house.uses_redis:
        return []
    now = house.clock.now()
    with house.ledger.read() as connection:
        working = {beat.loop for beat in read_beats(connection) if beat.works(now)}
    wanted = ["accept", "relay", "sweep", *(f"{STAGE_LOOP}{stage.value}" for stage in STAGES)]
    return [loop for loop in wanted if loop not in working]


def run(memory: Memory, house: House, samples: Iterable[Sample], *, timeout: float, told: Callable[[str], None]) -> list[Outcome]:
    """The outcome of each sample. After the time is over the rest is not run, and counts as broken."""
    bench = Bench(memory, house, time.monotonic() + timeout)
    found: list[Outcome] = []
    for sample in samples:
        told(sample.name)
        began = time.monotonic()
        try:
            bench.left()
            verdict, seen = Verdict.HOLDS, sample.run(bench)
        except Broken as broken:
            verdict, seen = Verdict.BROKEN, str(broken)
        except Skipped as skipped:
            verdict, seen = Verdict.SKIPPED, str(skipped)
        except KeyError:  # an earlier sample did not make what this one looks at
            verdict, seen = Verdict.BROKEN, "an earlier sample that it builds on failed"
        except MemlineError as error:
            verdict, seen = Verdict.BROKEN, str(error)
        found.append(Outcome(sample.name, sample.promise, verdict, seen, time.monotonic() - began))
    return found


def clean(memory: Memory, house: House, *, timeout: float) -> int:
    """Takes the namespace of *memory* away: its memories from ledger and index, and every row but tombstones. How many rows went.

    Raises WaitTimeout where it can't be done in *timeout* seconds, since nobody shows the index what was deleted, say.
    """
    from memline.ledger.forget_namespace import forget_namespace
    from memline.ledger.pending import pending_work
    from memline.search.index.port import ForgetsNamespaces

    namespace = memory.namespace
    if not is_of_a_check(namespace):
        raise InvalidInput(f"{namespace} is no namespace of a check ({PREFIX} and {_DIGITS} hexadecimal digits); nothing was removed.")
    deadline = time.monotonic() + timeout
    memory.reset(confirm=namespace)
    while True:
        # a turn only moves from spool to stream to ledger, so looking in this order misses none
        coming = _coming(house, namespace)
        with house.ledger.read() as connection:
            jobs, objects = pending_work(connection, namespace)
        if not coming and not jobs and not objects:
            break
        if not house.uses_redis:
            house.engine.wake()
        if time.monotonic() >= deadline:
            raise WaitTimeout(
                f"After {timeout:g} s {coming + jobs} turns and {objects} objects of the namespace {namespace} are still on their way."
            )
        time.sleep(_LOOK)
    if isinstance(house.index, ForgetsNamespaces):
        house.index.forget(namespace)
    with house.ledger.write() as tx:
        return forget_namespace(tx, namespace, _scopes(namespace))


def _coming(house: House, namespace: str) -> int:
    """Turns of the namespace that the ledger has not seen yet: after the namespace is forgotten, they would come as new ones."""
    if not house.uses_redis:
        return 0
    from memline.contracts.erasing import Sought
    from memline.contracts.scope import Subject
    from memline.producer.erase_spool import SpoolEraser
    from memline.producer.erase_stream import StreamEraser

    sought = Sought(Subject(namespace, "namespace", namespace).key, namespace, "namespace")
    spool = SpoolEraser(house.settings.home_folder() / "spool")
    return spool.count(sought) + StreamEraser(house.stream).count(sought)


def _scopes(namespace: str) -> Sequence[Scope]:
    return [Scope.of(namespace, user) for user in (ANN, BOB, CAT)]
