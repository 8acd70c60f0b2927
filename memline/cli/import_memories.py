"""An import of memories at work: hands them on in batches, counts what became of them, and names what went wrong."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from memline.contracts.errors import PolicyRefused
from memline.contracts.portable import PortableMemory
from memline.ledger.transfer_decide import Decision, Fate
from memline.pipeline.transfer import Importer
from memline.producer.policy import Screen, WritePolicy
from memline.producer.policy.portable import screened

__all__ = ["BadPlace", "Found", "MemoryRun", "MemoryTally"]

#: Memories, and characters of text, of a batch: what is in this process at a time.
_BATCH, _TEXT = 100, 1 << 20

#: Lines named of what went wrong.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Found:
    """A memory and where in its file it stands, as people say it ("line 3", "item 3")."""

    place: str
    memory: PortableMemory


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Where something is no memory, and what is wrong with it (never its text)."""

    place: str
    reason: str


@dataclass(slots=True)
class MemoryTally:
    """What came of an import so far."""

    memories: int = 0
    fates: Counter[Fate] = field(default_factory=Counter)
    #: The embedder would not take them.
    refused: int = 0
    #: Lines that are wrong, and were passed over.
    skipped: int = 0
    links_dropped: int = 0
    embedded: int = 0
    vectors_used: int = 0
    seconds: float = 0.0
    #: What the write policy masked, by kind.
    masked: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return bool(self.fates[Fate.CONFLICT] or self.refused)

    def name(self, what: str) -> None:
        if len(self.trouble) < _NAMED:
            self.trouble.append(what)

    def document(self) -> dict[str, Any]:
        """The summary as JSON."""
        return {
            "memories": self.memories,
            "new": self.fates[Fate.NEW],
            "restored": self.fates[Fate.RESTORED],
            "known": self.fates[Fate.KNOWN],
            "duplicates": self.fates[Fate.DUPLICATE],
            "deleted_before": self.fates[Fate.DELETED],
            "conflicts": self.fates[Fate.CONFLICT],
            "refused": self.refused,
            "skipped": self.skipped,
            "links_dropped": self.links_dropped,
            "embedded": self.embedded,
            "vectors_used": self.vectors_used,
            "masked": dict(sorted(self.masked.items())),
            "seconds": round(self.seconds, 3),
            "trouble": self.trouble,
        }


class MemoryRun:
    """One import. *told* hears of progress."""

    def __init__(
        self, importer: Importer, *, skip_bad: bool, told: Callable[[MemoryTally], None], policy: WritePolicy | None = None
    ) -> None:
        self.tally = MemoryTally()
        self._importer = importer
        self._skip_bad = skip_bad
        self._told = told
        self._policy = policy or WritePolicy()
        self._began = time.monotonic()

    def take(self, found: Iterable[Found | BadPlace]) -> BadPlace | None:
        """Stores everything, or what comes before the first thing that is wrong, which it returns."""
        waiting: list[Found] = []
        size = 0
        for each in map(self._screened, found):
            if isinstance(each, BadPlace):
                if not self._skip_bad:
                    self._give(waiting)
                    return each
                self.tally.skipped += 1
                self.tally.name(f"{each.place}: {each.reason}")
                continue
            waiting.append(each)
            size += len(each.memory.text)
            if len(waiting) >= _BATCH or size >= _TEXT:
                self._give(waiting)
                waiting, size = [], 0
        self._give(waiting)
        return None

    def _screened(self, each: Found | BadPlace) -> Found | BadPlace:
        """What the write policy leaves of a memory, or why it does not let it in."""
        if isinstance(each, BadPlace):
            return each
        screen = Screen(self._policy.actions(each.memory.scope.namespace))
        try:
            memory = screened(screen, each.memory)
        except PolicyRefused as error:
            return BadPlace(each.place, str(error))
        self.tally.masked.update(screen.report())
        return Found(each.place, memory)

    def _give(self, found: list[Found]) -> None:
        if not found:
            return
        done = self._importer.take([each.memory for each in found])
        tally = self.tally
        tally.memories += len(found)
        tally.links_dropped += done.links_dropped
        tally.embedded += done.embedded
        tally.vectors_used += done.vectors_used
        for index, (each, decision) in enumerate(zip(found, done.decisions, strict=True)):
            if decision is None:
                tally.refused += 1
                tally.name(f"{each.place}: memory {each.memory.id} was refused by the embedder ({done.refused[index]})")
            else:
                self._count(each, decision)
        tally.seconds = time.monotonic() - self._began
        self._told(tally)

    def _count(self, each: Found, decision: Decision) -> None:
        self.tally.fates[decision.fate] += 1
        if decision.fate is Fate.CONFLICT:
            self.tally.name(f"{each.place}: memory {each.memory.id}: {decision.reason}")
