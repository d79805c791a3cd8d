"""Consistency checks of a whole database, row by row: invariants 1 to 3 and L-15."""

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

ALL = 1_000_000


def faults(database: Database) -> list[str]:
    """Return every inconsistency."""
    with database.read() as connection:
        current = _triggers(connection)
        histories = {
            trigger.trigger_id: revision_store.page(connection, trigger.trigger_id, None, ALL)[::-1]
            for trigger in current
        }
        inconsistencies = [*_orphans(connection, histories), *_summaries(connection, current)]
        for trigger in current:
            revisions = histories[trigger.trigger_id]
            inconsistencies += _history(trigger, revisions)
            row = status.get(connection, trigger.trigger_id)
            if row is None or row.revision != trigger.revision:
                inconsistencies.append(f"{trigger.key}: status {row} beside revision {trigger.revision}")
            for run in run_store.page(connection, None, ALL, trigger_id=trigger.trigger_id):
                inconsistencies += _run(run, revisions)
        return inconsistencies


def _triggers(connection: Connection) -> list[Trigger]:
    ids = connection.execute(select(triggers.c.trigger_id)).scalars()
    return [trigger for trigger_id in ids if (trigger := store.by_id(connection, trigger_id))]


def _history(trigger: Trigger, revisions: Sequence[Revision]) -> Iterator[str]:
    """Check that revisions have no gap (R-03), that the row is their fold (invariant 1) and that the chain holds
    (R-10)."""
    numbers = [revision.revision for revision in revisions]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"{trigger.key}: revisions {numbers}"
    if fold(revisions) != trigger:
        yield f"{trigger.key}: the row is not the fold: {trigger} / {fold(revisions)}"
    if revisions[0].previous_hash != ORIGIN:
        yield f"{trigger.key}: begins with {revisions[0].previous_hash}"
    yield from (f"{trigger.key}: {each.revision} has a wrong hash" for each in revisions if link(each) != each.hash)
    for before, after in pairwise(revisions):
        if after.previous_hash != before.hash:
            yield f"{trigger.key}: {after.revision} is not chained to the one before"
        if after.at < before.at:
            yield f"{trigger.key}: {after.revision} is older than the one before"


def _run(run: Run, revisions: Sequence[Revision]) -> Iterator[str]:
    """Check that a run belongs to the revision in force when it was created, and that it allows the run (L-15)."""
    force = [revision for revision in revisions if revision.at <= run.created_at][-1]
    if run.revision != force.revision:
        yield f"{run.id}: of revision {run.revision} when {force.revision} was in force"
    if force.action is Action.DELETE or (run.source == "schedule" and not force.active):
        yield f"{run.id}: created when {force.action} was in force"
    if run.task_version != json.loads(force.spec)["task_version"]:
        yield f"{run.id}: of task version {run.task_version}"


def _summaries(connection: Connection, current: Sequence[Trigger]) -> Iterator[str]:
    """Check that task rows agree with a recount (R-12, R-13) and that no trigger has a deleted task (R-14)."""
    task_rows = {}
    for row in connection.execute(select(task_table.c.project, task_table.c.domain, task_table.c.name).distinct()):
        for version in connection.execute(select(task_table.c.version).where(task_table.c.name == row.name)).scalars():
            key = TaskKey(*row, version)
            task_rows[key] = tasks.get(connection, key)
    for key, task in task_rows.items():
        assert task is not None
        bound = [trigger for trigger in current if not trigger.deleted and store.task_key(trigger) == key]
        single = bound[0] if len(bound) == 1 else None
        expected = (
            len(bound),
            sum(trigger.active for trigger in bound),
            single and single.key.name,
            single and {"schedule": json.loads(single.spec)["schedule"]},
        )
        summary = (task.total_triggers, task.active_triggers, task.trigger_name, task.trigger_automation)
        if summary != expected:
            yield f"{key}: summary {summary}, recounted {expected}"
        if task.deleted and bound:
            yield f"{key}: deleted, but {bound} are bound to it"


def _orphans(connection: Connection, histories: dict[str, list[Revision]]) -> Iterator[str]:
    """Check that the change feed holds every revision once and nothing else."""
    listed = connection.execute(select(trigger_changes.c.trigger_id, trigger_changes.c.revision)).all()
    expected = [(trigger_id, each.revision) for trigger_id, revisions in histories.items() for each in revisions]
    if sorted(map(tuple, listed)) != sorted(expected):
        yield f"the feed has {len(listed)} rows, there are {len(expected)} revisions"
