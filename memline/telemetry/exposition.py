"""Metrics as Prometheus reads them: its text format, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from memline.contracts.metrics import Counter, Gauge, Histogram, Metric
from memline.telemetry.counts_folder import Counts

__all__ = ["CONTENT_TYPE", "Figures", "exposition", "figures_of"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_KINDS = {Counter: "counter", Gauge: "gauge", Histogram: "histogram"}


@dataclass(slots=True)
class Figures:
    """Metrics with their values: by name of the metric, then by the values of its labels.

    The values of a histogram are how many fell into each bucket, those above the last one, and the sum of all.
    """

    metrics: dict[str, Metric] = field(default_factory=dict)
    values: dict[str, dict[tuple[str, ...], Sequence[float]]] = field(default_factory=dict)

    def put(self, metric: Metric, labels: tuple[str, ...], *values: float) -> None:
        """Says what one series is."""
        self.metrics[metric.name] = metric
        self.values.setdefault(metric.name, {})[labels] = values

    def begin(self, metric: Metric, filled: Mapping[str, Sequence[str]] | None = None) -> None:
        """Begins every series of a metric at 0. *filled*: values of labels that the settings fill; without them there is none."""
        self.metrics[metric.name] = metric
        there = self.values.setdefault(metric.name, {})
        columns = [allowed or tuple((filled or {}).get(name, ())) for name, allowed in metric.labels.items()]
        for labels in product(*columns):
            there.setdefault(labels, (0.0,) * _width(metric))

    def take(self, other: Figures) -> None:
        """Adds another's series; one of the same name and labels replaces."""
        self.metrics |= other.metrics
        for name, series in other.values.items():
            self.values.setdefault(name, {}).update(series)


def figures_of(counts: Counts, metrics: Iterable[Metric], filled: Mapping[str, Sequence[str]] | None = None) -> Figures:
    """What processes counted, of *metrics*; counters and histograms begin at 0."""
    figures = Figures()
    by_name = {metric.name: metric for metric in metrics}
    for metric in by_name.values():
        if not isinstance(metric, Gauge):
            figures.begin(metric, filled)
    for (key, width), values in counts.items():
        _, name, *labels = key
        known = by_name.get(name)
        if known is not None and width == _width(known) and len(labels) == len(known.labels):
            figures.put(known, tuple(labels), *values)
    return figures


def exposition(figures: Figures) -> str:
    """*figures* in Prometheus's text format, by name."""
    lines: list[str] = []
    for name in sorted(figures.metrics):
        metric = figures.metrics[name]
        lines += [f"# HELP {name} {_help(metric.help)}", f"# TYPE {name} {_KINDS[type(metric)]}"]
        for labels, values in sorted(figures.values.get(name, {}).items()):
            lines += _lines(metric, dict(zip(metric.labels, labels, strict=True)), values)
    return "\n".join(lines) + "\n"


def _lines(metric: Metric, labels: dict[str, str], values: Sequence[float]) -> Iterator[str]:
    if not isinstance(metric, Histogram):
        yield f"{metric.name}{_labels(labels)} {_number(values[0])}"
        return
    below = 0.0
    for bound, count in zip((*metric.buckets, math.inf), values, strict=False):
        below += count
        yield f"{metric.name}_bucket{_labels({**labels, 'le': _number(bound)})} {_number(below)}"
    yield f"{metric.name}_sum{_labels(labels)} {_number(values[-1])}"
    yield f"{metric.name}_count{_labels(labels)} {_number(below)}"


def _width(metric: Metric) -> int:
    return len(metric.buckets) + 2 if isinstance(metric, Histogram) else 1


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = (value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for value in labels.values())
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(labels, escaped, strict=True)) + "}"


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
