"""Every metric is declared as Prometheus wants it, no label can carry an id or a text, and the page is one that Prometheus reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from memline.contracts import metrics
from memline.contracts.errors import MemlineError
from memline.contracts.metric_reasons import reason_class
from memline.contracts.metrics import Counter, Gauge, Histogram, Metric
from memline.ledger.counters import COUNTERS
from memline.ledger.exported import LEDGER_METRICS, exported
from memline.ledger.jobs import STAGES
from memline.pipeline.parts import reason_of
from memline.telemetry.exposition import Figures, exposition, figures_of

ROOT = Path(__file__).parents[3]
ALL: list[Metric] = [*metrics.declared(), *LEDGER_METRICS]


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_metric_is_named_and_told_as_prometheus_wants_it(metric: Metric) -> None:
    assert re.fullmatch(r"memline_[a-z][a-z0-9_]*[a-z0-9]", metric.name)
    assert metric.help.endswith(".") and "\n" not in metric.help and len(metric.help) > 20
    assert metric.name.endswith("_total") == isinstance(metric, Counter), "counters end in _total, and only they do"
    if isinstance(metric, Histogram):
        assert not metric.name.endswith(("_count", "_sum", "_bucket"))
        assert list(metric.buckets) == sorted(set(metric.buckets)) and len(metric.buckets) <= 20


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_label_is_bounded_and_carries_no_id(metric: Metric) -> None:
    series = 1
    for label, allowed in metric.labels.items():
        assert re.fullmatch(r"[a-z_]+", label) and label not in ("le", "quantile", "job", "instance")
        assert not re.search(r"(^|_)(id|user|agent|run|namespace|turn|text|key)($|_)", label)
        assert allowed or label in ("model", "server"), "only the settings may fill a label"
        assert len(set(allowed)) == len(allowed) and all(re.fullmatch(r"[a-z0-9_.]+", value) for value in allowed)
        series *= len(allowed) or 1
    assert series <= 200


def test_no_two_metrics_share_a_name() -> None:
    families = {metric.name.removesuffix("_total") for metric in ALL}  # what OpenMetrics calls them
    assert len(families) == len(ALL)
    assert {metric.name for metric in metrics.declared()} == {value.name for value in vars(metrics).values() if isinstance(value, Metric)}


def test_everything_that_the_ledger_counts_is_exported_once() -> None:
    found = exported(dict.fromkeys(COUNTERS, 1))
    assert len({(metric.name, labels) for metric, labels, _ in found}) == len(COUNTERS)
    assert {metric.name for metric, _, _ in found} == {metric.name for metric in LEDGER_METRICS}
    for metric, labels, _ in found:
        assert all(value in allowed for value, allowed in zip(labels, metric.labels.values(), strict=True))


def test_the_stages_are_those_of_the_ledger() -> None:
    assert tuple(stage.value for stage in STAGES) == metrics.STAGES


def test_every_loop_that_is_run_is_one_that_is_declared() -> None:
    sources = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "memline" / "workers").glob("*.py"))
    run = {*re.findall(r'\bLoop\("(\w+)"', sources), *re.findall(r'^_LOOP = "(\w+)"', sources, re.MULTILINE)}
    assert run == set(metrics.LOOP_FAILURES.labels["loop"])


def test_the_live_view_asks_for_gauges_that_there_are() -> None:
    """It takes one that it does not know for 0."""
    source = (ROOT / "memline" / "cli" / "top_screen.py").read_text(encoding="utf-8")
    asked = set(re.findall(r"""frame\.gauge\(["'](\w+)["']""", source))
    assert asked and {f"memline_{name}" for name in asked} <= {metric.name for metric in ALL}


def kinds(error: type[MemlineError]) -> set[type[MemlineError]]:
    return {error, *(kind for child in error.__subclasses__() for kind in kinds(child))}


@pytest.mark.parametrize("kind", sorted(kinds(MemlineError), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_a_reason_is_one_of_a_few_whatever_it_says(kind: type[MemlineError]) -> None:
    error = kind.__new__(kind)
    Exception.__init__(error, "what Ann said")
    assert reason_class(reason_of(error)) == reason_class(error)
    assert reason_class(error) in metrics.REASONS


def test_a_reason_with_its_stage_before_it_is_the_same() -> None:
    assert reason_class("ProviderRefused: no such model") == "provider_refused"
    assert reason_class("anything at all") == reason_class(ValueError("Ann")) == "error"


def test_every_series_of_bounded_labels_is_there_before_anything_happened() -> None:
    page = exposition(figures_of({}, metrics.declared(), {"model": ("gpt-5-mini",)}))
    found = {family.name: family for family in text_string_to_metric_families(page)}
    for metric in metrics.declared():
        if isinstance(metric, Gauge):
            continue
        family = found[metric.name.removesuffix("_total")]
        wanted = 1
        for allowed in metric.labels.values():
            wanted *= len(allowed) or 1
        each = len(metric.buckets) + 3 if isinstance(metric, Histogram) else 1
        assert len(family.samples) == wanted * each and all(sample.value == 0 for sample in family.samples), metric.name


def test_the_page_says_what_was_put_in() -> None:
    took = Histogram("test_seconds", "How long\nit \\ took.", {"what": ("a",)}, buckets=(0.5, 2))
    figures = Figures()
    figures.put(took, ("a",), 1, 2, 3, 40.5)
    figures.put(Gauge("test_level", "Level."), (), 0.25)
    assert exposition(figures).splitlines() == [
        "# HELP test_level Level.",
        "# TYPE test_level gauge",
        "test_level 0.25",
        "# HELP test_seconds How long\\nit \\\\ took.",
        "# TYPE test_seconds histogram",
        'test_seconds_bucket{le="0.5",what="a"} 1.0',
        'test_seconds_bucket{le="2.0",what="a"} 3.0',
        'test_seconds_bucket{le="+Inf",what="a"} 6.0',
        'test_seconds_count{what="a"} 6.0',
        'test_seconds_sum{what="a"} 40.5',
    ]


@given(st.text(max_size=50), st.floats(allow_nan=False))
def test_any_value_of_a_label_and_any_number_come_back(label: str, value: float) -> None:
    figures = Figures()
    figures.put(Gauge("test_level", "Level.", {"model": ()}), (label,), value)
    raw = exposition(figures).encode("utf-8", "surrogatepass")
    if "\ud800" <= max(label, default="") <= "\udfff":
        return
    (family,) = text_string_to_metric_families(raw.decode())
    (sample,) = family.samples
    if not re.search(
        r"[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029\\]", label
    ):  # at these the client's own parser splits lines, or unescapes twice
        assert sample.labels == {"model": label}
    assert sample.value == value


def used_in(text: str) -> set[str]:
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\b(memline_[a-z0-9_]+)", text)}


def test_dashboards_and_rules_name_only_metrics_that_there_are() -> None:
    declared = {metric.name for metric in ALL}
    for path in [ROOT / "ops/prometheus/rules/memline.yml", *(ROOT / "ops/grafana/dashboards").glob("*.json")]:
        text = path.read_text(encoding="utf-8")
        exprs = text if path.suffix == ".yml" else " ".join(target["expr"] for target in targets(json.loads(text)))
        assert used_in(exprs) <= declared, path.name


def test_rules_and_dashboards_name_buckets_that_there_are_as_every_prometheus_stores_them() -> None:
    """Prometheus 3 makes `30.0` of `30` when it takes a page, and never finds `30` again."""
    shown = exposition(figures_of({}, metrics.declared()))
    found = 0
    for path in (ROOT / "ops").rglob("*"):
        if path.suffix in (".json", ".yml"):
            for name, bound in re.findall(r'\b(memline_\w+_bucket)\{le=\\?"([^"\\]+)', path.read_text(encoding="utf-8")):
                found += 1
                assert f'{name}{{le="{bound}"}} ' in shown and bound in (str(float(bound)), "+Inf"), (path.name, name, bound)
    assert found >= 5


def targets(dashboard: dict) -> list[dict]:  # type: ignore[type-arg]
    return [target for panel in dashboard["panels"] for target in panel.get("targets", ())]


def test_every_metric_that_is_declared_is_shown_or_watched_somewhere() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "ops").rglob("*") if path.suffix in (".json", ".yml")]
    assert {metric.name for metric in metrics.declared()} <= used_in(" ".join(texts))


@pytest.mark.parametrize("path", sorted((ROOT / "ops/grafana/dashboards").glob("*.json")), ids=lambda path: path.stem)
def test_a_dashboard_is_whole(path: Path) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    assert dashboard["uid"] == f"memline-{path.stem}" and dashboard["title"] and dashboard["description"]
    assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource"]
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["title"] and len(panel["description"]) > 20 and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}" and panel["targets"]
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24


def test_dashboards_do_not_overlap() -> None:
    for path in (ROOT / "ops/grafana/dashboards").glob("*.json"):
        taken: set[tuple[int, int]] = set()
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            assert not cells & taken, (path.stem, panel["title"])
            taken |= cells
