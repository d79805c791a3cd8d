"""Plan of the changes that bring the server to the state of a folder (U-02, R-22): pure, from documents and rows.

Tasks and calendars come before the triggers that need them. They have no origin, so their drift is not
reported and they are not pruned.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reconcile.decide.admission import Demanded
from revisions.errors import Conflict, Fault, Invalid
from revisions.history.chain import canonical
from revisions.history.triggers import DifferenceKind, FieldDifference, differences
from revisions.ids import CalendarKey, TaskKey, TriggerKey
from revisions.spec.manifest import CalendarManifest, Manifest
from revisions.spec.stored import readable_task, readable_trigger
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest, TriggerSpec

Key = TaskKey | CalendarKey | TriggerKey
_KINDS: Mapping[type, str] = {TaskKey: "Task", CalendarKey: "Calendar", TriggerKey: "Trigger"}


class Verb(StrEnum):
    """Action that a plan takes on one object."""

    REGISTER = "register"
    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Declared:
    """One document of the folder, and the place where it stands, in words."""

    place: str
    document: Mapping[str, Any]
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class PlannedTrigger:
    """A trigger as the server has it; `is_ours` says that its recorded origin is the folder's."""

    revision: int
    active: bool
    tags: tuple[str, ...]
    spec: Mapping[str, Any]
    is_ours: bool
    pause_reason: str | None = None
    paused_until: str | None = None

    @property
    def typed(self) -> TriggerSpec:
        """The spec as a typed object; what this release cannot read of it is left out (L-13)."""
        return readable_trigger(canonical(self.spec))


