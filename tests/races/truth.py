"""What must be true of a database whatever happened to it: invariants 1 to 3 and L-15, recounted row by row."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlalchemy import select

from revisions.history.chain import ORIGIN, link
from revisions.history.triggers import Action, Revision, Trigger, fold
from revisions.ids import TaskKey
from revisions.store import revisions as revision_store
from revisions.store import runs as run_store
from revisions.store import status, tasks
from revisions.store import triggers as store
from revisions.store.database import Connection, Database
from revisions.store.runs import Run
from revisions.store.tables import tasks as task_table
from revisions.store.tables import trigger_changes, triggers

MANY = 1_000_000


def faults(database: Database) -> list[str]:
    """Everything that is not as it must be."""
    with database.read() as connection:
        current = _triggers(connection)
        histories = {
            one.trigger_id: revision_store.page(connection, one.trigger_id, None, MANY)[::-1] for one in current
        }
        found = [*_orphans(connection, histories), *_summaries(connection, current)]
        for trigger in current:
            revisions = histories[trigger.trigger_id]
            found += _history(trigger, revisions)
            row = status.get(connection, trigger.trigger_id)
            if row is None or row.revision != trigger.revision:
                found.append(f"{trigger.key}: status {row} beside revision {trigger.revision}")
            made = run_store.page(connection, None, MANY, trigger_id=trigger.trigger_id)
            found += [fault for run in made for fault in _run(run, revisions)]
        return found


def _triggers(connection: Connection) -> list[Trigger]:
    ids = connection.execute(select(triggers.c.trigger_id)).scalars()
    return [trigger for trigger_id in ids if (trigger := store.by_id(connection, trigger_id))]


def _history(trigger: Trigger, revisions: Sequence[Revision]) -> Iterator[str]:
    """R-03: no gap; invariant 1: the row is the fold; R-10: the chain holds."""
    numbers = [revision.revision for revision in revisions]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"{trigger.key}: revisions {numbers}"
    if fold(revisions) != trigger:
        yield f"{trigger.key}: the row is not the fold: {trigger} / {fold(revisions)}"
    if revisions[0].previous_hash != ORIGIN:
        yield f"{trigger.key}: begins with {revisions[0].previous_hash}"
    yield from (f"{trigger.key}: {one.revision} is hashed wrongly" for one in revisions if link(one) != one.hash)
    for before, after in pairwise(revisions):
        if after.previous_hash != before.hash:
            yield f"{trigger.key}: {after.revision} is not chained to the one before"
        if after.at < before.at:
            yield f"{trigger.key}: {after.revision} is older than the one before"


def _run(run: Run, revisions: Sequence[Revision]) -> Iterator[str]:
    """L-15: a run is of the revision that was in force when it was made, and that one let it be made."""
    force = [revision for revision in revisions if revision.at <= run.created_at][-1]
    if run.revision != force.revision:
        yield f"{run.id}: of revision {run.revision} when {force.revision} was in force"
    if force.action is Action.DELETE or (run.source == "schedule" and not force.active):
        yield f"{run.id}: made when {force.action} was in force"
    if run.task_version != json.loads(force.spec)["task_version"]:
        yield f"{run.id}: of task version {run.task_version}"


def _summaries(connection: Connection, current: Sequence[Trigger]) -> Iterator[str]:
    """R-12, R-13: a task row says what a recount says; R-14: nothing is bound to what is not there."""
    there = {}
    for row in connection.execute(select(task_table.c.project, task_table.c.domain, task_table.c.name).distinct()):
        for version in connection.execute(select(task_table.c.version).where(task_table.c.name == row.name)).scalars():
            key = TaskKey(*row, version)
            there[key] = tasks.get(connection, key)
    for key, task in there.items():
        assert task is not None
        bound = [one for one in current if not one.deleted and store.task_key(one) == key]
        only = bound[0] if len(bound) == 1 else None
        expected = (
            len(bound),
            sum(one.active for one in bound),
            only and only.key.name,
            only and {"schedule": json.loads(only.spec)["schedule"]},
        )
        said = (task.total_triggers, task.active_triggers, task.trigger_name, task.trigger_automation)
        if said != expected:
            yield f"{key}: says {said}, recounted {expected}"
        if task.deleted and bound:
            yield f"{key}: deleted, but {bound} are bound to it"


def _orphans(connection: Connection, histories: dict[str, list[Revision]]) -> Iterator[str]:
    """Every revision stands once in the feed, and nothing else does."""
    listed = connection.execute(select(trigger_changes.c.trigger_id, trigger_changes.c.revision)).all()
    made = [(trigger_id, one.revision) for trigger_id, revisions in histories.items() for one in revisions]
    if sorted(map(tuple, listed)) != sorted(made):
        yield f"the feed has {len(listed)} rows, there are {len(made)} revisions"
