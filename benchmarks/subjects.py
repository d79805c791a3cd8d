"""Manifests of the task and the triggers that benchmarks use."""

from typing import Any

from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest


def task(name: str = "report") -> TaskManifest:
    """Return the manifest of a task version; no benchmark launches it."""
    return TaskManifest.read(
        {
            "apiVersion": "triggerctl/v1",
            "kind": "Task",
            "metadata": {"project": "acme", "domain": "production", "name": name, "version": "v1"},
            "spec": {"launcher": "process", "process": {"command": ["true"]}},
        }
    )


def trigger(name: str, task: str = "report", **spec: Any) -> TriggerManifest:
    """Return the manifest of a trigger that is due every minute, unless `spec` has another schedule."""
    return TriggerManifest.read(
        {
            "apiVersion": "triggerctl/v1",
            "kind": "Trigger",
            "metadata": {"project": "acme", "domain": "production", "task": task, "name": name},
            "spec": {"task_version": "v1", "schedule": {"cron": "* * * * *", "timezone": "Europe/Berlin"}, **spec},
        }
    )
