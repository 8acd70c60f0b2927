"""A turn's trace through the ledger: six stages and the write to the index, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memline import Memory, Status
from memline.contracts import tracing
from memline.contracts.scope import Scope
from memline.contracts.turn import Turn
from memline.ledger.retire import delete_memory
from memline.ledger.session import Ledger
from memline.producer import Producer
from tests.parts import CountingIds, HandClock, accept, job_of, make_parts, make_relay, make_turn, run_all
from tests.services import free_port
from tests.spans import kept_spans

FAR = f"00-{7:032x}-{9:016x}-01"
STAGES = ["memline extract", "memline embed", "memline dedup", "memline persist", "memline link", "memline save"]


@pytest.fixture
def kept() -> Iterator[InMemorySpanExporter]:
    with kept_spans() as exporter:
        yield exporter


def ids(span: ReadableSpan) -> tuple[int, int]:
    """The trace that a span is of, and its parent."""
    assert span.context is not None and span.parent is not None
    return span.context.trace_id, span.parent.span_id


def test_one_trace_shows_a_turn_from_its_stages_to_the_index_and_no_other_turn(kept: InMemorySpanExporter, ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("Ann likes Tea", trace=FAR, id="turn-1"), make_turn("Bob likes milk", user="bob"))
    assert job_of(ledger, "turn-1").trace == FAR
    run_all(parts)
    make_relay(parts).drain()
    spans = kept.get_finished_spans()
    assert {ids(span)[0] for span in spans} == {7}
    stages = [span for span in spans if span.name in STAGES]
    assert [span.name for span in stages] == STAGES
    assert {ids(span)[1] for span in stages} == {9}
    extract = stages[0]
    assert extract.attributes is not None and extract.context is not None
    assert (extract.attributes["memline.job"], extract.attributes["memline.stage"]) == ("turn-1", "extract")
    (asked,) = (span for span in spans if span.name == "memline ask model")
    assert ids(asked)[1] == extract.context.span_id
    link = next(span for span in stages if span.name == "memline link")
    assert link.context is not None
    # the memory's write, and that of the entity which the fifth stage made
    assert {ids(span)[1] for span in spans if span.name == "memline index write"} == {9, link.context.span_id}
    assert not any("Tea" in str(span.attributes) for span in spans)


def test_a_deletion_inside_a_trace_is_followed_to_the_index(kept: InMemorySpanExporter, ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("Ann likes Tea", id="turn-1"))
    run_all(parts)
    make_relay(parts).drain()
    ((memory_id, _),) = job_of(ledger, "turn-1").outcome
    assert kept.get_finished_spans() == ()
    with tracing.span("the application", parent=FAR):
        delete_memory(ledger, "default", memory_id, now=parts.clock.now())
    make_relay(parts).drain()
    application, write = kept.get_finished_spans()
    assert application.context is not None and ids(write) == (7, application.context.span_id)


def test_the_engine_of_one_process_traces_as_workers_do(kept: InMemorySpanExporter, memline_home: Path) -> None:
    with Memory() as memory:
        with tracing.span("the application", parent=FAR):
            memory.add("I like green tea.", user_id="ann", infer=False, wait=True, timeout=240)
        assert len(memory.search("tea", filters={"user_id": "ann"})["results"]) == 1
    of_the_turn = {span.name for span in kept.get_finished_spans() if span.context is not None and span.context.trace_id == 7}
    assert {"memline add", "memline index write", *STAGES} <= of_the_turn
    search = next(span for span in kept.get_finished_spans() if span.name == "memline search")
    assert search.parent is None and search.attributes is not None and search.attributes["memline.results"] == 1


def test_a_turn_in_the_spool_keeps_its_trace(kept: InMemorySpanExporter, tmp_path: Path) -> None:
    nobody = f"redis://127.0.0.1:{free_port()}/0"
    producer = Producer(nobody, tmp_path, CountingIds(), HandClock(), retry_every=60)
    try:
        with tracing.span("the application", parent=FAR):
            turn, status = producer.hand_over(Scope.of("default", "ann", None, None), "I like tea.")
    finally:
        producer.close(0)
    assert status is Status.SPOOLED
    (line,) = [line for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert Turn.from_wire(line).trace == turn.trace is not None
