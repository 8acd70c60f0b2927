"""The spans of this process, kept for a test to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memline.contracts import tracing
from memline.telemetry.tracing import OpenTelemetry

__all__ = ["kept_spans"]


@contextmanager
def kept_spans() -> Iterator[InMemorySpanExporter]:
    """Records every span of memline until the end of the block."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(OpenTelemetry(provider))
    try:
        yield exporter
    finally:
        tracing.use(None)
        provider.shutdown()
