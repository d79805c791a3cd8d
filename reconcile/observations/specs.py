"""Observations of triggers, tasks, calendars, holds and their history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reconcile.observations.observation import Observation
from revisions.history.triggers import Trigger
from revisions.ids import CalendarKey, TaskKey, TriggerKey
from revisions.outcomes import HoldKind


@dataclass(frozen=True, slots=True)
class TriggerChanged(Observation):
    """A revision of a trigger is stored, whatever it changed.

    `trigger` is the trigger at that revision, `traceparent` that of the caller, `seconds` the duration of the change.
    """

    name = "trigger.changed"
    trigger: Trigger
    traceparent: str | None
    seconds: float

    def facts(self) -> dict[str, Any]:
        return {"trigger": self.trigger.key, "revision": self.trigger.revision, "actor": self.trigger.changed_by}


@dataclass(frozen=True, slots=True)
class TaskRegistered(Observation):
    """A task version was registered; `changed` is False if it existed already with the same spec."""

    name = "task.registered"
    task: TaskKey
    changed: bool


@dataclass(frozen=True, slots=True)
class TaskDeleted(Observation):
    """A task version was deleted, with `triggers` triggers that were bound to it."""

    name = "task.deleted"
    task: TaskKey
    triggers: int


@dataclass(frozen=True, slots=True)
class CalendarRevised(Observation):
    """A revision of a calendar is stored: a deploy or a deletion."""

    name = "calendar.changed"
    calendar: CalendarKey
    revision: int


@dataclass(frozen=True, slots=True)
class HoldChanged(Observation):
    """A freeze or a blackout was set, prolonged or ended; emitted in the transaction that stores it.

    `project` and `tag` are its scope, None for everything; `until` is its end, None for a freeze without an end.
    """

    name = "hold.changed"
    kind: HoldKind
    project: str | None
    tag: str | None
    until: datetime | None
    actor: str


@dataclass(frozen=True, slots=True)
class BacklogDropped(Observation):
    """Somebody dropped a trigger's backlog of `count` occurrences, None for more than are counted."""

    name = "backlog.dropped"
    trigger: TriggerKey
    actor: str
    count: int | None


@dataclass(frozen=True, slots=True)
class StateChanged(Observation):
    """Somebody set a trigger's state by hand; `bytes` is its size, None where it was removed."""

    name = "state.changed"
    trigger: TriggerKey
    actor: str
    bytes: int | None


@dataclass(frozen=True, slots=True)
class TriggersRebuilt(Observation):
    """The current rows were rebuilt from the revisions; `rows` names those that differed."""

    name = "triggers.rebuilt"
    actor: str
    rows: Sequence[str]


@dataclass(frozen=True, slots=True)
class HistoryImported(Observation):
    """An export was read into an empty database; `counts` is the number of rows by table."""

    name = "history.imported"
    actor: str
    counts: Mapping[str, int]

    def facts(self) -> dict[str, Any]:
        """Return the actor and a key for each table."""
        return {"actor": self.actor, **self.counts}


@dataclass(frozen=True, slots=True)
class BaselineDeclared(Observation):
    """A restored database begins anew: the time since the backup is recorded as skipped (O-07).

    `ranges` counts the skips recorded, `runs` the runs of the backup that were ended. `unreadable` names the triggers
    whose spec this release cannot read; their watermarks stay.
    """

    name = "baseline.declared"
    ranges: int
    runs: int
    unreadable: Sequence[str]
