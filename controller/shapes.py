"""What the world sees of a trigger, revision, task, run and occurrence: pure renderings, shared by API and web page."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import WithJsonSchema
from typing_extensions import TypedDict  # pydantic reads typing's own only from Python 3.12 on

from reconcile.rules.schedule import Fire, LeftOut
from revisions.ids import TriggerKey, utc_text
from revisions.store.occurrences import Occurrence
from revisions.store.runs import Run
from revisions.store.status import StatusRow
from revisions.store.tasks import TaskRow
from revisions.triggers import Revision, Trigger

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Object = dict[str, Any]
Item = TypeVar("Item")


class StatusShape(TypedDict):
    """What a trigger does, apart from what it is."""

    next_fire_at: Time | None
    last_fired_at: Time | None
    last_success_at: Time | None
    last_outcome: str | None
    last_outcome_at: Time | None
    last_run_id: str | None
    last_error: str | None
    run_count: int
    consecutive_failures: int
    deactivated_reason: str | None
    paused_until: Time | None


class TriggerShape(TypedDict):
    """A trigger as it stands."""

    project: str
    domain: str
    task: str
    name: str
    revision: int
    active: bool
    deleted: bool
    tags: list[str]
    spec: Object
    hash: str
    changed_at: Time
    changed_by: str
    status: StatusShape


class ChangedTriggerShape(TriggerShape):
    """A trigger after a request; `changed` is false when nothing had to be appended."""

    changed: bool


class RevisionShape(TypedDict):
    """One immutable change."""

    revision: int
    action: str
    actor: str
    reason: str
    at: Time
    active: bool
    tags: list[str]
    until: Time | None
    origin: str | None
    resolved: Object
    spec: Object
    previous_hash: str
    hash: str


class TaskShape(TypedDict):
    """One version of a task with the summary of its triggers."""

    project: str
    domain: str
    name: str
    version: str
    spec: Object
    trigger_name: str | None
    total_triggers: int
    active_triggers: int
    trigger_automation: Object | None


class RegisteredTaskShape(TaskShape):
    """A task version after a request; `changed` is false for the same spec again."""

    changed: bool


class RunShape(TypedDict):
    """One run."""

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


class OccurrenceShape(TypedDict):
    """What became of an occurrence, or of a range of skipped ones."""

    trigger: str
    occurrence_id: str
    scheduled_at: Time
    scheduled_until: Time
    decided_at: Time
    outcome: str
    reason: str
    revision: int
    run_id: str | None
    count: int | None


class FireShape(TypedDict):
    """One fire ahead, in UTC and in the schedule's zone."""

    id: str
    utc: Time
    local: Time


class LeftOutShape(TypedDict):
    """A wall time that will not fire, and why."""

    local: str
    reason: str


class PreviewShape(TypedDict):
    """The next fires and what is left out between them."""

    fires: list[FireShape]
    skipped: list[LeftOutShape]


class Page(TypedDict, Generic[Item]):
    """A part of a list; the next one begins at the cursor."""

    items: list[Item]
    next_cursor: str | None


def trigger(current: Trigger, row: StatusRow) -> TriggerShape:
    return {
        **current.key._asdict(),  # type: ignore[typeddict-item]  # the four names
        "revision": current.revision,
        "active": current.active,
        "deleted": current.deleted,
        "tags": list(current.tags),
        "spec": json.loads(current.spec),
        "hash": current.hash,
        "changed_at": utc_text(current.changed_at),
        "changed_by": current.changed_by,
        "status": status(current, row),
    }


def status(current: Trigger, row: StatusRow) -> StatusShape:
    return {
        "next_fire_at": _time(row.next_fire_at),
        "last_fired_at": _time(row.last_fired_at),
        "last_success_at": _time(row.last_success_at),
        "last_outcome": row.last_outcome,
        "last_outcome_at": _time(row.last_outcome_at),
        "last_run_id": row.last_run_id,
        "last_error": row.last_error,
        "run_count": row.run_count,
        "consecutive_failures": row.consecutive_failures,
        "deactivated_reason": current.deactivated_reason,
        "paused_until": _time(current.until),
    }


def revision(made: Revision) -> RevisionShape:
    return {
        "revision": made.revision,
        "action": made.action.value,
        "actor": made.actor,
        "reason": made.reason,
        "at": utc_text(made.at),
        "active": made.active,
        "tags": list(made.tags),
        "until": _time(made.until),
        "origin": made.origin,
        "resolved": json.loads(made.resolved),
        "spec": json.loads(made.spec),
        "previous_hash": made.previous_hash,
        "hash": made.hash,
    }


def task(row: TaskRow) -> TaskShape:
    return {
        **row.key._asdict(),  # type: ignore[typeddict-item]  # the three names and the version
        "spec": json.loads(row.spec),
        "trigger_name": row.trigger_name,
        "total_triggers": row.total_triggers,
        "active_triggers": row.active_triggers,
        "trigger_automation": row.trigger_automation,
    }


def run(made: Run, triggers: Mapping[str, TriggerKey]) -> RunShape:
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
        "started_at": _time(made.started_at),
        "finished_at": _time(made.finished_at),
        "status": made.status,
        "attempt": made.attempt,
        "input": json.loads(made.input),
        "output": json.loads(made.output) if made.output is not None else None,
        "error": made.error,
        "cost": made.cost,
    }


def occurrence(decided: Occurrence, key: TriggerKey) -> OccurrenceShape:
    return {
        "trigger": str(key),
        "occurrence_id": decided.occurrence_id,
        "scheduled_at": utc_text(decided.scheduled_at),
        "scheduled_until": utc_text(decided.scheduled_until),
        "decided_at": utc_text(decided.decided_at),
        "outcome": decided.outcome,
        "reason": decided.reason,
        "revision": decided.revision,
        "run_id": decided.run_id,
        "count": decided.count,
    }


def preview(ahead: list[Fire], missing: list[LeftOut]) -> PreviewShape:
    return {
        "fires": [{"id": fire.id, "utc": utc_text(fire.at), "local": _local(fire)} for fire in ahead],
        "skipped": [{"local": missed.local, "reason": missed.reason} for missed in missing],
    }


def _local(fire: Fire) -> str:
    text = fire.local.isoformat()
    return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text


def _time(at: datetime | None) -> str | None:
    return utc_text(at) if at else None
