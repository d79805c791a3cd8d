"""Write transactions that hold the locks of a change, in the order that holds everywhere (invariant 1)."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from revisions.history.triggers import Trigger
from revisions.ids import TaskKey, TriggerKey
from revisions.store import status as status_store
from revisions.store import tasks as task_store
from revisions.store import triggers as store
from revisions.store.database import Connection, Database
from revisions.store.status import StatusRow
from revisions.store.tasks import TaskRow

Selection = Mapping[TriggerKey, int] | str
"""Triggers of a bulk change: names with the revision last read of each, or a tag (R-16)."""


@dataclass(frozen=True, slots=True)
class LockedTrigger:
    """A name under the locks of a change, read after they were taken.

    `trigger` and `status` are None for a name that was never used. `tasks` are the locked task versions. `now` was
    read after the last lock, because a time read before the transaction waited lies in the past (invariant 6).
    """

    connection: Connection
    key: TriggerKey
    trigger: Trigger | None
    status: StatusRow | None
    tasks: Mapping[TaskKey, TaskRow]
    now: datetime


@contextmanager
def locked_trigger(database: Database, key: TriggerKey, *, task: TaskKey | None = None) -> Iterator[LockedTrigger]:
    """Open a write transaction that holds the locks of one trigger; it commits when the block ends.

    `task` is the task version that the trigger is to be bound to, if that may be a new one. The row of the version that
    the trigger is bound to now is locked too. Task rows are locked before the trigger, so this version must be known
    beforehand: it is read without a lock and compared under the locks. When the trigger moved to another version in
    between, the locks are given up and taken again.
    """
    wanted = {task} if task else set()
    tasks = set(wanted)
    while True:
        with database.write() as connection:
            if not tasks and (unlocked := store.get(connection, key)):
                tasks = {store.task_key(unlocked)}
            rows = store.lock(connection, tasks, key, database.clock)
            bound = store.task_key(rows.trigger) if rows.trigger else None
            if bound is None or bound in tasks:
                yield LockedTrigger(connection, key, rows.trigger, rows.status, rows.tasks, rows.now)
                return
        tasks = wanted | {bound}


@contextmanager
def locked_triggers(
    database: Database, selection: Selection, projects: Collection[str] | None = None
) -> Iterator[list[LockedTrigger]]:
    """Open a write transaction that holds the locks of all selected triggers, in key order.

    A tag selects the triggers of `projects` (None: all) that have it once the locks are held. When a trigger moved to
    another task version, or further triggers got the tag, since they were read without locks, the locks are given up
    and taken again.
    """
    while True:
        with database.write() as connection:
            unlocked_keys = _selected(connection, selection, projects)
            unlocked = [store.get(connection, key) for key in unlocked_keys]
            task_keys = {store.task_key(trigger) for trigger in unlocked if trigger}
            tasks = task_store.lock(connection, task_keys)
            triggers = {trigger.key: trigger for trigger in store.lock_all(connection, unlocked_keys)}
            ids = [trigger.trigger_id for trigger in triggers.values()]
            statuses = {row.trigger_id: row for row in status_store.lock(connection, ids)}
            keys = _selected(connection, selection, projects)
            moved = {store.task_key(trigger) for trigger in triggers.values()} - task_keys
            if not moved and set(keys) <= set(unlocked_keys):
                now = database.clock.now(connection)
                yield [
                    LockedTrigger(
                        connection,
                        key,
                        trigger,
                        statuses[trigger.trigger_id] if trigger else None,
                        tasks,
                        now,
                    )
                    for key, trigger in ((key, triggers.get(key)) for key in keys)
                ]
                return


def _selected(connection: Connection, selection: Selection, projects: Collection[str] | None) -> list[TriggerKey]:
    if isinstance(selection, str):
        return sorted(store.tagged(connection, selection, projects))
    return sorted(selection)
