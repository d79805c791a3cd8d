"""Spans by OpenTelemetry, sent as OTLP over HTTP; nothing else knows that library, nor loads it without need.

The names of runs' traces and spans come from `reconcile.decide.trace_context`; here they are recorded and sent. Sending
is done in a thread of the library's own, from a bounded queue: a collector that is away costs spans and nothing else.
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

from controller.version import VERSION
from reconcile.decide.trace_context import Context

SECONDS_TO_SEND = 3.0
"""How long a process that stops waits for what was not sent yet."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS = 1_000


class Tracing:
    """Where spans are recorded: `ratio` of the traces that begin here; None: as OTEL_TRACES_SAMPLER says, else all."""

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
        """A span's own context with the decision whether it is recorded, which every process comes to alike."""
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
        """Records a span that is over, `own` being what it is called; `error` says that, and why, it ended badly.

        A link to what is not recorded would lead nowhere, so there is none.
        """
        with self._ids.named(own):
            span = self._tracer.start_span(
                name,
                _within(parent),
                attributes=_known(attributes),
                links=[Link(_as_theirs(one)) for one in links if one.is_sampled],
                start_time=_nanoseconds(start),
            )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(_nanoseconds(max(start, end)))
        return _as_ours(span)

    @contextmanager
    def request(self, name: str, attributes: Mapping[str, Any], parent: Context | None) -> "Iterator[Asked]":
        """A span around the answer to a request."""
        span = self._tracer.start_span(name, _within(parent), SpanKind.SERVER, _known(attributes))
        try:
            yield Asked(span)
        finally:
            span.end()

    def close(self) -> None:
        """Sends what is left, as far as the collector takes it in time."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(SECONDS_TO_SEND)


class Asked:
    """A request that is being answered."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.context = _as_ours(span)

    def answered(self, status: int, attributes: Mapping[str, Any]) -> None:
        """Notes the answer; only what went wrong here is an error."""
        self._span.set_attributes(_known({"http.response.status_code": status, **attributes}))
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))


def sending(url: str | None, ratio: float | None) -> Tracing:
    """Traces to the collector at a URL, None: where OTEL_EXPORTER_OTLP_ENDPOINT says."""
    endpoint = f"{url.rstrip('/')}/v1/traces" if url else None
    return Tracing(BatchSpanProcessor(OTLPSpanExporter(endpoint)), ratio)


class _Ids(RandomIdGenerator):
    """Random ones, but for a span that has a name already; each thread names its own."""

    def __init__(self) -> None:
        self._named = threading.local()

    @contextmanager
    def named(self, own: Context | None) -> Iterator[None]:
        self._named.own = own
        try:
            yield
        finally:
            self._named.own = None

    def generate_trace_id(self) -> int:
        own: Context | None = getattr(self._named, "own", None)
        return own.trace_id if own else super().generate_trace_id()

    def generate_span_id(self) -> int:
        own: Context | None = getattr(self._named, "own", None)
        return own.span_id if own else super().generate_span_id()


def _resource() -> Resource:
    """Who sends, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise."""
    return Resource({"service.name": "triggerctl", "service.version": VERSION}).merge(OTELResourceDetector().detect())


def _within(parent: Context | None) -> Surroundings:
    return trace.set_span_in_context(NonRecordingSpan(_as_theirs(parent)), Surroundings()) if parent else Surroundings()


def _as_theirs(context: Context) -> SpanContext:
    return SpanContext(context.trace_id, context.span_id, is_remote=True, trace_flags=TraceFlags(context.flags))


def _as_ours(span: Span) -> Context:
    context = span.get_span_context()
    return Context(context.trace_id, context.span_id, int(context.trace_flags))


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * _NANOSECONDS
