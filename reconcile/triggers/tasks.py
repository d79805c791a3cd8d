"""Task versions: registered once, immutable, deleted softly together with the triggers bound to them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconcile.decide import task_output
from reconcile.observations.observation import Observations
from reconcile.observations.runs import WaitEnded
from reconcile.observations.specs import TaskDeleted, TaskRegistered
from reconcile.plugins import launchers
from reconcile.triggers.activation import delete_triggers_of_task
from reconcile.triggers.caller import Caller
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

NAMED = 20
"""How many triggers a warning names at most."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A task version after a request; `changed` is False for the same spec again (R-23).

    `warnings` say what a new version leaves out that active triggers of others rely on (R-15).
    """

    task: TaskRow
    changed: bool
    warnings: tuple[str, ...] = ()


def register_task(database: Database, observations: Observations, manifest: TaskManifest, caller: Caller) -> Registered:
    """A new version, or the return of a deleted one with the same spec (R-14, R-23).

    Raises Invalid for a spec its launcher cannot use, Conflict for another spec under the same version.
    """
    if wrong := faults(manifest):
        raise Invalid(f"{wrong[0].path}: {wrong[0].message}", wrong)
    spec = chain.canonical(manifest.written)
    key, digest = manifest.key, chain.digest(spec)
    with database.write() as connection:
        found = store.lock(connection, [key]).get(key)
        now = database.clock.now(connection)
        changed = found is None or found.deleted
        if found is None:
            new = TaskRow(key, spec, digest, False, now, caller.actor, None, 0, 0, None)
            changed = store.register(connection, new)
            found = store.lock(connection, [key])[key]
        if found.hash != digest:
            hint = "register the changed task under a new version"
            raise Conflict(
                f"{key} is registered with another spec, and a version is immutable",
                changed_by=found.created_by,
                changed_at=found.created_at,
                errors=[Fault("spec", "differs from what is registered", hint)],
            )
        if found.deleted:
            store.restore(connection, key)
        registered = store.get(connection, key)
        relied_on = store.other_versions_in_use(connection, key) if changed else []
    assert registered is not None
    observations.emit(TaskRegistered(key, changed))
    return Registered(registered, changed, tuple(warnings(key, manifest.spec, relied_on)))


def delete_task(database: Database, observations: Observations, key: TaskKey, caller: Caller) -> TaskRow:
    """Deletes a version with its triggers, in one transaction; pending runs are cancelled, running ones end (R-14).

    Raises NotFound.
    """
    with database.write() as connection:
        found = store.lock(connection, [key]).get(key)
        if found is None or found.deleted:
            detail, way = f"there is no task {key}", "`triggerctl task list` shows what there is"
            raise NotFound.hinted("task", detail, way)
        bound = trigger_store.bound_to(connection, key)
        locked = status_store.lock(connection, [trigger.trigger_id for trigger in bound])
        now = database.clock.now(connection)
        statuses = {row.trigger_id: row for row in locked}
        reason = caller.reason or f"task version {key.version} deleted"
        delete_triggers_of_task(connection, bound, statuses, now, Caller(caller.actor, reason))
        store.delete(connection, key)
        over = run_orders.cancel_pending_of_task(connection, key, now, caller.actor)
        names = trigger_store.keys(connection, {run.trigger_id for run in over})
        deleted = store.get(connection, key)
    assert deleted is not None
    observations.emit(TaskDeleted(key, len(bound)))
    for run in over:
        observations.emit(WaitEnded(run, names.get(run.trigger_id), now))
    return deleted


def warnings(key: TaskKey, spec: TaskSpec, relied_on: Sequence[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    """Say what a new version leaves out of a trigger's state that others declare, which active triggers are bound to.

    `relied_on` are (version, stored spec, names of its active triggers).
    """
    for other, text, names in relied_on:
        declared = readable_task(text)
        for block, theirs, ours in (
            ("output", declared.outputs, spec.outputs),
            ("input", declared.inputs, spec.inputs),
        ):
            if task_output.STATE_KEY in theirs and task_output.STATE_KEY not in ours:
                named = ", ".join(str(TriggerKey(*key[:3], name)) for name in names[:NAMED])
                more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
                yield (
                    f"{key} has no {block} {task_output.STATE_KEY!r}, which version {other} declares; "
                    f"active triggers rely on it: {named}{more}"
                )


def faults(manifest: TaskManifest) -> list[Fault]:
    """Return what is wrong with a task that only its launcher can read (X-10)."""
    spec, kinds = manifest.spec, launchers()
    if spec.launcher not in kinds:
        return [Fault("spec.launcher", f"{spec.launcher!r} is not known", f"one of {', '.join(sorted(kinds))}")]
    try:
        kinds[spec.launcher].read(spec.block)
    except Invalid as error:
        block = f"spec.{spec.launcher}"
        return [Fault(f"{block}.{fault.path}".rstrip("."), fault.message, fault.hint) for fault in error.errors]
    return []
