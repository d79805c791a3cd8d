"""The task and the triggers that are measured."""

from typing import Any

from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest


def task(name: str = "report") -> TaskManifest:
    """A task version that no benchmark launches."""
    return TaskManifest.read(
        {
            "apiVersion": "triggerctl/v1",
            "kind": "Task",
            "metadata": {"project": "acme", "domain": "production", "name": name, "version": "v1"},
            "spec": {"launcher": "process", "process": {"command": ["true"]}},
        }
    )


def trigger(name: str, task: str = "report", **spec: Any) -> TriggerManifest:
    """A trigger that is due every minute."""
    return TriggerManifest.read(
        {
            "apiVersion": "triggerctl/v1",
            "kind": "Trigger",
            "metadata": {"project": "acme", "domain": "production", "task": task, "name": name},
            "spec": {"task_version": "v1", "schedule": {"cron": "* * * * *", "timezone": "Europe/Berlin"}, **spec},
        }
    )
