"""Spans recorded with OpenTelemetry and sent as OTLP over HTTP.

No other module imports that library, so that a process without traces never loads it. The ids of runs' traces and spans
come from `reconcile.decide.trace_context`. The library sends from a bounded queue in its own thread: while the
collector is away, spans are lost and nothing else happens.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context as Surroundings
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBasedTraceIdRatio
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from controller.settings import VERSION
from reconcile.decide.trace_context import Context

SECONDS_TO_SEND = 3.0
"""Seconds for which a stopping process waits until the remaining spans are sent."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS = 1_000


class Tracing:
    """Recorder of spans.

    `ratio` is the share of the traces begun here that are recorded; None leaves it to OTEL_TRACES_SAMPLER, else all.
    """

    def __init__(self, processor: SpanProcessor, ratio: float | None = None) -> None:
        self._ids = _Ids()
        self._provider = TracerProvider(
            sampler=None if ratio is None else ParentBasedTraceIdRatio(ratio),
            resource=_resource(),
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("triggerctl", VERSION)

    def sampled(self, own: Context, parent: Context | None) -> Context:
        """Return a span's context with the decision whether it is recorded; every process decides the same."""
        result = self._provider.sampler.should_sample(_within(parent), own.trace_id, "")
        return own.sampled(result.decision is Decision.RECORD_AND_SAMPLE)

    def record(
        self,
        name: str,
        start: datetime,
        end: datetime,
        attributes: Mapping[str, Any],
        *,
        parent: Context | None = None,
        own: Context | None = None,
        links: Sequence[Context] = (),
        error: str | None = None,
    ) -> Context:
        """Record a span that has ended and return its context; `own` has the ids it is to have, random ones if None.

        `error` marks it as failed, for this reason. Links to spans that are not recorded are left out.
        """
        with self._ids.using(own):
            span = self._tracer.start_span(
                name,
                _within(parent),
                attributes=_known(attributes),
                links=[Link(_to_library(link)) for link in links if link.is_sampled],
                start_time=_nanoseconds(start),
            )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(_nanoseconds(max(start, end)))
        return _from_library(span)

    @contextmanager
    def request(self, name: str, attributes: Mapping[str, Any], parent: Context | None) -> "Iterator[RequestSpan]":
        """Open a span for a request that lasts until the context is left."""
        span = self._tracer.start_span(name, _within(parent), SpanKind.SERVER, _known(attributes))
        try:
            yield RequestSpan(span)
        finally:
            span.end()

    def close(self) -> None:
        """Send the remaining spans, for three seconds at most."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(SECONDS_TO_SEND)


class RequestSpan:
    """Span of a request that is being answered."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.context = _from_library(span)

    def set_answer(self, status: int, attributes: Mapping[str, Any]) -> None:
        """Record the answer's HTTP status; only those from 500 on mark the span as failed."""
        self._span.set_attributes(_known({"http.response.status_code": status, **attributes}))
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))


def exporting(url: str | None, ratio: float | None) -> Tracing:
    """Return a recorder that sends to the collector at a URL; None: where OTEL_EXPORTER_OTLP_ENDPOINT says."""
    endpoint = f"{url.rstrip('/')}/v1/traces" if url else None
    return Tracing(BatchSpanProcessor(OTLPSpanExporter(endpoint)), ratio)


class _Ids(RandomIdGenerator):
    """Generator of random ids, except within `using`, which fixes the ids of the spans that this thread starts."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextmanager
    def using(self, own: Context | None) -> Iterator[None]:
        self._local.own = own
        try:
            yield
        finally:
            self._local.own = None

    def generate_trace_id(self) -> int:
        own: Context | None = getattr(self._local, "own", None)
        return own.trace_id if own else super().generate_trace_id()

    def generate_span_id(self) -> int:
        own: Context | None = getattr(self._local, "own", None)
        return own.span_id if own else super().generate_span_id()


def _resource() -> Resource:
    """Return name and version of the service; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override them."""
    return Resource({"service.name": "triggerctl", "service.version": VERSION}).merge(OTELResourceDetector().detect())


def _within(parent: Context | None) -> Surroundings:
    if parent is None:
        return Surroundings()
    return trace.set_span_in_context(NonRecordingSpan(_to_library(parent)), Surroundings())


def _to_library(context: Context) -> SpanContext:
    return SpanContext(context.trace_id, context.span_id, is_remote=True, trace_flags=TraceFlags(context.flags))


def _from_library(span: Span) -> Context:
    context = span.get_span_context()
    return Context(context.trace_id, context.span_id, int(context.trace_flags))


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * _NANOSECONDS
