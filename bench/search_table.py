"""The report of `bench.search_bench` as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["table"]


def table(report: Mapping[str, Any]) -> str:
    """What was measured, on what, and what was not run."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"memline {report['memline']}, Python {report['python']}, {report['machine']}; ledger {report['ledger']} {report['sqlite']}"
    yield f"index: {report['index']}; legs: {', '.join(report['legs'])}; analyser: {report['analyser']}"
    for quality in report.get("quality", ()):
        yield from _quality(quality)
    if "speed" in report:
        yield from _speed(report["speed"], report["speed_embedder"])
    if report.get("mem0"):
        yield from _mem0(report["mem0"])
    if report["not_run"]:
        yield ""
        yield "Not run"
        yield from (f"  {name}: {reason}" for name, reason in report["not_run"].items())


def _quality(found: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"{found['data']}, {found['kept_as']}, embedder {found['embedder']}"
    yield (
        f"  {found['conversations']} conversations, {found['memories']} memories, {found['questions']} questions; "
        f"{found['candidates']:g} candidates a question hold {found['evidence_among_candidates']:.1f} % of the evidence"
    )
    yield f"  {'':32}{'recall@5':>10}{'recall@10':>10}{'recall@25':>10}{'nDCG@10':>10}"
    yield _row("published weights", found["published_weights"])
    if "left_out_weights" in found:
        yield _row("fitted, conversation left out", found["left_out_weights"])
    for kind, values in found["by_kind"].items():
        yield _row(f"  of kind {kind}", values)
    for leg, values in found.get("without_leg", {}).items():
        yield _row(f"without the {leg} leg", values)
    for signal, values in found.get("without_signal", {}).items():
        if signal != "none":
            yield _row(f"without signal {signal}", values)


def _row(name: str, values: Mapping[str, float]) -> str:
    cells = (f"{values[key]:>10.1f}" if key in values else f"{'':>10}" for key in ("recall@5", "recall@10", "recall@25", "nDCG@10"))
    return f"  {name:<32}" + "".join(cells)


def _speed(found: Mapping[str, Any], embedder: str) -> Iterator[str]:
    yield ""
    yield f"Speed, ms, {found['questions']} questions, embedding by {embedder} included; memories made from {found['made_from']}"
    yield f"  {'scope':>10}{'namespace':>12}{'p50':>9}{'p95':>9}{'CPU p50':>9}{'CPU p95':>9}{'first':>9}   phases (mean)"
    for one in found["searches"]:
        phases = ", ".join(f"{name} {value:g}" for name, value in one["phases_mean_ms"].items())
        missing = f"; without {', '.join(one['missing'])}" if one.get("missing") else ""
        times = "".join(f"{one[key]:>9.1f}" for key in ("p50_ms", "p95_ms", "cpu_p50_ms", "cpu_p95_ms", "first_ms"))
        yield f"  {one['scope']:>10,}{one['namespace']:>12,}{times}   {phases}{missing}"
    for load in found["loads"]:
        yield f"  loading {load['memories']:,} memories took {load['seconds']:.1f} s ({load['cpu_seconds']:.1f} s of CPU)"


def _mem0(found: Mapping[str, Any]) -> Iterator[str]:
    theirs, ours = found["mem0"], found["memline"]
    yield ""
    words = "with" if theirs["keyword_search"] else "without"
    yield f"Beside mem0 {theirs['mem0']} ({theirs['store']}, {words} its keyword search) on {', '.join(found['conversations'])}"
    yield f"  the same embedder ({theirs['embedder']}), turns and questions ({theirs['questions']}); threshold 0 in both"
    yield f"  {'':32}{'recall@5':>10}{'recall@10':>10}{'recall@25':>10}{'nDCG@10':>10}{'p50 ms':>10}{'p95 ms':>10}"
    for name, values in (("mem0", theirs), ("mem0, speaker in the text", found["mem0_with_speakers"]), ("memline", ours)):
        yield _row(name, values) + f"{values['search']['p50_ms']:>10.1f}{values['search']['p95_ms']:>10.1f}"
