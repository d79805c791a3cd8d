"""Deploy, roll back, rename and rebase a trigger."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import ParamSpec, TypeVar

from reconcile.decide import changes, preconditions
from reconcile.decide.authority import Caller, Sharing
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.report import outlook
from reconcile.triggers import append, credentials, trigger_calendars
from reconcile.triggers.append import Changed, append_revision, calendar_days, earlier_change, notify_change
from reconcile.triggers.locks import LockedTrigger, locked_trigger
from revisions.errors import Conflict, Fault, Invalid, NotFound, few
from revisions.history import chain
from revisions.history.triggers import SYSTEM, Action, Revision, Trigger
from revisions.ids import TaskKey, TriggerKey, name_faults
from revisions.spec.reading import API_VERSION
from revisions.spec.stored import readable_task, written_spec
from revisions.spec.trigger import LimitsSpec, TriggerManifest
from revisions.store import revisions as revision_store
from revisions.store import tasks as task_store
from revisions.store import triggers as store
from revisions.store.database import Database

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _again_when_the_name_was_taken(use_case: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """Repeat a use case when another transaction created the same name between its read and its insert.

    Two creators under one task version wait for each other at the task's row. Under different versions they lock no
    row in common and meet only at the unique key of the name.
    """

    @wraps(use_case)
    def repeated(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        while True:
            try:
                return use_case(*args, **kwargs)
            except store.AlreadyThere:
                continue

    return repeated


@_again_when_the_name_was_taken
def deploy_trigger(
    database: Database,
    observations: Observations,
    manifest: TriggerManifest,
    expected: Expected,
    caller: Caller,
    *,
    origin: str | None = None,
    sharing: Sharing | None = None,
) -> Changed:
    """Create or update a trigger from its manifest (R-04 to R-06).

    `origin` names the folder that the manifest was applied from; None keeps the recorded one. `sharing` says which
    projects may use which scope of secrets. The answer carries warnings for the author (E-15, X-08).
    Raises Invalid with all faults, PreconditionRequired, PreconditionFailed and Conflict.
    """
    begun = database.clock.monotonic()
    _refuse_faults(manifest, caller, sharing or Sharing())
    with locked_trigger(database, manifest.key, task=_task_key(manifest)) as locked:
        changed = earlier_change(locked, caller, _deploy_request(manifest, caller, origin))
        if changed is None:
            preconditions.check_deploy(manifest.key, locked.trigger, expected)
            changed = _append_deploy(locked, manifest, caller, origin)
    notify_change(database, observations, changed, caller, begun)
    return _with_deploy_warnings(database, manifest, changed)


def rollback_trigger(
    database: Database,
    observations: Observations,
    key: TriggerKey,
    to: int,
    expected: Expected,
    caller: Caller,
    *,
    sharing: Sharing | None = None,
) -> Changed:
    """Deploy the spec and tags of revision `to` as a new revision whose reason names it (R-09).

    Activation stays as it is; a deleted trigger comes back as it was then (R-22).
    Raises NotFound, PreconditionRequired, PreconditionFailed, Conflict when another trigger took the name meanwhile,
    and Invalid when that spec can no longer be deployed.
    """
    begun = database.clock.monotonic()
    with database.read() as connection:
        trigger = store.get(connection, key)
        target = revision_store.get(connection, trigger.trigger_id, to) if trigger else None
    if trigger is None:
        raise NotFound.trigger(key)
    if target is None:
        raise NotFound.revision(key, to, trigger.revision)
    manifest = _manifest_of(target, key, active=target.active if trigger.deleted else None)
    reason = f"rollback to revision {to}" + (f": {caller.reason}" if caller.reason else "")
    caller = replace(caller, reason=reason)
    _refuse_faults(manifest, caller, sharing or Sharing())
    with locked_trigger(database, key, task=_task_key(manifest)) as locked:
        changed = earlier_change(locked, caller, _deploy_request(manifest, caller, target.origin))
        if changed is None:
            preconditions.check_rollback(key, locked.trigger, expected)
            _refuse_other_trigger(locked, trigger)
            changed = _append_deploy(locked, manifest, caller, target.origin)
    notify_change(database, observations, changed, caller, begun)
    return _with_deploy_warnings(database, manifest, changed)


@_again_when_the_name_was_taken
def rename_trigger(
    database: Database, observations: Observations, key: TriggerKey, name: str, expected: Expected, caller: Caller
) -> Changed:
    """Give a trigger another name; its history, its watermark and its runs stay (R-22).

    Raises NotFound, Invalid, PreconditionRequired, PreconditionFailed, and Conflict for a name that another trigger
    holds, live or deleted.
    """
    begun = database.clock.monotonic()
    if faults := name_faults("", name=name):
        raise Invalid(f"name: {faults[0].message}", faults)
    renamed = key._replace(name=name)
    with locked_trigger(database, key) as locked:
        changed = earlier_change(locked, caller, {})
        if changed is None:
            current = preconditions.check_change(key, locked.trigger, expected)
            _refuse_held_name(locked, renamed)
            following = changes.rename(current, renamed, reason=caller.reason or f"renamed from {key.name}")
            changed = append_revision(locked, following, caller, commits=True)
    notify_change(database, observations, changed, caller, begun)
    return changed


def rebase_watermark(database: Database, observations: Observations, key: TriggerKey, caller: Caller) -> Changed:
    """Set a watermark that is ahead of now back to now, by a revision that says so (L-12).

    Raises NotFound, and Conflict for a watermark that is not ahead: an occurrence is never decided twice.
    """
    begun = database.clock.monotonic()
    with locked_trigger(database, key) as locked:
        changed = earlier_change(locked, caller, {})
        if changed is None:
            current = preconditions.check_exists(key, locked.trigger)
            assert locked.status is not None
            following = changes.rebase(current, locked.status.watermark, locked.now, reason=caller.reason)
            changed = append_revision(locked, following, caller, commits=True)
    notify_change(database, observations, changed, caller, begun)
    return changed


def _task_key(manifest: TriggerManifest) -> TaskKey:
    return TaskKey(manifest.key.project, manifest.key.domain, manifest.key.task, manifest.spec.task_version)


def _refuse_faults(manifest: TriggerManifest, caller: Caller, sharing: Sharing) -> None:
    scope_fault = sharing.fault(manifest.spec.secret_scope, manifest.key.project)
    if faults := [*changes.faults(manifest), *filter(None, [scope_fault])]:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    if caller.actor in ("", SYSTEM):
        raise Invalid.at("author", "a trigger acts for its author, and there is none", "say who deploys: --actor")


def _deploy_request(manifest: TriggerManifest, caller: Caller, origin: str | None) -> Mapping[str, object]:
    """Return the fields of the revision that this deploy sets; fields it does not name stay as they are (R-04)."""
    request: dict[str, object] = {
        "action": Action.DEPLOY,
        "reason": caller.reason,
        "spec": chain.canonical(manifest.written),
        "tags": manifest.metadata.tags,
    }
    if manifest.spec.active is not None:
        request["active"] = manifest.spec.active
    if origin is not None:
        request["origin"] = origin
    return request


def _append_deploy(locked: LockedTrigger, manifest: TriggerManifest, caller: Caller, origin: str | None) -> Changed:
    _refuse_task(locked, manifest)
    calendars = manifest.spec.schedule.calendars
    trigger_calendars.refuse_unknown_calendars(locked.connection, manifest.key.project, calendars)
    spec = chain.canonical(manifest.written)
    following = changes.deploy(
        locked.trigger,
        manifest,
        spec,
        locked.now,
        reason=caller.reason,
        origin=origin,
        scopes=caller.scopes,
        calendars=calendar_days(locked, spec),
        takes_over=_takes_over(locked, caller),
    )
    return append_revision(locked, following, caller, commits=True)


def _takes_over(locked: LockedTrigger, caller: Caller) -> bool:
    """Tell whether the author may no longer start the trigger, so that whoever deploys it becomes its author (X-15)."""
    current = locked.trigger
    if current is None or current.scopes == caller.scopes:
        return False
    return credentials.author_lost_rights(locked.connection, current.scopes, current.key.project, locked.now)


def _refuse_task(locked: LockedTrigger, manifest: TriggerManifest) -> None:
    """Raise Invalid unless the task version exists and declares the inputs that are given (R-12, R-14)."""
    key, version = manifest.key, manifest.spec.task_version
    task = locked.tasks.get(_task_key(manifest))
    if task is None or task.deleted:
        versions = task_store.versions(locked.connection, key.project, key.domain, key.task)
        hint = f"registered are {', '.join(versions)}" if versions else "register the task first"
        raise Invalid.at("spec.task_version", f"there is no {key.task} {version}", hint)
    declared = readable_task(task.spec).inputs
    unknown = sorted(set(manifest.spec.input) - set(declared)) if declared else []
    if unknown:
        known = f"{key.task} {version} declares {', '.join(sorted(declared))}"
        faults = few(Fault(f"spec.input.{name}", "is not an input of the task", known) for name in unknown)
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def _refuse_other_trigger(locked: LockedTrigger, seen: Trigger) -> None:
    """Raise Conflict when the name belongs to another trigger than the one whose revision is to be deployed again."""
    if locked.trigger and locked.trigger.trigger_id != seen.trigger_id:
        detail = f"{locked.key} is another trigger than it was a moment ago, so nothing was rolled back"
        raise Conflict.hinted("trigger", detail, "see its history and try again")


def _refuse_held_name(locked: LockedTrigger, renamed: TriggerKey) -> None:
    if renamed == locked.key:
        return
    holder = store.get(locked.connection, renamed)
    if holder is not None:
        state = "deleted" if holder.deleted else "live"
        detail = f"the name {renamed} is held by a {state} trigger, so nothing was renamed"
        raise Conflict.hinted("name", detail, "choose another name")


def _manifest_of(revision: Revision, key: TriggerKey, *, active: bool | None) -> TriggerManifest:
    """Return the manifest that deploys a revision again, under the name that the trigger has now."""
    spec = dict(written_spec(revision.spec)) | ({} if active is None else {"active": active})
    metadata = {"project": key.project, "domain": key.domain, "task": key.task, "name": key.name}
    return TriggerManifest.read(
        {
            "apiVersion": API_VERSION,
            "kind": "Trigger",
            "metadata": metadata | {"tags": list(revision.tags)},
            "spec": spec,
        }
    )


def _with_deploy_warnings(database: Database, manifest: TriggerManifest, changed: Changed) -> Changed:
    warned = replace(changed, warnings=tuple(outlook.destructive_warnings(manifest.spec)))
    if manifest.spec.limits == LimitsSpec():
        return warned
    return append.with_warnings(database, [warned])[0]
