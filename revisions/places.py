"""What a run takes up while it runs, and what bounds the start of one that waits (X-04); plain values."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Running(NamedTuple):
    """A run that runs: it holds a place of its trigger and of its task, and its key."""

    trigger_id: str
    project: str
    domain: str
    task: str
    serialize_key: str | None


class Waiting(NamedTuple):
    """A run whose time has come; a limit that is None bounds nothing."""

    id: str
    trigger_id: str
    project: str
    domain: str
    task: str
    serialize_key: str | None
    trigger_limit: int | None
    task_limit: int | None


@dataclass(slots=True)
class Full:
    """What lets no more of its runs go: projects, triggers and tasks (project, domain, name) at their limits, keys
    (project, key) that are held."""

    projects: set[str] = field(default_factory=set)
    triggers: set[str] = field(default_factory=set)
    tasks: set[tuple[str, str, str]] = field(default_factory=set)
    keys: set[tuple[str, str]] = field(default_factory=set)
