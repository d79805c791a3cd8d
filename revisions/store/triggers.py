"""Triggers: current rows, and the one function that changes them (invariant 1)."""

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    false,
    func,
    insert,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from revisions.clock import Clock
from revisions.errors import Conflict
from revisions.history.chain import canonical
from revisions.history.chain_breaks import current_row
from revisions.history.triggers import Revision, StopReason, Trigger, apply
from revisions.ids import TaskKey, TriggerKey
from revisions.run_limits import run_limits_of
from revisions.spec.stored import readable_trigger
from revisions.store import expectations, notices, occurrences, runs, status
from revisions.store import revisions as revision_store
from revisions.store import tasks as task_store
from revisions.store.columns import in_list, insert_if_absent
from revisions.store.database import fetch_with_time
from revisions.store.sessions import Query, Write, commit_with, write
from revisions.store.status import Baseline
from revisions.store.tables import trigger_changes, trigger_revisions, trigger_status, triggers

_KEY = (triggers.c.project, triggers.c.domain, triggers.c.task, triggers.c.name)
_IS_ACTIVE = and_(triggers.c.active == true(), triggers.c.deleted == false())
_IDENTITY = ("trigger_id", *(column.name for column in _KEY))
"""Columns of the current row that only a rename changes."""
_IS = and_(*(column == bindparam(f"where_{column.name}") for column in _KEY))
_GET = select(triggers).where(_IS)
_LOCK = (
    select(triggers, *status.LABELLED)
    .join(trigger_status, trigger_status.c.trigger_id == triggers.c.trigger_id)
    .where(_IS)
    .with_for_update(key_share=True)
)
_LOCK_ROW = _GET.with_for_update(key_share=True)
_APPEND = insert(trigger_revisions)
_CURRENT = update(triggers).where(triggers.c.trigger_id == bindparam("where_trigger"))
_CHANGE = insert(trigger_changes).inline()
_CHANGE_AND_NOTIFY = _CHANGE.returning(func.pg_notify(notices.CHANGES, trigger_changes.c.trigger_id).label("told"))


class AlreadyThere(Conflict):
    """The name was created under another task version since it was looked up; the caller tries again."""


def task_key(trigger: Trigger) -> TaskKey:
    """Return the task version that a trigger is bound to."""
    return TaskKey(
        trigger.key.project, trigger.key.domain, trigger.key.task, readable_trigger(trigger.spec).task_version
    )


def get(connection: Connection, key: TriggerKey) -> Trigger | None:
    """Return the current row without a lock, deleted triggers included."""
    row = connection.execute(_GET, _key_parameters(key)).one_or_none()
    return from_row(row) if row else None


def by_id(connection: Connection, trigger_id: str) -> Trigger | None:
    row = connection.execute(select(triggers).where(triggers.c.trigger_id == trigger_id)).one_or_none()
    return from_row(row) if row else None


_READ = select(triggers).where(triggers.c.trigger_id == bindparam("where_trigger"))


def read_query(trigger_id: str) -> Query:
    """Return the query for a trigger."""
    return _READ, {"where_trigger": trigger_id}


def keys(connection: Connection, ids: Iterable[str]) -> dict[str, TriggerKey]:
    """Return the names of triggers by id, deleted ones included."""
    statement = select(triggers.c.trigger_id, *_KEY).where(in_list(connection, triggers.c.trigger_id, sorted(set(ids))))
    return {row[0]: TriggerKey(*row[1:]) for row in connection.execute(statement)}


class LockedRows(NamedTuple):
    """Rows under the locks of a change; `trigger` and `status` are None for a name that was never used."""

    tasks: dict[TaskKey, task_store.TaskRow]
    trigger: Trigger | None
    status: status.StatusRow | None
    now: datetime


