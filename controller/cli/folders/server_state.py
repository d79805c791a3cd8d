"""State of the server that a plan needs: read from lists where possible, one by one only for what will change."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from controller.cli import arguments
from controller.cli.client import ApiError, Client
from reconcile.decide.admission import Demanded
from reconcile.decide.terms import schedule_of
from reconcile.report import outlook
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
from revisions.spec.manifest import CalendarManifest, Manifest
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest

_FIELDS_WITH_WARNINGS = {"allow_destructive", "limits"}
"""Fields of a trigger's spec for which a deploy may warn."""
_REVISIONS_PER_PAGE = 10
"""Revisions read at once in search of the last deploy; more pauses than that in a row are rare."""


def read(client: Client, declared: Sequence[Declared], origin: str | None) -> ServerState:
    """Read the tasks, triggers and calendars that a folder's manifests refer to, and all triggers with its origin."""
    triggers: dict[TriggerKey, PlannedTrigger] = {}
    trigger_keys = (item.manifest.key for item in declared if isinstance(item.manifest, TriggerManifest))
    for query in _list_queries(trigger_keys, "task"):
        triggers |= _read_triggers(client, query, is_ours=False)
    if origin is not None:
        triggers |= _read_triggers(client, {"origin": origin}, is_ours=True)
    tasks = {}
    task_keys = (_task_key(item) for item in declared if not isinstance(item.manifest, CalendarManifest))
    for query in _list_queries(task_keys, "name"):
        for item in client.list_items("/tasks", **query)["items"]:
            tasks[TaskKey(item["project"], item["domain"], item["name"], item["version"])] = item["spec"]
    calendars = {}
    for project in sorted({item.manifest.key.project for item in declared if _needs_calendars(item)}):
        for item in client.list_items("/calendars", project=project)["items"]:
            calendars[CalendarKey(item["project"], item["name"])] = PlannedCalendar(item["revision"], item["spec"])
    return ServerState(tasks, triggers, calendars)


def read_origins(client: Client, changes: Iterable[PlanStep]) -> dict[TriggerKey, LastDeploy]:
    """Read the revision that made each trigger that will change; one request for each of these."""
    origins = {}
    for change in changes:
        if isinstance(change.key, TriggerKey) and (origin := _read_origin(client, change.key, change.verb)):
            origins[change.key] = origin
    return origins


def read_demand(client: Client, plan: FolderPlan, state: ServerState) -> Demanded:
    """Return the starts per second that the schedules will ask for after the plan (L-18)."""
    answer = client.get("/demand", limit=0)
    present = Demanded(answer["asked_rate"], answer["execution_qps"])
    return outlook.after(plan, state, present, datetime.fromisoformat(answer["at"]))


def read_warnings(client: Client, changes: Iterable[PlanStep]) -> Iterator[str]:
    """Yield the server's warnings about the triggers of a plan; one request for each that may have some."""
    for change in changes:
        declared = change.declared if isinstance(change.key, TriggerKey) else None
        if declared and _FIELDS_WITH_WARNINGS & declared.manifest.written.keys():
            for warning in client.post("/warnings", declared.document)["warnings"]:
                yield f"{change.key}: {warning}"


def check_schedules(client: Client, changes: Sequence[PlanStep]) -> None:
    """Check that changed schedules that end have a fire left, for a deploy would refuse them otherwise (S-02).

    Triggers that name a calendar of this plan are not checked, because the server does not know its days yet. Raises
    Invalid with the faults of all the others.
    """
    faults = []
    changed_calendars = {change.key for change in changes if isinstance(change.key, CalendarKey)}
    for change in changes:
        if change.declared and _may_have_ended(change) and not _names_any(change.declared.manifest, changed_calendars):
            try:
                client.post("/next", change.declared.document, n=1)
            except ApiError as error:
                if error.problem["code"] != "invalid":
                    raise
                faults += [
                    Fault(f"{change.declared.place}: {fault['path']}", fault["message"], fault["hint"])
                    for fault in error.problem["errors"]
                ]
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def _list_queries(keys: Iterable[Sequence[str]], task_parameter: str) -> Iterator[dict[str, Any]]:
    """Yield one query for each project and domain, narrowed to the task if the folder has only one there."""
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for project, domain, task, *_ in keys:
        groups[project, domain].add(task)
    for (project, domain), tasks in sorted(groups.items()):
        only_task = {task_parameter: next(iter(tasks))} if len(tasks) == 1 else {}
        yield {"project": project, "domain": domain, **only_task}


def _read_triggers(client: Client, query: Mapping[str, Any], *, is_ours: bool) -> Mapping[TriggerKey, PlannedTrigger]:
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
        for item in client.list_items("/triggers", **query)["items"]
    }


def _needs_calendars(declared: Declared) -> bool:
    manifest = declared.manifest
    return isinstance(manifest, CalendarManifest) or (
        isinstance(manifest, TriggerManifest) and bool(manifest.spec.schedule.calendars)
    )


def _task_key(declared: Declared) -> TaskKey:
    if isinstance(declared.manifest, TaskManifest):
        return declared.manifest.key
    assert isinstance(declared.manifest, TriggerManifest)
    key = declared.manifest.key
    return TaskKey(key.project, key.domain, key.task, declared.manifest.spec.task_version)


def _read_origin(client: Client, key: TriggerKey, verb: Verb) -> LastDeploy | None:
    """Return a trigger's last DEPLOY; for one to be created its DELETE, or None if the name is new."""
    path = f"{arguments.trigger_path(str(key))}/revisions"
    cursor = None
    while True:
        try:
            page = client.get(path, limit=1 if verb is Verb.CREATE else _REVISIONS_PER_PAGE, cursor=cursor)
        except ApiError as error:
            if error.problem["code"] != "not_found":
                raise
            return None
        for revision in page["items"]:
            if verb is Verb.CREATE or revision["action"] == Action.DEPLOY:
                return _past(revision)
        cursor = page["next_cursor"]
        if cursor is None:
            return None


def _past(revision: Mapping[str, Any]) -> LastDeploy:
    return LastDeploy(
        revision=revision["revision"],
        action=revision["action"],
        actor=revision["actor"],
        at=revision["at"],
        reason=revision["reason"],
        origin=revision["origin"],
    )


def _names_any(manifest: Manifest, calendars: Collection[Key]) -> bool:
    if not isinstance(manifest, TriggerManifest):
        return False
    project = manifest.key.project
    return any(CalendarKey(project, name) in calendars for name in manifest.spec.schedule.calendars)


def _may_have_ended(change: PlanStep) -> bool:
    """Return whether a changed schedule can be over: a single instant, bounds, or an expression that never fires."""
    assert change.declared is not None
    if not isinstance(change.declared.manifest, TriggerManifest):
        return False
    spec = change.declared.manifest.spec
    schedule = spec.schedule
    is_bounded = schedule.at or schedule.until or schedule.exclude or schedule.calendars or spec.limits.expires_at
    if not is_bounded and not (schedule.cron is not None and never_fires(schedule_of(spec, "{}"), EPOCH)):
        return False
    relevant = ("spec.schedule", "spec.limits.expires_at", "active")
    return any(difference.path.startswith(relevant) for difference in change.differences)
