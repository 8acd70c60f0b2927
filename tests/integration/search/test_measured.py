"""A search says how long it took, by phase, and what was missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memline import Memory
from memline.contracts import metrics
from memline.contracts.errors import ProviderUnavailable, ServiceUnavailable
from memline.settings import load_settings
from tests.parts import LineExtractor, TrigramEmbedder


class Said:
    """A sink that remembers what was counted, and how often something was observed."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, ...], float] = {}

    def add(self, metric: metrics.Counter, by: float, labels: tuple[str, ...]) -> None:
        self.sums[metric.name, *labels] = self.sums.get((metric.name, *labels), 0) + by

    def observe(self, metric: metrics.Histogram, value: float, labels: tuple[str, ...]) -> None:
        assert value >= 0
        self.sums[metric.name, *labels] = self.sums.get((metric.name, *labels), 0) + 1

    def set(self, metric: metrics.Gauge, value: float, labels: tuple[str, ...]) -> None:
        self.sums[metric.name, *labels] = value

    def of(self, name: str) -> dict[tuple[str, ...], float]:
        return {labels: value for (found, *rest), value in self.sums.items() if found == name and (labels := tuple(rest)) is not None}


@pytest.fixture
def embedder() -> TrigramEmbedder:
    return TrigramEmbedder(paid=True)


@contextmanager
def listening() -> Iterator[Said]:
    said, before = Said(), metrics.installed()
    metrics.use(said)
    try:
        yield said
    finally:
        metrics.use(before)


@pytest.fixture
def memory(tmp_path: Path, embedder: TrigramEmbedder) -> Iterator[Memory]:
    with Memory(settings=load_settings(home=tmp_path), embedder=embedder, extractor=LineExtractor()) as found:
        found.add("Ann likes tea", user_id="ann", wait=True, timeout=240)
        yield found


def test_a_whole_answer_has_its_phases(memory: Memory) -> None:
    with listening() as said:
        memory.search("tea", filters={"user_id": "ann"})
        memory.search("tea", filters={"user_id": "ann"})
    assert said.of("memline_search_seconds") == {("whole",): 2}
    phases = said.of("memline_search_phase_seconds")
    assert set(phases) <= {(phase,) for phase in metrics.SEARCH_PHASE_SECONDS.labels["phase"]}
    assert phases["analyse",] == phases["embed",] == phases["nominate",] == 2
    assert said.of("memline_search_missing_total") == {}


def test_a_part_that_is_missing_is_named(memory: Memory, embedder: TrigramEmbedder) -> None:
    def fails(texts: object) -> None:
        raise ProviderUnavailable("away")

    embedder.fail = fails
    with listening() as said:
        assert memory.search("tea", filters={"user_id": "ann"})["missing"] == ["embedder"]
    assert said.of("memline_search_seconds") == {("partial",): 1}
    assert said.of("memline_search_missing_total") == {("embedder",): 1}


def test_a_search_that_the_ledger_does_not_answer_has_failed(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*told: object) -> None:
        raise ServiceUnavailable("The ledger does not answer.")

    monkeypatch.setattr("memline.search.searcher.owners_of", away)
    with listening() as said, pytest.raises(ServiceUnavailable):
        memory.search("tea", filters={"user_id": "ann"})
    assert said.of("memline_search_seconds") == {("failed",): 1}
