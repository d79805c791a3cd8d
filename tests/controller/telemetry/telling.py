"""Spans of a controller, collected in memory for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.types import AnyValue

from controller.telemetry.spans import Spans
from controller.telemetry.tracing import Tracing
from reconcile.observations.observation import Observations
from reconcile.plugins import Launcher
from reconcile.runs.runner import Runner, RunnerSettings
from revisions.store.database import Database
from tests.world import World


class RecordedSpans:
    """Spans recorded by one controller. `ratio` is the share of new traces that is recorded."""

    def __init__(self, ratio: float | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.spans = Spans(Tracing(SimpleSpanProcessor(self._exporter), ratio))

    def subscribe_to(self, *observations: Observations) -> None:
        for source in observations:
            source.subscribe(self.spans.record)

    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the ended spans of a name, in the order in which they ended."""
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def runner(self, world: World, launchers: Mapping[str, Launcher], folder: Path) -> Runner:
        """Return a runner of this controller; its folder may have been used by others before."""
        database: Database = world.database
        settings = RunnerSettings(work_dir=folder, task_root=folder, traceparent=self.spans.traceparent)
        return Runner(database, world.observations, launchers, settings=settings)


def attribute(span: ReadableSpan, name: str) -> AnyValue:
    """Return an attribute of a span. Raises KeyError if it has none of this name."""
    return (span.attributes or {})[name]


def traceparent_of(span: ReadableSpan) -> str:
    """Return the `traceparent` header by which another span becomes the child of this one."""
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Return True if a span's parent is the other one, in the same trace."""
    is_same_trace = span.context.trace_id == parent.context.trace_id
    return is_same_trace and span.parent is not None and span.parent.span_id == parent.context.span_id


def linked_ids(span: ReadableSpan) -> set[tuple[int, int]]:
    return {ids_of(link) for link in span.links}


def ids_of(span_or_link: Any) -> tuple[int, int]:
    """Return the ids of trace and span."""
    return span_or_link.context.trace_id, span_or_link.context.span_id
