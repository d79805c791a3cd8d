"""What the server has of a folder: by lists as far as lists can say it, by name only what is going to change."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from controller.cli import files
from controller.cli.client import Client, Refused
from reconcile.decide.admission import Demanded
from reconcile.decide.terms import schedule_of
from reconcile.report import plan_outlook
from reconcile.report.plan import (
    Declared,
    FolderPlan,
    Key,
    LastDeploy,
    PlannedCalendar,
    PlannedTrigger,
    PlanStep,
    ServerState,
    Verb,
)
from reconcile.schedule.definition import EPOCH
from reconcile.schedule.fires import never_fires
from revisions.errors import Fault, Invalid
from revisions.history.triggers import Action
from revisions.ids import CalendarKey, TaskKey, TriggerKey
from revisions.spec.calendar import CalendarManifest
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest

_MAY_WARN = {"allow_destructive", "limits"}
"""Fields of triggers that a deploy may warn of."""
_AT_ONCE = 10
"""How many revisions are read in search of the last deploy; pauses rarely stand in longer rows."""


def server(client: Client, declared: Sequence[Declared], origin: str | None) -> ServerState:
    """The tasks, triggers and calendars around those of a folder, and all triggers that bear its origin."""
    triggers: dict[TriggerKey, PlannedTrigger] = {}
    for wanted in _wanted((one.manifest.key for one in declared if isinstance(one.manifest, TriggerManifest)), "task"):
        triggers |= _rows(client, is_ours=False, **wanted)
    if origin is not None:
        triggers |= _rows(client, is_ours=True, origin=origin)
    tasks = {}
    tied = [one for one in declared if not isinstance(one.manifest, CalendarManifest)]
    for wanted in _wanted(map(_task_of, tied), "name"):
        for item in client.items("/tasks", **wanted)["items"]:
            tasks[TaskKey(item["project"], item["domain"], item["name"], item["version"])] = item["spec"]
    calendars = {}
    for project in sorted({one.manifest.key.project for one in declared if _needs_calendars(one)}):
        for item in client.items("/calendars", project=project)["items"]:
            calendars[CalendarKey(item["project"], item["name"])] = PlannedCalendar(item["revision"], item["spec"])
    return ServerState(tasks, triggers, calendars)


def pasts(client: Client, changes: Iterable[PlanStep]) -> dict[TriggerKey, LastDeploy]:
    """What made each trigger that is to change what it is; a request for each of these only."""
    found = {}
    for change in changes:
        if isinstance(change.key, TriggerKey) and (past := _past(client, change.key, change.verb)):
            found[change.key] = past
    return found


def demanded(client: Client, plan: FolderPlan, found: ServerState) -> Demanded:
    """How many starts a second the schedules will ask for once the plan is done (L-18)."""
    now = client.get("/demand", limit=0)
    standing = Demanded(now["asked_rate"], now["execution_qps"])
    return plan_outlook.after(plan, found, standing, datetime.fromisoformat(now["at"]))


def warnings(client: Client, changes: Iterable[PlanStep]) -> Iterator[str]:
    """What the server would warn of, each under its trigger's name; a request for each that may give reason to."""
    for change in changes:
        declared = change.declared if isinstance(change.key, TriggerKey) else None
        if declared and _MAY_WARN & declared.manifest.written.keys():
            for warning in client.post("/warnings", declared.document)["warnings"]:
                yield f"{change.key}: {warning}"


def check_ahead(client: Client, changes: Sequence[PlanStep]) -> None:
    """Asks the server whether new schedules that may have no fire left have one, so that no deploy fails of it (S-02).

    Those that wait for a calendar of this plan are not asked about: the server has not heard of its days.
    Raises Invalid with all that have none.
    """
    faults = []
    new = {change.key for change in changes if isinstance(change.key, CalendarKey)}
    for change in changes:
        if change.declared and _may_be_over(change) and not _names_any(change.declared.manifest, new):
            try:
                client.post("/next", change.declared.document, n=1)
            except Refused as error:
                if error.problem["code"] != "invalid":
                    raise
                faults += [
                    Fault(f"{change.declared.place}: {fault['path']}", fault["message"], fault["hint"])
                    for fault in error.problem["errors"]
                ]
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def _wanted(keys: Iterable[Sequence[str]], last: str) -> Iterator[dict[str, Any]]:
    """One list for each project and domain; only of one task where it is but one."""
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for project, domain, task, *_ in keys:
        groups[project, domain].add(task)
    for (project, domain), tasks in sorted(groups.items()):
        only = {last: next(iter(tasks))} if len(tasks) == 1 else {}
        yield {"project": project, "domain": domain, **only}


def _rows(client: Client, *, is_ours: bool, **wanted: Any) -> Mapping[TriggerKey, PlannedTrigger]:
    return {
        TriggerKey(item["project"], item["domain"], item["task"], item["name"]): PlannedTrigger(
            revision=item["revision"],
            active=item["active"],
            tags=tuple(item["tags"]),
            spec=item["spec"],
            is_ours=is_ours,
            pause_reason=item["status"]["deactivated_reason"],
            paused_until=item["status"]["paused_until"],
        )
        for item in client.items("/triggers", **wanted)["items"]
    }


def _needs_calendars(one: Declared) -> bool:
    return isinstance(one.manifest, CalendarManifest) or (
        isinstance(one.manifest, TriggerManifest) and bool(one.manifest.spec.schedule.calendars)
    )


def _task_of(one: Declared) -> TaskKey:
    if isinstance(one.manifest, TaskManifest):
        return one.manifest.key
    assert isinstance(one.manifest, TriggerManifest)
    key = one.manifest.key
    return TaskKey(key.project, key.domain, key.task, one.manifest.spec.task_version)


def _past(client: Client, key: TriggerKey, verb: Verb) -> LastDeploy | None:
    """The last DEPLOY; of a trigger that is to be created the DELETE before, None for a name that is new."""
    path = f"{files.trigger_path(str(key))}/revisions"
    cursor = None
    while True:
        try:
            page = client.get(path, limit=1 if verb is Verb.CREATE else _AT_ONCE, cursor=cursor)
        except Refused as error:
            if error.problem["code"] != "not_found":
                raise
            return None
        for made in page["items"]:
            if verb is Verb.CREATE or made["action"] == Action.DEPLOY:
                return _read(made)
        cursor = page["next_cursor"]
        if cursor is None:
            return None


def _read(made: Mapping[str, Any]) -> LastDeploy:
    return LastDeploy(
        revision=made["revision"],
        action=made["action"],
        actor=made["actor"],
        at=made["at"],
        reason=made["reason"],
        origin=made["origin"],
    )


def _names_any(manifest: TaskManifest | TriggerManifest | CalendarManifest, new: Collection[Key]) -> bool:
    if not isinstance(manifest, TriggerManifest):
        return False
    project = manifest.key.project
    return any(CalendarKey(project, name) in new for name in manifest.spec.schedule.calendars)


def _may_be_over(change: PlanStep) -> bool:
    """A single instant, bounds, or an expression that never fires; what else there is goes on for ever."""
    assert change.declared is not None
    if not isinstance(change.declared.manifest, TriggerManifest):
        return False
    spec = change.declared.manifest.spec
    block = spec.schedule
    ends = block.at or block.until or block.exclude or block.calendars or spec.limits.expires_at
    if not ends and not (block.cron is not None and never_fires(schedule_of(spec, "{}"), EPOCH)):
        return False
    told = ("spec.schedule", "spec.limits.expires_at", "active")
    return any(difference.path.startswith(told) for difference in change.differences)
