"""Register and delete task versions, which are immutable; a deletion is soft and deletes the bound triggers too."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconcile.decide import attempt_ends
from reconcile.decide.authority import Caller
from reconcile.observations.observation import Observations
from reconcile.observations.runs import WaitEnded
from reconcile.observations.specs import TaskDeleted, TaskRegistered
from reconcile.plugins import launchers
from reconcile.triggers.activation import delete_triggers_of_task
from revisions.errors import Conflict, Fault, Invalid, NotFound
from revisions.history import chain
from revisions.ids import TaskKey, TriggerKey
from revisions.spec.stored import readable_task
from revisions.spec.task import TaskManifest, TaskSpec
from revisions.store import run_orders
from revisions.store import status as status_store
from revisions.store import tasks as store
from revisions.store import triggers as trigger_store
from revisions.store.database import Database
from revisions.store.tasks import TaskRow

_MOST_NAMED = 20
"""Triggers that a warning names at most."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A task version after a request; `changed` is False when it was registered with this spec already (R-23).

    `warnings` name what the version does not declare although active triggers of other versions rely on it (R-15).
    """

    task: TaskRow
    changed: bool
    warnings: tuple[str, ...] = ()


def register_task(database: Database, observations: Observations, manifest: TaskManifest, caller: Caller) -> Registered:
    """Register a new task version, or restore a deleted one that has the same spec (R-14, R-23).

    Raises Invalid for a spec that its launcher cannot use, and Conflict when the version has another spec.
    """
    if faults := launcher_faults(manifest):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    spec = chain.canonical(manifest.written)
    key, digest = manifest.key, chain.digest(spec)
    with database.write() as connection:
        task = store.lock(connection, [key]).get(key)
        now = database.clock.now(connection)
        changed = task is None or task.deleted
        if task is None:
            new = TaskRow(key, spec, digest, False, now, caller.actor, None, 0, 0, None)
            # Another request may register the version between the lock, which finds no row, and this insert.
            changed = store.register(connection, new)
            task = store.lock(connection, [key])[key]
        if task.hash != digest:
            hint = "register the changed task under a new version"
            raise Conflict(
                f"{key} is registered with another spec, and a version is immutable",
                changed_by=task.created_by,
                changed_at=task.created_at,
                errors=[Fault("spec", "differs from what is registered", hint)],
            )
        if task.deleted:
            store.restore(connection, key)
        registered = store.get(connection, key)
        relied_on = store.other_versions_in_use(connection, key) if changed else []
    assert registered is not None
    observations.emit(TaskRegistered(key, changed))
    return Registered(registered, changed, tuple(_state_warnings(key, manifest.spec, relied_on)))


def delete_task(database: Database, observations: Observations, key: TaskKey, caller: Caller) -> TaskRow:
    """Delete a task version and its triggers in one transaction (R-14).

    Pending runs are cancelled, running ones go on to their end. Raises NotFound.
    """
    with database.write() as connection:
        task = store.lock(connection, [key]).get(key)
        if task is None or task.deleted:
            raise NotFound.hinted("task", f"there is no task {key}", "`triggerctl task list` shows what there is")
        triggers = trigger_store.bound_to(connection, key)
        statuses = status_store.lock(connection, [trigger.trigger_id for trigger in triggers])
        now = database.clock.now(connection)
        status_by_id = {row.trigger_id: row for row in statuses}
        reason = caller.reason or f"task version {key.version} deleted"
        delete_triggers_of_task(connection, triggers, status_by_id, now, Caller(caller.actor, reason))
        store.delete(connection, key)
        cancelled = run_orders.cancel_pending_of_task(connection, key, now, caller.actor)
        names = trigger_store.keys(connection, {run.trigger_id for run in cancelled})
        deleted = store.get(connection, key)
    assert deleted is not None
    observations.emit(TaskDeleted(key, len(triggers)))
    for run in cancelled:
        observations.emit(WaitEnded(run, names.get(run.trigger_id), now))
    return deleted


def launcher_faults(manifest: TaskManifest) -> list[Fault]:
    """Return the faults of a task that only its launcher can find (X-10)."""
    spec, kinds = manifest.spec, launchers()
    if spec.launcher not in kinds:
        return [Fault("spec.launcher", f"{spec.launcher!r} is not known", f"one of {', '.join(sorted(kinds))}")]
    try:
        kinds[spec.launcher].read(spec.block)
    except Invalid as error:
        block = f"spec.{spec.launcher}"
        return [Fault(f"{block}.{fault.path}".rstrip("."), fault.message, fault.hint) for fault in error.errors]
    return []


def _state_warnings(key: TaskKey, spec: TaskSpec, relied_on: Sequence[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    """Warn when a new version does not declare the state that other versions with active triggers declare.

    `relied_on` are the other versions: name, stored spec, and names of the active triggers.
    """
    for version, text, names in relied_on:
        other = readable_task(text)
        for block, theirs, ours in (
            ("output", other.outputs, spec.outputs),
            ("input", other.inputs, spec.inputs),
        ):
            if attempt_ends.STATE_KEY in theirs and attempt_ends.STATE_KEY not in ours:
                named = ", ".join(str(TriggerKey(*key[:3], name)) for name in names[:_MOST_NAMED])
                more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
                yield (
                    f"{key} has no {block} {attempt_ends.STATE_KEY!r}, which version {version} declares; "
                    f"active triggers rely on it: {named}{more}"
                )
