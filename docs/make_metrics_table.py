"""Writes the table of metrics in docs/operations.md from their declarations: `PYTHONPATH=. python docs/make_metrics_table.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memline.contracts import metrics
from memline.contracts.metrics import Gauge, Histogram, Metric
from memline.ledger.exported import LEDGER_METRICS

PAGE = Path(__file__).parent / "operations.md"
BEGIN, END = "<!-- metrics: made by docs/make_metrics_table.py -->", "<!-- end of metrics -->"

#: Who says a metric, in the table's order.
_COUNTED = "Counted by processes, and served by whoever serves them"
_LEDGER = "Counted by the ledger, and served by the exporter"
_STATES = "States, read by the exporter at each scrape"


def all_metrics() -> dict[str, list[Metric]]:
    """Every metric by who says it."""
    found: dict[str, list[Metric]] = {_COUNTED: [], _LEDGER: sorted(LEDGER_METRICS, key=lambda metric: metric.name), _STATES: []}
    for metric in metrics.declared():
        found[_STATES if isinstance(metric, Gauge) else _COUNTED].append(metric)
    return found


def table() -> str:
    """The tables, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for title, some in all_metrics().items():
        yield from (f"**{title}**", "", "| metric | labels | what it is |", "|---|---|---|")
        for metric in some:
            buckets = f" Buckets: {', '.join(f'{bound:g}' for bound in metric.buckets)}." if isinstance(metric, Histogram) else ""
            yield f"| `{metric.name}` | {_labels(metric)} | {metric.help}{buckets} |"
        yield ""


def _labels(metric: Metric) -> str:
    told = (f"{name}: {', '.join(allowed) if allowed else 'as the settings name it'}" for name, allowed in metric.labels.items())
    return "; ".join(told) or "–"


def page() -> str:
    """The page with the table as it has to be."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
