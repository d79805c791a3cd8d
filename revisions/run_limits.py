"""Places that running runs hold, and the bounds on the start of those that wait (X-04)."""

from dataclasses import dataclass, field
from typing import NamedTuple

from revisions.spec.trigger import TriggerSpec


class RunLimits(NamedTuple):
    """Bounds that the current spec of a trigger sets on the start of its runs, whichever revision made them.

    None bounds nothing.

    Of the runs of a project that share a `serialize_key` a single one runs.
    """

    serialize_key: str | None
    concurrency_limit: int | None


def run_limits_of(spec: TriggerSpec) -> RunLimits:
    """Return the bounds that a trigger's spec sets."""
    return RunLimits(spec.serialize_key, spec.concurrency_limit)


class RunningRun(NamedTuple):
    """A run that runs: it holds a place of its trigger and of its task, and its key."""

    trigger_id: str
    project: str
    domain: str
    task: str
    serialize_key: str | None


class WaitingRun(NamedTuple):
    """A run whose time has come, with the bounds of its trigger and of its task version (X-04)."""

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
    """Limits that are reached: projects, triggers and tasks (project, domain, name), and keys (project, key) that are
    held."""

    projects: set[str] = field(default_factory=set)
    triggers: set[str] = field(default_factory=set)
    tasks: set[tuple[str, str, str]] = field(default_factory=set)
    keys: set[tuple[str, str]] = field(default_factory=set)
