"""Structured logs on standard error: one line per observation, JSON for machines or text for people."""

import logging
import sys
from datetime import datetime
from typing import Any

import structlog

from reconcile.decide import trace_context
from reconcile.observations import passes, runs, specs
from reconcile.observations.observation import (
    AccessRefused,
    ControllerStarted,
    ControllerStopped,
    ControllerStopping,
    Observation,
    RunnerFailed,
    RunnerUnavailable,
    RunObservation,
    SettingUnknown,
    TokenCreated,
    TokenRevoked,
)
from revisions.ids import CalendarKey, TaskKey, TriggerKey, utc_text

LEVELS: dict[type[Observation], str] = {
    specs.TriggerChanged: "info",
    specs.TaskRegistered: "info",
    specs.TaskDeleted: "info",
    runs.RunFired: "info",
    runs.RunsBackfilled: "info",
    runs.RunRetriedByHand: "info",
    runs.RunStarted: "info",
    runs.RunSettled: "info",
    runs.RunRetried: "warning",
    runs.RunExpired: "info",
    runs.RunLost: "warning",
    runs.RunAdopted: "info",
    runs.RunHandedBack: "info",
    runs.RunCancelRequested: "info",
    runs.RunApproved: "info",
    runs.RunCompleted: "info",
    runs.RunLeft: "info",
    runs.ClaimLost: "warning",
    runs.AttemptOver: "info",
    runs.AttemptLeftBehind: "warning",
    runs.WorkUnreadable: "warning",
    runs.LogUnbounded: "warning",
    runs.SettleFailed: "error",
    runs.DeactivationFailed: "error",
    passes.TriggerQuarantined: "error",
    passes.ClockJumped: "warning",
    passes.DemandExceeded: "warning",
    passes.TzdataChanged: "warning",
    passes.TzdataDiffers: "warning",
    passes.FaultFound: "warning",
    passes.RecordsPruned: "info",
    specs.BaselineDeclared: "warning",
    passes.DeadlineMissed: "error",
    passes.ExpectationUnreadable: "error",
    specs.HoldChanged: "info",
    specs.CalendarRevised: "info",
    specs.BacklogDropped: "info",
    runs.FireRequested: "info",
    specs.StateChanged: "info",
    specs.TriggersRebuilt: "warning",
    specs.HistoryImported: "info",
    passes.LoopFailed: "error",
    RunnerFailed: "error",
    RunnerUnavailable: "error",
    TokenCreated: "info",
    TokenRevoked: "info",
    AccessRefused: "warning",
    SettingUnknown: "warning",
    ControllerStarted: "info",
    ControllerStopping: "info",
    ControllerStopped: "info",
}
"""Log levels of the observations that get a line; the others are for metrics and traces alone."""


def configure(level: str, form: str) -> None:
    """Send all log records, those of libraries too, through one renderer to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.add_log_level,
        structlog.processors.format_exc_info,
    ]
    renderer: Any = structlog.processors.JSONRenderer()
    if form == "text":
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=24)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(processors=[remove_meta, renderer], foreign_pre_chain=shared)
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for chatty in ("alembic", "apscheduler", "httpx", "httpcore", "kubernetes", "urllib3", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)  # it warns of each of its many tries


def write(observation: Observation, trace_id: str | None = None) -> None:
    """Write a line for an observation that has a level, with its facts and the id of the trace it belongs to."""
    level = LEVELS.get(type(observation))
    if level is not None:
        facts = {**observation.facts(), "trace_id": trace_id}
        shown = {key: _shown(value) for key, value in facts.items() if value is not None}
        getattr(structlog.get_logger("triggerctl"), level)(observation.name, **shown)


def write_with_trace(observation: Observation) -> None:
    """Write a line as `write` does, with the trace id of the run that an observation is about."""
    trace_id = None
    if isinstance(observation, RunObservation):
        run = observation.run
        parent = trace_context.parse(trace_context.continued(run.source, run.traceparent))
        trace_id = trace_context.of_run(run.id, parent, run.max_attempts).trace
    write(observation, trace_id)


def _shown(value: Any) -> Any:
    """Return instants and names as the text that all other surfaces show; renderers know neither."""
    match value:
        case datetime():
            return utc_text(value)
        case TriggerKey() | TaskKey() | CalendarKey():
            return str(value)
        case _:
            return value
