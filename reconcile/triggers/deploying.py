"""The one deploy, activate, deactivate, delete, rollback and rename: what each of them asks of the rules."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from reconcile.decide import changes, preconditions, trust
from reconcile.decide.authority import Sharing
from reconcile.decide.automatic_stops import Stop
from reconcile.decide.changes import NextRevision
from reconcile.decide.preconditions import Expected
from reconcile.observe import Observations
from reconcile.triggers import authors, limit_warnings
from reconcile.triggers import closed_days as calendars
from reconcile.triggers.revising import Caller, Changed, Locked, Request, Revising, closed_days
from revisions.errors import Conflict, Fault, Invalid, NotFound, few
from revisions.history import chain
from revisions.history.triggers import SYSTEM, Action, Revision, Trigger
from revisions.ids import TaskKey, TriggerKey, name_faults
from revisions.spec.reading import API_VERSION
from revisions.spec.stored import readable_task, readable_trigger, written_spec
from revisions.spec.trigger import LimitsSpec, TriggerManifest
from revisions.store import revisions as revision_store
from revisions.store import tasks as task_store
from revisions.store import triggers as store
from revisions.store.database import Connection, Database
from revisions.store.status import StatusRow

Chosen = Mapping[TriggerKey, int] | str
"""Triggers by name, each with the revision last read; or all that bear a tag, as they stand (R-16)."""


class Deploying:
    """Every change of a trigger, for people, for programs and for the system itself.

    `sharing`: which projects may name which scope of secrets.
    """

    def __init__(self, database: Database, observations: Observations, sharing: Sharing | None = None) -> None:
        self._database = database
        self._sharing = sharing or Sharing()
        self._revising = Revising(database, observations)

    def deploy(
        self, manifest: TriggerManifest, expected: Expected, caller: Caller, *, origin: str | None = None
    ) -> Changed:
        """Creates or updates a trigger (R-04 to R-06); the answer warns of what its author is to know (E-15, X-08).

        Raises Invalid, fault by fault, PreconditionRequired, PreconditionFailed and Conflict.
        """

        def check(current: Trigger | None) -> None:
            preconditions.check_deploy(manifest.key, current, expected)

        return self._deploy(manifest, check, caller, origin)

    def rollback(self, key: TriggerKey, to: int, expected: Expected, caller: Caller) -> Changed:
        """Deploys an earlier revision's spec and tags as a new revision whose reason names it (R-09).

        Activation stays as it is; a deleted trigger comes back as it was then (R-22).
        Raises NotFound, PreconditionRequired, PreconditionFailed, and Invalid when that spec can no longer be deployed.
        """
        with self._database.read() as connection:
            trigger = store.get(connection, key)
            wanted = revision_store.get(connection, trigger.trigger_id, to) if trigger else None
        if trigger is None:
            raise NotFound.trigger(key)
        if wanted is None:
            raise NotFound.revision(key, to, trigger.revision)
        manifest = _manifest_of(wanted, key, active=wanted.active if trigger.deleted else None)
        reason = f"rollback to revision {to}" + (f": {caller.reason}" if caller.reason else "")

        def check(current: Trigger | None) -> None:
            preconditions.check_rollback(key, current, expected)
            if current and current.trigger_id != trigger.trigger_id:
                detail = f"{key} is another trigger than it was a moment ago, so nothing was rolled back"
                raise Conflict.hinted("trigger", detail, "see its history and try again")

        return self._deploy(manifest, check, replace(caller, reason=reason), wanted.origin)

    def activate(
        self, key: TriggerKey, expected: Expected, caller: Caller, *, resumed_at: datetime | None = None
    ) -> Changed:
        """Resumes a trigger: a new baseline, so that paused time never fires (R-20, R-21).

        The answer warns of limits that keep it from starting, such as a budget that is used up.
        Raises NotFound, PreconditionRequired, PreconditionFailed, and Invalid when no fire is left.
        """

        def propose(locked: Locked) -> NextRevision | None:
            current = preconditions.check_change(key, locked.trigger, expected)
            return _activation(locked, current, resumed_at or locked.now, caller)

        changed = self._revising.one(key, Request(caller, propose, _same(Action.ACTIVATE, caller), resumed_at))
        return self._warned([changed])[0]

    def deactivate(
        self, key: TriggerKey, expected: Expected, caller: Caller, *, until: datetime | None = None
    ) -> Changed:
        """Pauses a trigger, for good or until an instant; runs that exist go on.

        Raises NotFound, PreconditionRequired, PreconditionFailed, and Invalid for an `until` that is past.
        """

        def propose(locked: Locked) -> NextRevision | None:
            current = preconditions.check_change(key, locked.trigger, expected)
            return changes.deactivate(current, locked.now, reason=caller.reason, until=until)

        return self._revising.one(key, Request(caller, propose, _same(Action.DEACTIVATE, caller, until)))

    def delete(self, key: TriggerKey, expected: Expected, caller: Caller) -> Changed:
        """Deletes a trigger softly. Raises NotFound, PreconditionRequired, PreconditionFailed."""

        def propose(locked: Locked) -> NextRevision | None:
            current = preconditions.check_change(key, locked.trigger, expected)
            return changes.delete(current, reason=caller.reason)

        return self._revising.one(key, Request(caller, propose, _same(Action.DELETE, caller)))

    def rename(self, key: TriggerKey, name: str, expected: Expected, caller: Caller) -> Changed:
        """Gives a trigger another name; its history, its watermark and its runs stay (R-22).

        Raises NotFound, Invalid, PreconditionRequired, PreconditionFailed, and Conflict for a name that any trigger
        holds, a deleted one too.
        """
        if faults := name_faults("", name=name):
            raise Invalid(f"name: {faults[0].message}", faults)
        renamed = key._replace(name=name)

        def propose(locked: Locked) -> NextRevision | None:
            current = preconditions.check_change(key, locked.trigger, expected)
            holder = store.get(locked.connection, renamed) if renamed != key else None
            if holder is not None:
                state = "deleted" if holder.deleted else "live"
                detail = f"the name {renamed} is held by a {state} trigger, so nothing was renamed"
                raise Conflict.hinted("name", detail, "choose another name")
            return changes.rename(current, renamed, reason=caller.reason or f"renamed from {key.name}")

        return self._revising.one(key, Request(caller, propose))

    def rebase(self, key: TriggerKey, caller: Caller) -> Changed:
        """Sets a watermark that is ahead of now back to now, by a revision that says so (L-12).

        Raises NotFound, and Conflict for a watermark that is not ahead: nothing is ever decided twice.
        """

        def propose(locked: Locked) -> NextRevision | None:
            stands_at = locked.trigger.revision if locked.trigger else None
            current = preconditions.check_change(key, locked.trigger, Expected(revision=stands_at))
            assert locked.status is not None
            return changes.rebase(current, locked.status.watermark, locked.now, reason=caller.reason)

        return self._revising.one(key, Request(caller, propose))

    def change_all(
        self,
        chosen: Chosen,
        action: Action,
        caller: Caller,
        *,
        until: datetime | None = None,
        projects: Collection[str] | None = None,
    ) -> list[Changed]:
        """Activates, deactivates or deletes many triggers, all or none (R-16).

        By name each must stand at the revision given; by tag it means what the tag means, within these projects, under
        the locks. Activating warns of each whose limits keep it from starting.
        Raises Conflict with a fault for each trigger that refuses, and Invalid for an `until` that is past.
        """
        if until is not None:
            with self._database.read() as connection:
                changes.refuse_past(until, self._database.clock.now(connection))

        def choose(connection: Connection) -> Collection[TriggerKey]:
            return store.tagged(connection, chosen, projects) if isinstance(chosen, str) else chosen

        def propose(locked: Locked) -> NextRevision | None:
            stands_at = locked.trigger.revision if locked.trigger else None
            expected = stands_at if isinstance(chosen, str) else chosen[locked.key]
            current = preconditions.check_change(locked.key, locked.trigger, Expected(revision=expected))
            match action:
                case Action.ACTIVATE:
                    return _activation(locked, current, locked.now, caller)
                case Action.DEACTIVATE:
                    return changes.deactivate(current, locked.now, reason=caller.reason, until=until)
                case _:
                    return changes.delete(current, reason=caller.reason)

        changed = self._revising.all(choose, Request(caller, propose, _same(action, caller, until)))
        return self._warned(changed) if action is Action.ACTIVATE else changed

    def resume_paused(self) -> list[Changed]:
        """Ends the pauses whose time has come, each as an ACTIVATE by the system as of that time (R-20, R-21)."""
        with self._database.read() as connection:
            ended = store.paused_until(connection, self._database.clock.now(connection))
        resumed = [self._by_system(one, self.activate, "pause ended", resumed_at=one.until) for one in ended]
        return [changed for changed in resumed if changed]

    def stop(self, trigger_id: str, stop: Stop) -> Changed | None:
        """Deactivates a trigger by the system; None when somebody changed it meanwhile."""
        with self._database.read() as connection:
            trigger = store.by_id(connection, trigger_id)
        if trigger is None or not trigger.active:
            return None
        return self._by_system(trigger, self.deactivate, stop.reason, until=stop.until)

    def delete_bound(
        self,
        connection: Connection,
        bound: Sequence[Trigger],
        statuses: Mapping[str, StatusRow],
        now: datetime,
        caller: Caller,
    ) -> None:
        """Deletes triggers whose rows are locked, in the transaction of whoever deletes their task (R-14)."""

        def propose(locked: Locked) -> NextRevision | None:
            assert locked.trigger is not None
            return changes.delete(locked.trigger, reason=caller.reason)

        for trigger in bound:
            locked = Locked(connection, trigger.key, trigger, statuses[trigger.trigger_id], {}, now)
            self._revising.append(locked, Request(caller, propose))

    def _deploy(
        self, manifest: TriggerManifest, check: Callable[[Trigger | None], None], caller: Caller, origin: str | None
    ) -> Changed:
        unshared = self._sharing.fault(manifest.spec.secret_scope, manifest.key.project)
        if faults := [*changes.faults(manifest), *filter(None, [unshared])]:
            raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
        if caller.actor in ("", SYSTEM):
            raise Invalid.at("author", "a trigger acts for its author, and there is none", "say who deploys: --actor")
        key, active = manifest.key, manifest.spec.active
        task = TaskKey(key.project, key.domain, key.task, manifest.spec.task_version)
        written, tags = chain.canonical(manifest.written), manifest.metadata.tags

        def propose(locked: Locked) -> NextRevision | None:
            check(locked.trigger)
            _check_task(locked, manifest, locked.tasks.get(task))
            calendars.refuse_unknown(locked.connection, key.project, manifest.spec.schedule.calendars)
            return changes.deploy(
                locked.trigger,
                manifest,
                written,
                locked.now,
                reason=caller.reason,
                origin=origin,
                scopes=caller.scopes,
                calendars=closed_days(locked, written),
                takes_over=_takes_over(locked, caller),
            )

        def is_retry(made: Revision) -> bool:
            same = (Action.DEPLOY, caller.reason, written, tags) == (made.action, made.reason, made.spec, made.tags)
            return same and active in (None, made.active) and origin in (None, made.origin)

        changed = self._revising.one(key, Request(caller, propose, is_retry), task=task)
        told = replace(changed, warnings=tuple(trust.warnings(manifest.spec)))
        return self._warned([told])[0] if manifest.spec.limits != LimitsSpec() else told

    def _warned(self, changed: Sequence[Changed]) -> list[Changed]:
        """With what is to be said of their limits."""
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            told = [
                limit_warnings.warnings(connection, one.trigger, readable_trigger(one.trigger.spec), now)
                for one in changed
            ]
        return [replace(one, warnings=(*one.warnings, *more)) for one, more in zip(changed, told, strict=True)]

    def _by_system(
        self, trigger: Trigger, change: Callable[..., Changed], reason: str, **options: Any
    ) -> Changed | None:
        try:
            return change(trigger.key, Expected(revision=trigger.revision), Caller(SYSTEM, reason), **options)
        except (Conflict, NotFound, Invalid):
            return None  # a person was faster, or there is nothing to resume to; the next pass looks again


def _activation(locked: Locked, current: Trigger, at: datetime, caller: Caller) -> NextRevision | None:
    started = locked.status.started_count if locked.status else 0
    closed = closed_days(locked, current.spec)
    return changes.activate(current, at, reason=caller.reason, started=started, calendars=closed)


def _takes_over(locked: Locked, caller: Caller) -> bool:
    current = locked.trigger
    if current is None or current.scopes == caller.scopes:
        return False
    return authors.is_gone(locked.connection, current.scopes, current.key.project, locked.now)


def _check_task(locked: Locked, manifest: TriggerManifest, task: task_store.TaskRow | None) -> None:
    """The task version must exist and declare the inputs that are given (R-12, R-14)."""
    key, version = manifest.key, manifest.spec.task_version
    if task is None or task.deleted:
        there = task_store.versions(locked.connection, key.project, key.domain, key.task)
        hint = f"registered are {', '.join(there)}" if there else "register the task first"
        raise Invalid.at("spec.task_version", f"there is no {key.task} {version}", hint)
    declared = readable_task(task.spec).inputs
    unknown = sorted(set(manifest.spec.input) - set(declared)) if declared else []
    if unknown:
        known = f"{key.task} {version} declares {', '.join(sorted(declared))}"
        faults = few(Fault(f"spec.input.{name}", "is not an input of the task", known) for name in unknown)
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def _manifest_of(revision: Revision, key: TriggerKey, *, active: bool | None) -> TriggerManifest:
    """A revision as the manifest that would deploy it again, under the name the trigger has now."""
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


def _same(action: Action, caller: Caller, until: datetime | None = None) -> Callable[[Revision], bool]:
    return lambda made: (made.action, made.reason, made.until) == (action, caller.reason, until)
