"""A controller that tells its spans to a test, as one process does to its collector."""

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


class Telling:
    """One controller's spans; `ratio` of the traces that begin here."""

    def __init__(self, ratio: float | None = None) -> None:
        self._kept = InMemorySpanExporter()
        self.spans = Spans(Tracing(SimpleSpanProcessor(self._kept), ratio))

    def hears(self, *observations: Observations) -> None:
        for one in observations:
            one.subscribe(self.spans.record)

    def all(self) -> Sequence[ReadableSpan]:
        return self._kept.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """In the order in which they were told."""
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def runner(self, world: World, launchers: Mapping[str, Launcher], folder: Path) -> Runner:
        """A runner of this controller, in a folder that others may have used before."""
        database: Database = world.database
        settings = RunnerSettings(work_dir=folder, task_root=folder, traceparent=self.spans.traceparent)
        return Runner(database, world.observations, launchers, settings=settings)


def fact(span: ReadableSpan, name: str) -> AnyValue:
    """What a span says of itself under a name. Raises KeyError where it says nothing."""
    return (span.attributes or {})[name]


def header(span: ReadableSpan) -> str:
    """What somebody is told who is to be this span's child."""
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    """Whether a span hangs below another one, in its trace."""
    same = span.context.trace_id == of.context.trace_id
    return same and span.parent is not None and span.parent.span_id == of.context.span_id


def links(span: ReadableSpan) -> set[tuple[int, int]]:
    return {place(link) for link in span.links}


def place(of: Any) -> tuple[int, int]:
    """Trace and span."""
    return of.context.trace_id, of.context.span_id
