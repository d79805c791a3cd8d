"""Structured logs on standard error: one line an observation, JSON for machines or text for people."""

import logging
import sys
from datetime import datetime
from typing import Any

import structlog

from revisions.ids import utc_text

LEVELS = {
    "trigger.changed": "info",
    "task.registered": "info",
    "task.deleted": "info",
    "run.fired": "info",
    "runs.backfilled": "info",
    "run.retried_by_hand": "info",
    "run.started": "info",
    "run.settled": "info",
    "run.retried": "warning",
    "run.expired": "info",
    "run.lost": "warning",
    "run.adopted": "info",
    "run.handed_back": "info",
    "run.cancel_requested": "info",
    "run.approved": "info",
    "run.completed": "info",
    "run.left": "info",
    "claim.lost": "warning",
    "attempt.over": "info",
    "attempt.left_behind": "warning",
    "work.unreadable": "warning",
    "log.unbounded": "warning",
    "settle.failed": "error",
    "deactivation.failed": "error",
    "trigger.quarantined": "error",
    "clock.jumped": "warning",
    "demand.exceeded": "warning",
    "tzdata.changed": "warning",
    "tzdata.differs": "warning",
    "scan.found": "warning",
    "records.pruned": "info",
    "baseline.declared": "warning",
    "trigger.deadline_missed": "error",
    "expectation.unreadable": "error",
    "hold.changed": "info",
    "calendar.changed": "info",
    "backlog.dropped": "info",
    "fire.asked": "info",
    "state.changed": "info",
    "triggers.rebuilt": "warning",
    "history.imported": "info",
    "loop.failed": "error",
    "runner.failed": "error",
    "runner.unavailable": "error",
    "request.failed": "error",
    "token.created": "info",
    "token.revoked": "info",
    "access.refused": "warning",
    "setting.unknown": "warning",
    "controller.started": "info",
    "controller.stopping": "info",
    "controller.stopped": "info",
}
"""What is worth a line, and how loud; every other observation is for metrics and traces alone."""
PART_OF = "traceparent"


def configure(level: str, form: str) -> None:
    """Sends everything that is logged, by libraries too, through one renderer to standard error."""
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


def _said(value: Any) -> Any:
    """Instants as everywhere else; no renderer knows them."""
    return utc_text(value) if isinstance(value, datetime) else value


def subscriber(name: str, facts: dict[str, Any]) -> None:
    """Writes an observation that has a level; of what it is part of only the trace's id, where it is told."""
    level = LEVELS.get(name)
    if level is not None:
        said = {fact: _said(value) for fact, value in facts.items() if value is not None and fact != PART_OF}
        getattr(structlog.get_logger("triggerctl"), level)(name, **said)
