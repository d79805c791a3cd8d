"""Limits on starting pending runs, and the runs that count against them (X-04); plain values."""

from dataclasses import dataclass, field
from typing import NamedTuple

from revisions.spec.trigger import TriggerSpec


class RunLimits(NamedTuple):
    """Limits in a trigger's current spec; they bound all its runs, whichever revision made them. None: no limit.

    Of the runs of a project with the same `serialize_key` one runs at a time.
    """

    serialize_key: str | None
    concurrency_limit: int | None


def run_limits_of(spec: TriggerSpec) -> RunLimits:
    """Return the limits in a trigger's spec."""
    return RunLimits(spec.serialize_key, spec.concurrency_limit)


class RunningRun(NamedTuple):
    """A running run: it counts for its trigger and its task, and holds its key."""

    trigger_id: str
    project: str
    domain: str
    task: str
    serialize_key: str | None


class WaitingRun(NamedTuple):
    """A pending run that is available, with the limits of its trigger and its task version (X-04)."""

    id: str
    trigger_id: str
    project: str
    domain: str
    task: str
    serialize_key: str | None
    concurrency_limit: int | None
    task_limit: int | None


@dataclass(slots=True)
class FullLimits:
    """Reached limits: projects, triggers, tasks (project, domain, name) and held keys (project, key)."""

    projects: set[str] = field(default_factory=set)
    triggers: set[str] = field(default_factory=set)
    tasks: set[tuple[str, str, str]] = field(default_factory=set)
    keys: set[tuple[str, str]] = field(default_factory=set)
