"""Compares every store with the committed set and says what is missing, stale, changed, orphaned, resurrected, and what is only lag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memline.ledger.audit import CHECKS, violations
from memline.ledger.audit_erased import erased_and_there
from memline.ledger.audit_rows import recomputed
from memline.ledger.session import Ledger
from memline.outbox.compare import KINDS, Difference, Drift, compare, namespaces_of
from memline.search.index.port import Index

__all__ = ["Report", "verify"]

#: Ids shown for each kind of finding.
EXAMPLES = 10


@dataclass(slots=True)
class Report:
    """What a verification found. `sound`: nothing but lag."""

    #: (store, problem) -> ids, the first ones.
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    #: (store, problem) -> how many.
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Objects that the index has not been shown yet, and that wait in the outbox.
    lag: int = 0

    @property
    def sound(self) -> bool:
        return not self.counts

    def add(self, store: str, problem: str, object_id: str) -> None:
        self.counts[store, problem] = self.counts.get((store, problem), 0) + 1
        shown = self.examples.setdefault((store, problem), [])
        if len(shown) < EXAMPLES:
            shown.append(object_id)

    def to_json(self) -> dict[str, Any]:
        findings = [
            {"store": store, "problem": problem, "count": number, "examples": self.examples[store, problem]}
            for (store, problem), number in sorted(self.counts.items())
        ]
        return {"sound": self.sound, "findings": findings, "lag": self.lag}


def verify(
    ledger: Ledger,
    index: Index,
    *,
    deep: bool = False,
    namespaces: Sequence[str] | None = None,
    limit: int = 10_000,
    told: Callable[[str], None] = lambda what: None,
) -> Report:
    """Checks the ledger against itself and the index against the ledger. Nothing is changed; writers may go on.

    *deep*: every vector is read and compared, too. *namespaces*: the index is compared in these only; the ledger is checked whole.
    A check of the ledger stops at *limit* findings. *told* is called with what is looked at next.
    Raises ServiceUnavailable where a side does not answer.
    """
    report = Report()
    for check in CHECKS:
        told(check.store)
        with ledger.read() as connection:
            for found in violations(connection, check, limit=limit):
                report.add(found.store, found.problem, found.id)
    told("erased subjects")
    with ledger.read() as connection:
        for store, problem, object_id in erased_and_there(connection, limit=limit):
            report.add(store, problem, object_id)
    told("texts and turns")
    for found in recomputed(ledger, deep=deep, limit=limit):
        report.add(found.store, found.problem, found.id)
    for namespace in namespaces_of(ledger, index) if namespaces is None else namespaces:
        told(f"index, namespace {namespace}")
        for kind in KINDS:
            for step in compare(ledger, index, kind, namespace, deep=deep):
                if not isinstance(step, Difference):
                    continue
                if step.drift is Drift.LAG:
                    report.lag += 1
                else:
                    report.add(f"index ({kind})", step.drift.value, step.key.id)
    return report
