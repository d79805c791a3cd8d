"""The one deploy, activate, deactivate and delete: takes the locks, asks the rules, calls the store."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from reconcile.observe import Observations
from reconcile.rules import changes, preconditions
from reconcile.rules.catchup import Range
from reconcile.rules.preconditions import Expected
from revisions import chain, ids
from revisions.errors import Conflict, Fault, Invalid
from revisions.ids import TaskKey, TriggerKey
from revisions.manifests import Trigger as Manifest
from revisions.store import status as status_store
from revisions.store import tasks as task_store
from revisions.store import triggers as store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.status import Baseline, StatusRow
from revisions.triggers import SYSTEM, Action, Revision, Trigger, apply

ALL_SCOPES = '["*"]'
"""The author's scopes where no access is configured."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, why, and under which key a retry is recognised (invariant 7, R-04)."""

    actor: str = SYSTEM
    reason: str = ""
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The trigger after a request; `changed` is False when nothing had to be appended (R-06, R-08)."""

    trigger: Trigger
    changed: bool
    created: bool = False


@dataclass(frozen=True, slots=True)
class _Locked:
    """What a change finds once it holds its locks."""

    connection: Connection
    key: TriggerKey
    trigger: Trigger | None
    status: StatusRow | None
    now: datetime


class _Moved(Exception):
    """The trigger is bound to a task version that was not locked."""

    def __init__(self, task: TaskKey) -> None:
        self.task = task


class Deploying:
    """Every change of a trigger: one transaction, at most one revision, locks in the order that holds everywhere."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def deploy(self, manifest: Manifest, expected: Expected, caller: Caller, *, origin: str | None = None) -> Changed:
        """Creates or updates a trigger (R-04 to R-06).

        Raises Invalid, fault by fault, PreconditionRequired, PreconditionFailed and Conflict.
        """
        if faults := changes.faults(manifest):
            raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
        key, spec = manifest.key, manifest.spec
        task = TaskKey(key.project, key.domain, key.task, spec.task_version)
        written = chain.canonical(manifest.written)

        def propose(locked: _Locked, tasks: dict[TaskKey, task_store.TaskRow]) -> changes.Next | None:
            preconditions.check_deploy(key, locked.trigger, expected)
            self._check_task(locked, manifest, tasks.get(task))
            return changes.deploy(
                locked.trigger,
                manifest,
                written,
                locked.now,
                reason=caller.reason,
                origin=origin,
                scopes=ALL_SCOPES,
            )

        def is_retry(made: Revision) -> bool:
            asked = (Action.DEPLOY, written, manifest.metadata.tags)
            same = asked == (made.action, made.spec, made.tags) and spec.active in (None, made.active)
            return same and origin in (None, made.origin)

        return self._change(key, task, caller, propose, is_retry)

    def activate(
        self, key: TriggerKey, expected: Expected, caller: Caller, *, resumed_at: datetime | None = None
    ) -> Changed:
        """Resumes a trigger: a new baseline, so that paused time never fires (R-20, R-21).

        Raises NotFound, PreconditionRequired, PreconditionFailed, and Invalid when no fire is left.
        """

        def propose(locked: _Locked, _: object) -> changes.Next | None:
            current = preconditions.check_change(key, locked.trigger, expected)
            return changes.activate(current, resumed_at or locked.now, reason=caller.reason)

        return self._change(key, None, caller, propose, _same(Action.ACTIVATE, caller), resumed_at=resumed_at)

    def deactivate(
        self, key: TriggerKey, expected: Expected, caller: Caller, *, until: datetime | None = None
    ) -> Changed:
        """Pauses a trigger, for good or until an instant; runs that exist go on.

        Raises NotFound, PreconditionRequired, PreconditionFailed, and Invalid for an `until` that is past.
        """

        def propose(locked: _Locked, _: object) -> changes.Next | None:
            current = preconditions.check_change(key, locked.trigger, expected)
            return changes.deactivate(current, locked.now, reason=caller.reason, until=until)

        return self._change(key, None, caller, propose, _same(Action.DEACTIVATE, caller, until))

    def delete(self, key: TriggerKey, expected: Expected, caller: Caller) -> Changed:
        """Deletes a trigger softly. Raises NotFound, PreconditionRequired, PreconditionFailed."""

        def propose(locked: _Locked, _: object) -> changes.Next | None:
            current = preconditions.check_change(key, locked.trigger, expected)
            return changes.delete(current, reason=caller.reason)

        return self._change(key, None, caller, propose, _same(Action.DELETE, caller))

    def resume_paused(self) -> list[Changed]:
        """Ends the pauses whose time has come, each as an ACTIVATE by the system as of that time (R-20, R-21)."""
        with self._database.read() as connection:
            ended = store.paused_until(connection, self._database.clock.now(connection))
        resumed = [
            self._by_system(trigger, self.activate, "pause ended", resumed_at=trigger.until) for trigger in ended
        ]
        return [changed for changed in resumed if changed]

    def stop(self, trigger_id: str, reason: str) -> Changed | None:
        """Deactivates a trigger by the system (`completed`, `failures`); None when somebody changed it meanwhile."""
        with self._database.read() as connection:
            trigger = store.by_id(connection, trigger_id)
        return self._by_system(trigger, self.deactivate, reason) if trigger and trigger.active else None

    def delete_bound(
        self,
        connection: Connection,
        bound: Sequence[Trigger],
        statuses: dict[str, StatusRow],
        now: datetime,
        caller: Caller,
    ) -> None:
        """Deletes triggers whose rows are locked, in the transaction of whoever deletes their task (R-14)."""
        for trigger in bound:
            locked = _Locked(connection, trigger.key, trigger, statuses[trigger.trigger_id], now)
            self._append(locked, changes.delete(trigger, reason=caller.reason), caller, None)

    def _by_system(
        self, trigger: Trigger, change: Callable[..., Changed], reason: str, **options: Any
    ) -> Changed | None:
        try:
            return change(trigger.key, Expected(revision=trigger.revision), Caller(SYSTEM, reason), **options)
        except (Conflict, Invalid):
            return None  # a person was faster, or there is nothing to resume to; the next pass looks again

    def _change(
        self,
        key: TriggerKey,
        task: TaskKey | None,
        caller: Caller,
        propose: Callable[[_Locked, dict[TaskKey, task_store.TaskRow]], changes.Next | None],
        is_retry: Callable[[Revision], bool],
        *,
        resumed_at: datetime | None = None,
    ) -> Changed:
        """One change under its locks; starts over with the right task locked when the trigger was bound to another."""
        tasks = {task} if task else set()
        while True:
            try:
                with self._database.write() as connection:
                    if not tasks and (seen := store.get(connection, key)):
                        tasks = {store.task_key(seen)}
                    found = store.lock(connection, tasks, key)
                    if found.trigger and store.task_key(found.trigger) not in tasks:
                        raise _Moved(store.task_key(found.trigger))
                    now = self._database.clock.now(connection)
                    locked = _Locked(connection, key, found.trigger, found.status, now)
                    if made := self._retried(locked, caller, is_retry):
                        return made
                    following = propose(locked, found.tasks)
                    if following is None:
                        assert locked.trigger is not None
                        return Changed(locked.trigger, changed=False)
                    changed = self._append(locked, following, caller, resumed_at, is_last=True)
            except _Moved as moved:
                tasks = ({task} if task else set()) | {moved.task}
                continue
            except store.AlreadyThere:
                continue
            self._observations.emit("trigger.changed", action=following.action.value, trigger=str(key))
            return changed

    def _append(
        self,
        locked: _Locked,
        following: changes.Next,
        caller: Caller,
        resumed_at: datetime | None,
        *,
        is_last: bool = False,
    ) -> Changed:
        current, now = locked.trigger, locked.now
        revision = Revision(
            trigger_id=current.trigger_id if current else ids.fresh(now),
            key=locked.key,
            revision=current.revision + 1 if current else 1,
            actor=caller.actor,
            at=now,
            idempotency_key=caller.idempotency_key,
            previous_hash=current.hash if current else chain.ORIGIN,
            hash="",
            action=following.action,
            reason=following.reason,
            active=following.active,
            tags=following.tags,
            until=following.until,
            origin=following.origin,
            resolved=following.resolved,
            scopes=following.scopes,
            spec=following.spec,
        )
        revision = replace(revision, hash=chain.link(revision))
        baseline = None
        if changes.needs_beginning(current, following):
            baseline = self._baseline(locked, following, resumed_at)
        trigger = store.append(locked.connection, current, revision, baseline, is_last=is_last)
        return Changed(trigger, changed=True, created=current is None or current.deleted)

    def _baseline(self, locked: _Locked, following: changes.Next, resumed_at: datetime | None) -> Baseline:
        current, status = locked.trigger, locked.status
        backlogs = status_store.backlogs(locked.connection, [current.trigger_id]) if current and current.active else []
        beginning = changes.beginning(
            current,
            following,
            locked.now,
            watermark=status.watermark if status else None,
            backlogs=[(backlog.cursor_at, backlog.until_at) for backlog in backlogs],
            resumed_at=resumed_at,
        )
        left = beginning.superseded
        skip = skip_of(current.trigger_id, current.revision, locked.now, left) if current and left else None
        return Baseline(beginning.watermark, beginning.next_fire_at, skip)

    def _retried(self, locked: _Locked, caller: Caller, is_retry: Callable[[Revision], bool]) -> Changed | None:
        """What an earlier request with the same idempotency key made (R-04). Raises Conflict for another body."""
        if caller.idempotency_key is None or locked.trigger is None:
            return None
        made = store.by_idempotency_key(locked.connection, locked.trigger.trigger_id, caller.idempotency_key)
        if made is None:
            return None
        if not is_retry(made):
            raise Conflict(
                f"Idempotency-Key {caller.idempotency_key!r} was used for another request, revision {made.revision}",
                current_revision=locked.trigger.revision,
                changed_by=locked.trigger.changed_by,
                changed_at=locked.trigger.changed_at,
            )
        before = store.revision(locked.connection, made.trigger_id, made.revision - 1)
        created = before is None or before.action is Action.DELETE
        return Changed(apply(None, made), changed=True, created=created)

    def _check_task(self, locked: _Locked, manifest: Manifest, task: task_store.TaskRow | None) -> None:
        """The task version must exist and declare the inputs that are given (R-12, R-14)."""
        key, version = manifest.key, manifest.spec.task_version
        if task is None or task.deleted:
            there = task_store.versions(locked.connection, key.project, key.domain, key.task)
            hint = f"registered are {', '.join(there)}" if there else "register the task first"
            raise Invalid.at("spec.task_version", f"there is no {key.task} {version}", hint)
        declared = json.loads(task.spec).get("inputs")
        unknown = sorted(set(manifest.spec.input) - set(declared)) if declared else []
        if unknown:
            known = f"{key.task} {version} declares {', '.join(sorted(declared))}"
            faults = [Fault(f"spec.input.{name}", "is not an input of the task", known) for name in unknown]
            raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def skip_of(trigger_id: str, revision: int, decided_at: datetime, left: Range) -> Skip:
    """The ledger's row for occurrences that became no run."""
    return Skip(
        trigger_id=trigger_id,
        occurrence_id=left.first.id,
        scheduled_at=left.first.at,
        scheduled_until=left.until,
        decided_at=decided_at,
        outcome=left.outcome,
        reason=left.reason,
        revision=revision,
        count=left.count,
    )


def _same(action: Action, caller: Caller, until: datetime | None = None) -> Callable[[Revision], bool]:
    return lambda made: (made.action, made.reason, made.until) == (action, caller.reason, until)
