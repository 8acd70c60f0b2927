"""Traces by OpenTelemetry: to a collector of one's own, or to the provider that the application has set up.

Spans hold ids, stages and counts as `memline.*`. An error is told by its class: what OpenTelemetry would record of an exception by itself,
its words and its stack, may hold a text, and is left out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memline.contracts.errors import ConfigurationError, MissingPackage
from memline.contracts.tracing import Traced, Value

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

__all__ = ["LastSpans", "OpenTelemetry", "collector_provider"]

#: Where a collector takes spans over HTTP, below its address.
_PATH = "/v1/traces"

#: Seconds that the end of a process waits for spans that are still to be sent; a collector that is away would hold it for half a minute.
_LAST = 2.0


def collector_provider(endpoint: str, *, rate: float, service: str, version: str) -> TracerProvider:
    """A provider of one's own, which the application's is not touched by, that sends to *endpoint* in batches from a thread.
    What it holds when the process ends is for `LastSpans` to send.

    *rate*: the share of traces begun here that is recorded; what is inside another's trace follows that. OTEL_SERVICE_NAME goes before
    *service*, OTEL_EXPORTER_OTLP_HEADERS are sent along. Raises MissingPackage, and ConfigurationError for an endpoint that is none.
    """
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigurationError(f"MEMLINE_OTLP_ENDPOINT must begin with http:// or https:// (it has {len(endpoint)} characters).")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        raise MissingPackage("MEMLINE_OTLP_ENDPOINT needs OpenTelemetry: install memline[observe].") from error
    named = Resource({"service.name": service, "service.version": version}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(rate)), resource=named, shutdown_on_exit=False)
    url = endpoint.rstrip("/")
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url if url.endswith(_PATH) else url + _PATH)))
    return provider


class LastSpans:
    """Called when a process ends: sends what *provider* holds, and shuts it down, or leaves it after `_LAST` seconds."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def __call__(self) -> None:
        self._asked.set()
        self._thread.join(_LAST)

    def _begin(self) -> None:
        self._asked = threading.Event()
        # started now: an interpreter that ends starts no thread
        self._thread = threading.Thread(target=self._run, args=(self._asked,), name="memline-last-spans", daemon=True)
        self._thread.start()

    def _run(self, asked: threading.Event) -> None:
        asked.wait()
        self._provider.shutdown()


class OpenTelemetry:
    """`contracts.tracing.Tracer` on a provider of OpenTelemetry's; None: on the global one, whatever the application makes it."""

    def __init__(self, provider: Any = None, *, version: str = "") -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise MissingPackage("MEMLINE_TRACING=on needs OpenTelemetry: install memline[observe].") from error
        self._trace = trace
        self._wire = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("memline", version, tracer_provider=provider)

    @contextmanager
    def span(self, name: str, parent: str | None, attributes: Mapping[str, Value]) -> Iterator[None]:
        """A span around a block, which is the current one inside."""
        begun = self._tracer.start_span(name, context=self._context(parent), attributes=_named(attributes))
        with self._around([begun], current=True):
            yield

    @contextmanager
    def each(self, name: str, traced: Mapping[str, Traced], attributes: Mapping[str, Value], *, alone: bool) -> Iterator[Mapping[str, str]]:
        """A span a key of *traced*, all around one block; the `traceparent` of each that is recorded. *alone*: it is the current one."""
        begun = {
            key: self._tracer.start_span(name, context=self._context(one.parent), attributes=_named({**attributes, **one.attributes}))
            for key, one in traced.items()
        }
        with self._around(list(begun.values()), current=alone):
            told = {key: self._told(span) for key, span in begun.items()}
            yield {key: parent for key, parent in told.items() if parent is not None}

    def note(self, attributes: Mapping[str, Value]) -> None:
        """Adds to the current span."""
        self._trace.get_current_span().set_attributes(_named(attributes))

    def current(self) -> str | None:
        """The `traceparent` of the current span, where it is recorded."""
        return self._told(self._trace.get_current_span())

    @contextmanager
    def _around(self, spans: list[Span], *, current: bool) -> Iterator[None]:
        """The block inside *spans*; *current*: the only one of them is the current one there."""
        status = self._trace.Status
        try:
            if current:
                with self._trace.use_span(spans[0], record_exception=False, set_status_on_exception=False):
                    yield
            else:
                yield
        except Exception as error:
            for span in spans:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(status(self._trace.StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            for span in spans:
                span.end()

    def _context(self, parent: str | None) -> Context | None:
        return None if parent is None else self._wire.extract({"traceparent": parent})

    def _told(self, span: Span) -> str | None:
        found = span.get_span_context()
        if not (found.is_valid and found.trace_flags.sampled):
            return None
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"


def _named(attributes: Mapping[str, Value]) -> dict[str, Value]:
    return {f"memline.{name}": value for name, value in attributes.items()}
