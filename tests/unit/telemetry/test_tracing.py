"""Spans by OpenTelemetry: who is whose child, what they say, and that nothing is kept while nobody traces."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import memline.telemetry.tracing
from memline.contracts import tracing
from memline.contracts.errors import ConfigurationError
from memline.contracts.turn import Turn
from memline.telemetry.tracing import LastSpans, OpenTelemetry, collector_provider
from tests.listeners import Collector
from tests.parts import make_turn
from tests.spans import kept_spans

FAR = f"00-{7:032x}-{9:016x}-01"


@pytest.fixture
def kept() -> Iterator[InMemorySpanExporter]:
    with kept_spans() as exporter:
        yield exporter


def names(exporter: InMemorySpanExporter) -> list[str]:
    return [span.name for span in exporter.get_finished_spans()]


def one(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = (span for span in exporter.get_finished_spans() if span.name == name)
    return span


def test_while_nobody_traces_there_is_no_context_and_nothing_happens() -> None:
    with tracing.span("a", job="j"), tracing.each("b", {"j": FAR}), tracing.span_of("j", "c"), tracing.inner("d"):
        tracing.note(results=1)
        assert tracing.current() is None
    assert make_turn("hello").trace is None and '"trace"' not in make_turn("hello").to_wire()


def test_a_span_is_a_child_of_the_one_around_or_of_the_parent_named(kept: InMemorySpanExporter) -> None:
    with tracing.span("outer", namespace="shop"):
        outer = tracing.current()
        with tracing.span("inside"):
            tracing.note(results=3)
        with tracing.span("elsewhere", parent=FAR):
            pass
    assert outer is not None
    assert outer.split("-")[2] == f"{one(kept, 'inside').parent.span_id:016x}"  # type: ignore[union-attr]
    assert one(kept, "inside").attributes == {"memline.results": 3}
    far = one(kept, "elsewhere")
    assert (far.context.trace_id, far.parent.span_id) == (7, 9)  # type: ignore[union-attr]


def test_the_applications_current_span_is_the_parent_whoever_provides_it(kept: InMemorySpanExporter) -> None:
    with TracerProvider().get_tracer("app").start_as_current_span("request") as request, tracing.span("memline add"):
        pass
    assert one(kept, "memline add").parent.span_id == request.get_span_context().span_id  # type: ignore[union-attr]


def test_of_several_each_has_a_span_in_its_own_trace_and_children_also_in_threads(kept: InMemorySpanExporter) -> None:
    other = f"00-{8:032x}-{10:016x}-01"

    def ask() -> None:
        with tracing.span_of("two", "ask"):
            pass

    with tracing.each("stage", {"one": FAR, "two": other, "three": None}, stage="extract"):
        with tracing.inner("what is done for all"), tracing.span_of("three", "ask"):
            pass
        thread = threading.Thread(target=contextvars.copy_context().run, args=(ask,))
        thread.start()
        thread.join()
    stages = {span.attributes["memline.job"]: span for span in kept.get_finished_spans() if span.name == "stage"}  # type: ignore[index]
    assert {job: span.context.trace_id for job, span in stages.items()} == {"one": 7, "two": 8}  # type: ignore[union-attr]
    assert stages["one"].attributes == {"memline.job": "one", "memline.batch_size": 3, "memline.stage": "extract"}
    assert one(kept, "ask").parent.span_id == stages["two"].context.span_id  # type: ignore[union-attr]
    assert names(kept).count("ask") == 1 and "what is done for all" not in names(kept)


def test_in_a_batch_of_several_the_only_traced_one_is_not_where_the_others_work_is_told(kept: InMemorySpanExporter) -> None:
    with tracing.each("stage", {"one": FAR, "two": None}):
        assert tracing.current() is None
        with tracing.inner("what is done for both"), tracing.span_of("one", "ask"):
            pass
    assert names(kept) == ["ask", "stage"]
    with tracing.each("stage", {"one": FAR}):
        assert tracing.current() is not None


def test_spans_of_a_block_that_raises_end_and_nothing_is_current_behind_it(kept: InMemorySpanExporter) -> None:
    for parents in ({"one": FAR}, {"one": FAR, "two": FAR}):
        with pytest.raises(ValueError, match="bees"), tracing.each("stage", parents):
            raise ValueError("Dora keeps bees")
        assert tracing.current() is None
        with tracing.span_of("one", "ask"):
            pass
    assert names(kept) == ["stage"] * 3
    assert {span.status.description for span in kept.get_finished_spans()} == {"ValueError"}
    assert all(span.events == () for span in kept.get_finished_spans())


def test_a_parent_that_is_none_of_a_traceparent_begins_a_trace_of_its_own(kept: InMemorySpanExporter) -> None:
    for parent in ("", "x" * 100_000, f"ff-{7:032x}-{9:016x}-01", f"00-{0:032x}-{0:016x}-01"):
        with tracing.span("a", parent=parent):
            pass
    assert [span.parent for span in kept.get_finished_spans()] == [None] * 4


def test_a_collector_that_is_away_holds_the_end_of_a_process_up_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for_ever = threading.Event()
    begun = threading.Event()

    class Stuck:
        def shutdown(self) -> None:
            begun.set()
            for_ever.wait()

    monkeypatch.setattr(memline.telemetry.tracing, "_LAST", 0.01)
    LastSpans(Stuck())()  # type: ignore[arg-type]
    assert begun.wait(60)
    for_ever.set()


def test_what_a_provider_holds_is_sent_when_the_process_ends() -> None:
    with Collector() as collector:
        provider = collector_provider(collector.endpoint, rate=1.0, service="s", version="v")
        last = LastSpans(provider)
        with OpenTelemetry(provider).span("a", None, {}):
            pass
        last()
        assert collector.wait_until(lambda: bool(collector.spans))  # a slow machine may need longer than the end of a process waits
        assert [span.name for span in collector.spans] == ["a"]


def test_an_error_is_told_by_its_class_without_its_words(kept: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="bees"), tracing.span("a"):
        raise ValueError("Dora keeps bees")
    span = one(kept, "a")
    assert (span.status.description, span.attributes, span.events) == ("ValueError", {"error.type": "ValueError"}, ())


def test_a_trace_that_is_not_recorded_travels_nowhere() -> None:
    tracing.use(OpenTelemetry(TracerProvider(sampler=ALWAYS_OFF)))
    try:
        with tracing.span("a"):
            assert tracing.current() is None
    finally:
        tracing.use(None)


def test_without_a_provider_of_its_own_it_asks_the_global_one() -> None:
    tracing.use(OpenTelemetry())
    try:
        with tracing.span("a"):
            assert trace.get_current_span().is_recording() is False  # this application set none up
            assert tracing.current() is None
    finally:
        tracing.use(None)


def test_an_endpoint_that_is_none_is_refused_without_being_told() -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_OTLP_ENDPOINT") as refused:
        collector_provider("collector:secret", rate=1.0, service="s", version="v")
    assert "secret" not in str(refused.value)


def test_a_turn_carries_its_trace_which_is_none_of_its_content() -> None:
    turn = make_turn("tea", trace=FAR, id="turn-1")
    assert Turn.from_wire(turn.to_wire()) == turn
    assert turn.to_wire().startswith('{"v":1,')  # a worker of the release before takes it, and passes over the trace
    assert turn.fingerprint == make_turn("tea", id="turn-2").fingerprint
    assert Turn.from_wire(turn.to_wire().replace(FAR, "no traceparent")).trace is None


def test_the_rate_is_of_traces_begun_here_and_what_is_inside_another_follows_that() -> None:
    with Collector() as collector:
        provider = collector_provider(collector.endpoint, rate=0.0, service="s", version="v")
        tracer = OpenTelemetry(provider)
        with tracer.span("begun here", None, {}):
            assert tracer.current() is None
        for sampled in ("00", "01"):
            with tracer.span(f"inside {sampled}", f"{FAR[:-2]}{sampled}", {}):
                assert (tracer.current() is not None) is (sampled == "01")
        provider.shutdown()
        assert [span.name for span in collector.spans] == ["inside 01"]
