"""Runs."""

import json
from collections.abc import Mapping

from typing_extensions import TypedDict

from controller.shapes.common import Object, Time, time_text
from revisions.ids import TriggerKey, utc_text
from revisions.store.runs import Run


class RunShape(TypedDict):
    """One run; the run that asked for it, where one did (X-02); who approved it, where that was needed (X-14)."""

    id: str
    project: str
    domain: str
    task: str
    task_version: str
    trigger: str
    revision: int
    source: str
    occurrence_id: str
    scheduled_at: Time
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    status: str
    attempt: int
    input: Object
    output: Object | None
    error: str | None
    cost: float | None
    caused_by_run_id: str | None
    approved_at: Time | None
    approved_by: str | None
    cancel_requested_at: Time | None
    cancel_requested_by: str | None


class WaitingRunShape(RunShape):
    """One run looked at by itself, and what it waits for before it begins, as far as something keeps it."""

    waits_for: str | None


class AskedRunShape(RunShape):
    """A run that somebody asked for by hand; `warnings` are what he is to know of his trigger's limits (X-08)."""

    warnings: list[str]


class BeatShape(TypedDict):
    """What a sign of life is answered with."""

    id: str
    status: str
    attempt: int
    cancel_requested: bool


def beat_shape(run: Run) -> BeatShape:
    return {
        "id": run.id,
        "status": run.status,
        "attempt": run.attempt,
        "cancel_requested": run.cancel_requested_at is not None,
    }


def run_shape(made: Run, triggers: Mapping[str, TriggerKey]) -> RunShape:
    """`triggers` names the triggers by their ids."""
    return {
        "id": made.id,
        "project": made.project,
        "domain": made.domain,
        "task": made.task,
        "task_version": made.task_version,
        "trigger": str(triggers[made.trigger_id]),
        "revision": made.revision,
        "source": made.source,
        "occurrence_id": made.occurrence_id,
        "scheduled_at": utc_text(made.scheduled_at),
        "created_at": utc_text(made.created_at),
        "started_at": time_text(made.started_at),
        "finished_at": time_text(made.finished_at),
        "status": made.status,
        "attempt": made.attempt,
        "input": json.loads(made.input),
        "output": json.loads(made.output) if made.output is not None else None,
        "error": made.error,
        "cost": made.cost,
        "caused_by_run_id": made.caused_by_run_id,
        "approved_at": time_text(made.approved_at),
        "approved_by": made.approved_by,
        "cancel_requested_at": time_text(made.cancel_requested_at),
        "cancel_requested_by": made.cancel_requested_by,
    }
