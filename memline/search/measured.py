"""What a search tells the metrics of its process: how long it took, by phase, and what was missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memline.contracts import metrics

__all__ = ["tell_failed", "tell_search"]


def tell_search(phases: Mapping[str, float], missing: Iterable[str], incomplete: bool) -> None:
    """An answer, *missing* some parts, and *incomplete* where its legs stopped early; *phases* in seconds."""
    absent = list(missing)
    metrics.SEARCH_SECONDS.observe(sum(phases.values()), outcome="partial" if absent else "whole")
    for phase, took in phases.items():
        metrics.SEARCH_PHASE_SECONDS.observe(took, phase=phase)
    for part in absent:
        metrics.SEARCH_MISSING.add(1, part=part)
    if incomplete:
        metrics.SEARCH_INCOMPLETE.add(1)


def tell_failed(phases: Mapping[str, float]) -> None:
    """A search that the ledger did not answer."""
    metrics.SEARCH_SECONDS.observe(sum(phases.values()), outcome="failed")