def tags(connection: Connection, ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the tags of triggers, by id."""
    statement = select(triggers.c.trigger_id, triggers.c.tags).where(triggers.c.trigger_id.in_(list(ids)))
    return {row[0]: json.loads(row[1]) for row in connection.execute(statement)}


def lock(connection: Connection, tasks: Collection[TaskKey], key: TriggerKey, clock: Clock) -> LockedRows:
    """Lock tasks, the current row and its status, in this order (invariant 1), and read the time after that.

    NO KEY UPDATE: a change leaves the key alone, so that transactions that only need the row to exist do not wait.
    """
    queries = (*task_store.lock_queries(tasks), (_LOCK, _key_parameters(key)))
    (*answers, rows), now = fetch_with_time(clock, connection, *queries)
    trigger, status_row = (from_row(rows[0]), status.labelled(rows[0])) if rows else (None, None)
    return LockedRows(task_store.locked_rows(answers), trigger, status_row, now)


def bound_to(connection: Connection, task: TaskKey) -> list[Trigger]:
    """Lock and return the triggers of a task version that are not deleted, in key order; their status is not locked."""
    statement = (
        select(triggers)
        .where(
            triggers.c.project == task.project,
            triggers.c.domain == task.domain,
            triggers.c.task == task.name,
            triggers.c.task_version == task.version,
            triggers.c.deleted == false(),
        )
        .order_by(*_KEY)
        .with_for_update(key_share=True)
    )
    return [from_row(row) for row in connection.execute(statement)]


def lock_all(connection: Connection, keys: Sequence[TriggerKey]) -> list[Trigger]:
    """Lock and return current rows in key order. Lock order: the task rows are locked already (invariant 1)."""
    rows = (connection.execute(_LOCK_ROW, _key_parameters(key)).one_or_none() for key in sorted(keys))
    return [from_row(row) for row in rows if row]


def tagged(connection: Connection, tag: str, projects: Collection[str] | None = None) -> list[TriggerKey]:
    """Return the names of triggers with a tag that are not deleted, within `projects` (None: all)."""
    statement = select(*_KEY).where(triggers.c.deleted == false(), _bears(tag))
    if projects is not None:
        statement = statement.where(triggers.c.project.in_(sorted(projects)))
    return [TriggerKey(*row) for row in connection.execute(statement)]


def page(
    connection: Connection,
    after: TriggerKey | None,
    limit: int,
    *,
    project: str | None = None,
    domain: str | None = None,
    task: str | None = None,
    tag: str | None = None,
    active: bool | None = None,
    origin: str | None = None,
    projects: Collection[str] | None = None,
) -> list[tuple[Trigger, status.StatusRow]]:
    """Return triggers that are not deleted with their status, in key order after a key, within `projects`."""
    statement = (
        select(triggers, *status.LABELLED)
        .join(trigger_status, trigger_status.c.trigger_id == triggers.c.trigger_id)
        .where(triggers.c.deleted == false())
        .order_by(*_KEY)
        .limit(limit)
    )
    for column, wanted in zip(_KEY, (project, domain, task, None), strict=True):
        if wanted is not None:
            statement = statement.where(column == wanted)
    if projects is not None:
        statement = statement.where(triggers.c.project.in_(sorted(projects)))
    if tag is not None:
        statement = statement.where(_bears(tag))
    if origin is not None:
        statement = statement.where(triggers.c.origin == origin)
    if active is not None:
        statement = statement.where(triggers.c.active == (true() if active else false()))
    if after:
        statement = statement.where(tuple_(*_KEY) > tuple(after))
    return [(from_row(row), status.labelled(row)) for row in connection.execute(statement)]


def append(
    connection: Connection,
    previous: Trigger | None,
    revision: Revision,
    baseline: Baseline | None,
    *,
    commits: bool = False,
    traceparent: str | None = None,
    over_budget_until: datetime | None = None,
) -> Trigger:
    """Append a revision: write the current row, the status, the summaries and the feed, and notify.

    Every change of a trigger goes through here. The caller holds the locks, tasks first. Without a baseline the
    watermark and the next fire stay. `commits` commits the transaction in the same round trip. `traceparent` is the
    trace of the request; waiting runs are held back until `over_budget_until`. Raises AlreadyThere when another
    transaction created the name first.
    """
    current = apply(previous, revision)
    row = current_row(current)
    if previous is None and insert_if_absent(connection, triggers, row) == 0:
        raise AlreadyThere(f"{revision.key} was created by somebody else in the meantime")
    if previous is not None and previous.key != current.key:
        _rename(connection, current)
    if previous is not None and run_limits_of(readable_trigger(previous.spec)) != run_limits_of(
        readable_trigger(current.spec)
    ):
        runs.lock_queue(connection)  # nothing is claimed under the old bounds once this is answered
    replaced = {name: value for name, value in row.items() if name not in _IDENTITY}
    rewrites = [] if previous is None else [(_CURRENT, replaced | {"where_trigger": current.trigger_id})]
    if baseline and baseline.superseded:
        occurrences.record(connection, [baseline.superseded])
    touched = {task_key(current)} | ({task_key(previous)} if previous else set())
    counts_anew = _counts_anew(previous, current)
    writes: tuple[Write, ...] = (
        (_APPEND, revision_store.columns(revision)),
        *rewrites,
        *status.change_writes(
            revision,
            baseline,
            created=previous is None,
            counts_anew=counts_anew,
            traceparent=traceparent,
            over_budget_until=over_budget_until,
        ),
        *expectations.change_writes(previous, revision),
        _announcement(connection, revision.trigger_id, revision.revision),
        *task_store.summary_writes(touched),
    )
    if commits:
        commit_with(connection, *writes)
    else:
        write(connection, *writes)
    return current


def _counts_anew(previous: Trigger | None, current: Trigger) -> bool:
    """Return True when successes count from zero: after a deletion, and after a stop by `max_runs`."""
    if previous is None or not current.active:
        return False
    return previous.deleted or previous.stopped_for == StopReason.MAX_RUNS


def _rename(connection: Connection, current: Trigger) -> None:
    """Write the new name. Raises AlreadyThere when it was taken since it was looked up."""
    try:
        connection.execute(_CURRENT, current.key._asdict() | {"where_trigger": current.trigger_id})
    except IntegrityError as error:
        raise AlreadyThere(f"{current.key} was taken by somebody else in the meantime") from error


def paused_until(connection: Connection, now: datetime) -> list[Trigger]:
    """Return triggers whose pause has ended (R-20)."""
    statement = select(triggers).where(
        triggers.c.active == false(), triggers.c.deleted == false(), triggers.c.until <= now
    )
    return [from_row(row) for row in connection.execute(statement)]


def stopped_since(connection: Connection, at: datetime, reason: StopReason) -> list[Trigger]:
    """Return inactive triggers that the system stopped for a reason since an instant, newest first."""
    statement = select(triggers).where(
        triggers.c.active == false(),
        triggers.c.deleted == false(),
        triggers.c.stopped_for == reason.value,
        triggers.c.changed_at >= at,
    )
    return [from_row(row) for row in connection.execute(statement.order_by(triggers.c.changed_at.desc(), *_KEY))]


def announce_again(connection: Connection, trigger_id: str, revision: int) -> None:
    """Repeat a revision in the feed, because the trigger's next fire was moved."""
    write(connection, _announcement(connection, trigger_id, revision))


def _bears(tag: str) -> ColumnElement[bool]:
    """Return the condition that the JSON list of tags has this element; LIKE on SQLite would ignore case."""
    element = canonical(tag)
    return or_(*(func.replace(triggers.c.tags, f"{before}{element}", "") != triggers.c.tags for before in "[,"))


def _announcement(connection: Connection, trigger_id: str, revision: int) -> Write:
    """Return the write of a feed entry; on PostgreSQL it also notifies the listeners."""
    statement = _CHANGE_AND_NOTIFY if connection.dialect.name == "postgresql" else _CHANGE
    return statement, {"trigger_id": trigger_id, "revision": revision}


def _key_parameters(key: TriggerKey) -> dict[str, str]:
    return {f"where_{name}": part for name, part in key._asdict().items()}


def from_row(row: Any) -> Trigger:
    return Trigger(
        trigger_id=row.trigger_id,
        key=TriggerKey(row.project, row.domain, row.task, row.name),
        revision=row.revision,
        active=row.active,
        deleted=row.deleted,
        tags=tuple(json.loads(row.tags)),
        until=row.until,
        origin=row.origin,
        resolved=row.resolved,
        scopes=row.scopes,
        spec=row.spec,
        hash=row.hash,
        changed_at=row.changed_at,
        changed_by=row.changed_by,
        deactivated_reason=row.deactivated_reason,
        stopped_for=row.stopped_for,
    )
