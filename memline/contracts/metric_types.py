"""What a metric is, and where what is said about it goes: to the sink that a process installed, or nowhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Counter", "Gauge", "Histogram", "Metric", "Sink", "installed", "use"]


class Sink(Protocol):
    """Keeps what is said. Thread-safe; raises nothing."""

    def add(self, metric: Counter, by: float, labels: tuple[str, ...]) -> None: ...

    def observe(self, metric: Histogram, value: float, labels: tuple[str, ...]) -> None: ...

    def set(self, metric: Gauge, value: float, labels: tuple[str, ...]) -> None: ...


_sink: Sink | None = None


def use(sink: Sink | None) -> None:
    """Installs what keeps the metrics of this process; None: nothing is kept."""
    global _sink
    _sink = sink


def installed() -> Sink | None:
    """What keeps them."""
    return _sink


@dataclass(frozen=True, slots=True)
class Metric:
    """What is counted. `labels`: each label's name with every value it may have; empty: values come from the settings (a model's name)."""

    name: str
    help: str
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counter(Metric):
    """Only grows."""

    def add(self, by: float = 1, **labels: str) -> None:
        if _sink is not None:
            _sink.add(self, by, tuple(labels[name] for name in self.labels))


@dataclass(frozen=True, slots=True)
class Gauge(Metric):
    """Goes up and down. Of several processes that set one, the highest value is shown; a process that ended says nothing any more."""

    def set(self, value: float, **labels: str) -> None:
        if _sink is not None:
            _sink.set(self, value, tuple(labels[name] for name in self.labels))


@dataclass(frozen=True, slots=True)
class Histogram(Metric):
    """How values spread over `buckets` (upper bounds)."""

    buckets: tuple[float, ...] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

    def observe(self, value: float, **labels: str) -> None:
        if _sink is not None:
            _sink.observe(self, value, tuple(labels[name] for name in self.labels))
