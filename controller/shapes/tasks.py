"""Task versions with the summary of their triggers."""

import json

from typing_extensions import TypedDict

from controller.shapes.common import Object
from revisions.store.tasks import TaskRow


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
    """A task version after a request; `changed` is false for the same spec again.

    `warnings` name the active triggers that rely on what the new version leaves out (R-15).
    """

    changed: bool
    warnings: list[str]


def task_shape(row: TaskRow) -> TaskShape:
    return {
        **row.key._asdict(),  # type: ignore[typeddict-item]  # the three names and the version
        "spec": json.loads(row.spec),
        "trigger_name": row.trigger_name,
        "total_triggers": row.total_triggers,
        "active_triggers": row.active_triggers,
        "trigger_automation": row.trigger_automation,
    }