@dataclass(frozen=True, slots=True)
class PlannedCalendar:
    """A calendar as the server has it."""

    revision: int
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServerState:
    """Objects on the server that are not deleted: specs of task versions, triggers and calendars."""

    tasks: Mapping[TaskKey, Mapping[str, Any]]
    triggers: Mapping[TriggerKey, PlannedTrigger]
    calendars: Mapping[CalendarKey, PlannedCalendar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LastDeploy:
    """The revision that made a trigger what it is: its last DEPLOY, or the DELETE of one that is gone."""

    revision: int
    action: str
    actor: str
    at: str
    reason: str
    origin: str | None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step; `revision` is the one that was read, None for what is not there.

    `drift` is the revision by which somebody else than this folder made it what it is.
    """

    verb: Verb
    key: Key
    declared: Declared | None = None
    revision: int | None = None
    differences: tuple[FieldDifference, ...] = ()
    drift: LastDeploy | None = None

    @property
    def kind(self) -> str:
        return _KINDS[type(self.key)]


@dataclass(frozen=True, slots=True)
class Paused:
    """An inactive trigger whose file does not say `active`: that is the operator's, and it stays so (R-20)."""

    key: TriggerKey
    reason: str | None
    until: str | None


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """The steps in the order in which they are done, and what is left alone.

    Where the server was asked: `demanded` is what the schedules will ask for afterwards (L-18), `warnings` what whoever
    applies it is to know of each trigger that it deploys (E-15, X-08).
    """

    origin: str | None
    changes: tuple[PlanStep, ...]
    unchanged: int
    paused: tuple[Paused, ...]
    not_in_folder: tuple[TriggerKey, ...]
    demanded: Demanded | None = None
    warnings: tuple[str, ...] = ()


def applied(origin: str | None) -> str:
    """The reason that apply gives for its deploys: by it they are told from those by hand, which keep the origin."""
    return f"applied from {origin}" if origin else "applied from a folder without a name"


def pruned(origin: str) -> str:
    """The reason that apply gives for its deletions."""
    return f"no longer in {origin}"


def twice(declared: Sequence[Declared]) -> list[Fault]:
    """A fault for each task version, calendar and trigger that stands in the folder again, naming both places."""
    first: dict[Key, str] = {}
    faults = []
    for one in declared:
        key = one.manifest.key
        if key in first:
            faults.append(Fault(one.place, f"{_KINDS[type(key)]} {key} stands in {first[key]} too", "keep one of them"))
        first.setdefault(key, one.place)
    return faults


def check(declared: Sequence[Declared], server: ServerState) -> None:
    """Refuses what a deploy or a registration would refuse, all of it at once, before anything is done.

    Raises Invalid for triggers of unknown task versions or with inputs their task does not know (R-12, R-14), and of
    unknown calendars (S-13), and Conflict for task versions that were changed in place (R-23).
    """
    known = dict(server.tasks)
    moved = []
    for one in declared:
        if isinstance(one.manifest, TaskManifest):
            key = one.manifest.key
            if key in known and (found := [*differences(known[key], one.manifest.written, "spec")]):
                paths = ", ".join(difference.path for difference in found)
                message = f"{key} is registered with another spec ({paths} differs), and a version is immutable"
                moved.append(Fault(f"{one.place}: metadata.version", message, "give the changed task a new version"))
            known.setdefault(key, one.manifest.written)
    there = {*server.calendars, *(one.manifest.key for one in declared if isinstance(one.manifest, CalendarManifest))}
    triggers = [one for one in declared if isinstance(one.manifest, TriggerManifest)]
    wrong = [fault for one in triggers for fault in (*_unbound(one, known), *_uncalendared(one, there))]
    if wrong:
        raise Invalid(f"{wrong[0].path}: {wrong[0].message}", [*moved, *wrong])
    if moved:
        raise Conflict(f"{moved[0].path}: {moved[0].message}", errors=moved)


def decide(declared: Sequence[Declared], server: ServerState, origin: str | None, *, prune: bool) -> FolderPlan:
    """The plan of a folder that passed `check`; who caused a drift is added by `drift.explain`."""
    steps: list[PlanStep] = []
    for one in declared:
        match one.manifest:
            case TaskManifest(key=key):
                step = None if key in server.tasks else _register(one)
            case CalendarManifest(key=key):
                step = _close(one, key, server.calendars.get(key))
            case TriggerManifest(key=key):
                step = _deploy(one, one.manifest, server.triggers.get(key), origin)
        steps += [step] if step else []
    named = {one.manifest.key for one in declared}
    left = sorted(key for key, row in server.triggers.items() if row.is_ours and key not in named)
    deletions = [PlanStep(Verb.DELETE, key, revision=server.triggers[key].revision) for key in left] if prune else []
    return FolderPlan(
        origin=origin,
        changes=(*sorted(steps, key=lambda step: [*_KINDS].index(type(step.key))), *deletions),
        unchanged=len(declared) - len(steps),
        paused=tuple(_paused(declared, server)),
        not_in_folder=() if prune else tuple(left),
    )


def _register(one: Declared) -> PlanStep:
    return PlanStep(Verb.REGISTER, one.manifest.key, one, differences=tuple(_of_new(one.manifest.written)))


def _close(one: Declared, key: CalendarKey, row: PlannedCalendar | None) -> PlanStep | None:
    """The step for one calendar, None when it is as the file says."""
    if row is None:
        return PlanStep(Verb.CREATE, key, one, differences=tuple(_of_new(one.manifest.written)))
    found = tuple(differences(row.spec, one.manifest.written, "spec"))
    return PlanStep(Verb.CHANGE, key, one, row.revision, found) if found else None


def _deploy(
    one: Declared, manifest: TriggerManifest, row: PlannedTrigger | None, origin: str | None
) -> PlanStep | None:
    """The step for one trigger, None when it is as the file says; `active` counts only where the file names it."""
    named, tags = manifest.spec.active, manifest.metadata.tags
    if row is None:
        beside = {"tags": list(tags) or None, "active": named, "origin": origin}
        found = [
            FieldDifference(path, DifferenceKind.ADDED, None, value)
            for path, value in beside.items()
            if value is not None
        ]
        return PlanStep(Verb.CREATE, manifest.key, one, differences=(*_of_new(manifest.written), *found))
    found = list(differences(row.spec, manifest.written, "spec"))
    if tags != row.tags:
        found.append(FieldDifference("tags", DifferenceKind.CHANGED, list(row.tags), list(tags)))
    if named not in (None, row.active):
        found.append(FieldDifference("active", DifferenceKind.CHANGED, row.active, named))
    if origin is not None and not row.is_ours:
        found.append(FieldDifference("origin", DifferenceKind.ADDED, None, origin))
    return PlanStep(Verb.CHANGE, manifest.key, one, row.revision, tuple(found)) if found else None


def _of_new(spec: Mapping[str, Any]) -> Iterator[FieldDifference]:
    return differences({}, spec, "spec")


def _unbound(one: Declared, known: Mapping[TaskKey, Mapping[str, Any]]) -> Iterator[Fault]:
    """Faults of a trigger whose task version does not exist, or does not declare the inputs that are given."""
    assert isinstance(one.manifest, TriggerManifest)
    key, spec = one.manifest.key, one.manifest.spec
    task = TaskKey(key.project, key.domain, key.task, spec.task_version)
    if task not in known:
        there = sorted(other.version for other in known if other[:3] == task[:3])
        hint = f"there are {', '.join(there)}" if there else "put the Task into the folder, or register it first"
        yield Fault(f"{one.place}: spec.task_version", f"there is no {key.task} {spec.task_version}", hint)
        return
    declared = readable_task(canonical(known[task])).inputs
    for name in sorted(set(spec.input) - set(declared)) if declared else ():
        hint = f"{key.task} {spec.task_version} declares {', '.join(sorted(declared))}"
        yield Fault(f"{one.place}: spec.input.{name}", "is not an input of the task", hint)


def _uncalendared(one: Declared, there: Collection[CalendarKey]) -> Iterator[Fault]:
    """Faults of a trigger that names calendars which are neither in the folder nor on the server."""
    assert isinstance(one.manifest, TriggerManifest)
    project = one.manifest.key.project
    known = sorted(key.name for key in there if key.project == project)
    for place, name in enumerate(one.manifest.spec.schedule.calendars):
        if name not in known:
            hint = f"there are {', '.join(known)}" if known else "put the Calendar into the folder, or deploy it first"
            path = f"{one.place}: spec.schedule.calendars[{place}]"
            yield Fault(path, f"{project} has no calendar {name!r}", hint)


def _paused(declared: Sequence[Declared], server: ServerState) -> Iterator[Paused]:
    for one in declared:
        if isinstance(one.manifest, TriggerManifest) and one.manifest.spec.active is None:
            row = server.triggers.get(one.manifest.key)
            if row and not row.active:
                yield Paused(one.manifest.key, row.pause_reason, row.paused_until)
