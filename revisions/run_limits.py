"""What a run takes up while it runs, and what bounds the start of one that waits (X-04); plain values."""

from dataclasses import dataclass, field
from typing import NamedTuple

from revisions.spec.trigger import TriggerSpec


class RunLimits(NamedTuple):
    """What a trigger as it stands says of the start of its runs, whichever revision made them; None bounds nothing.

    Of the runs of a project that share a `serialize_key` a single one runs.
    """

    serialize_key: str | None
    concurrency_limit: int | None


def run_limits_of(spec: TriggerSpec) -> RunLimits:
    """The bounds that a trigger's spec sets."""
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
    """What lets no more of its runs go: projects, triggers and tasks (project, domain, name) at their limits, keys
    (project, key) that are held."""

    projects: set[str] = field(default_factory=set)
    triggers: set[str] = field(default_factory=set)
    tasks: set[tuple[str, str, str]] = field(default_factory=set)
    keys: set[tuple[str, str]] = field(default_factory=set)
