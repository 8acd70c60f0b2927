"""Metrics with their values, as prometheus_client writes them in Prometheus's formats.

Bounds of buckets are written as it writes them (`30.0`): Prometheus 3 stores that whatever it is told, Prometheus 2 what it is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import TYPE_CHECKING

from memline.contracts.errors import MissingPackage
from memline.contracts.metrics import Counter, Gauge, Histogram, Metric
from memline.telemetry.counts_folder import Counts

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

__all__ = ["Figures", "exposition", "figures_of", "needs_client"]


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

    def collect(self) -> Iterator[Family]:
        """What prometheus_client asks of a collector: every metric with its series, by name."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for name, metric in sorted(self.metrics.items()):
            series = sorted(self.values.get(name, {}).items())
            if isinstance(metric, Histogram):
                spread = HistogramMetricFamily(name, metric.help, labels=list(metric.labels))
                bounds = [*(str(float(bound)) for bound in metric.buckets), "+Inf"]
                for labels, values in series:
                    spread.add_metric(labels, list(zip(bounds, accumulate(values[:-1]), strict=True)), values[-1])
                yield spread
            else:
                kind = CounterMetricFamily if isinstance(metric, Counter) else GaugeMetricFamily
                family = kind(name, metric.help, labels=list(metric.labels))
                for labels, values in series:
                    family.add_metric(labels, values[0])
                yield family


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
    """*figures* in Prometheus's text format, by name. Raises MissingPackage."""
    needs_client()
    from prometheus_client import generate_latest

    return generate_latest(figures).decode("utf-8")


def needs_client() -> None:
    """Raises MissingPackage where prometheus_client is not installed; counting goes on without it."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise MissingPackage("Showing metrics needs prometheus-client: install memline[observe].") from error


def _width(metric: Metric) -> int:
    return len(metric.buckets) + 2 if isinstance(metric, Histogram) else 1
