"""Task versions: immutable specs, and a summary of the triggers bound to each."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Update,
    and_,
    bindparam,
    case,
    false,
    func,
    null,
    or_,
    select,
    true,
    tuple_,
    update,
)

from revisions.ids import TaskKey
from revisions.store.columns import insert_if_absent
from revisions.store.sessions import Query, Write, fetch
from revisions.store.tables import tasks, triggers


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task version with the summary of its triggers (R-12); `spec` is canonical JSON."""

    key: TaskKey
    spec: str
    hash: str
    deleted: bool
    created_at: datetime
    created_by: str
    trigger_name: str | None
    total_triggers: int
    active_triggers: int
    trigger_automation: dict[str, Any] | None


_IDENTITY = (tasks.c.project, tasks.c.domain, tasks.c.name, tasks.c.version)
_BOUND = (triggers.c.project, triggers.c.domain, triggers.c.task, triggers.c.task_version)


_IS = and_(*(column == bindparam(f"where_{column.name}") for column in _IDENTITY))
_GET = select(tasks).where(_IS)
_MARK = update(tasks).where(_IS)
_LOCK = select(tasks).where(_IS).with_for_update(key_share=True)


def lock(connection: Connection, keys: Iterable[TaskKey]) -> dict[TaskKey, TaskRow]:
    """Lock task versions in key order and return those that exist. Lock order: tasks come first (invariant 1)."""
    return locked_rows(fetch(connection, *lock_queries(keys)))


def lock_queries(keys: Iterable[TaskKey]) -> list[Query]:
    """Return the queries that lock task versions in key order."""
    return [(_LOCK, _of(key)) for key in sorted(set(keys))]


def locked_rows(answers: Iterable[Sequence[Any]]) -> dict[TaskKey, TaskRow]:
    """Return the rows that `lock_queries` fetched, by key."""
    return {task.key: task for rows in answers for task in map(_task, rows)}


def get(connection: Connection, key: TaskKey) -> TaskRow | None:
    row = connection.execute(_GET, _of(key)).one_or_none()
    return _task(row) if row else None


def specs_in_use(connection: Connection) -> list[str]:
    """Return the specs of task versions with active triggers."""
    used = select(tasks.c.spec).where(tasks.c.deleted == false(), tasks.c.active_triggers > 0)
    return list(connection.execute(used.order_by(*_IDENTITY)).scalars())


def versions(connection: Connection, project: str, domain: str, name: str) -> list[str]:
    """Return the versions of a task that are not deleted, oldest first."""
    statement = (
        select(tasks.c.version)
        .where(tasks.c.project == project, tasks.c.domain == domain, tasks.c.name == name, tasks.c.deleted == false())
        .order_by(tasks.c.created_at, tasks.c.version)
    )
    return list(connection.execute(statement).scalars())


def page(
    connection: Connection,
    after: TaskKey | None,
    limit: int,
    *,
    project: str | None = None,
    domain: str | None = None,
    name: str | None = None,
    projects: Collection[str] | None = None,
) -> list[TaskRow]:
    """Return tasks that are not deleted, in key order after a key, within `projects` (None: all)."""
    statement = select(tasks).where(tasks.c.deleted == false()).order_by(*_IDENTITY).limit(limit)
    for column, wanted in ((tasks.c.project, project), (tasks.c.domain, domain), (tasks.c.name, name)):
        if wanted is not None:
            statement = statement.where(column == wanted)
    if projects is not None:
        statement = statement.where(tasks.c.project.in_(sorted(projects)))
    if after:
        statement = statement.where(tuple_(*_IDENTITY) > tuple(after))
    return [_task(row) for row in connection.execute(statement)]


def other_versions_in_use(connection: Connection, key: TaskKey) -> list[tuple[str, str, list[str]]]:
    """Return (version, spec, trigger names) of a task's other versions with active triggers (R-15)."""
    bound = and_(
        *(mine == its for mine, its in zip(_IDENTITY, _BOUND, strict=True)),
        triggers.c.active == true(),
        triggers.c.deleted == false(),
    )
    statement = (
        select(tasks.c.version, tasks.c.spec, func.aggregate_strings(triggers.c.name, "/"))
        .join(triggers, bound)
        .where(tasks.c.project == key.project, tasks.c.domain == key.domain, tasks.c.name == key.name)
        .where(tasks.c.version != key.version)
        .group_by(tasks.c.version, tasks.c.spec)
        .order_by(tasks.c.version)
    )
    return [(row[0], row[1], sorted(row[2].split("/"))) for row in connection.execute(statement)]


def register(connection: Connection, row: TaskRow) -> bool:
    """Insert a new version; return False when another transaction did so first: its row can then be locked."""
    columns = {"spec": row.spec, "hash": row.hash, "created_at": row.created_at, "created_by": row.created_by}
    summary = {"total_triggers": 0, "active_triggers": 0}
    return insert_if_absent(connection, tasks, row.key._asdict() | columns | summary | {"deleted": False}) == 1


def restore(connection: Connection, key: TaskKey) -> None:
    """Undelete a version; its spec is unchanged (R-14)."""
    connection.execute(_MARK, _of(key) | {"deleted": False})


def delete(connection: Connection, key: TaskKey) -> None:
    """Mark a locked version as deleted (R-14)."""
    connection.execute(_MARK, _of(key) | {"deleted": True})


def summary_writes(keys: Iterable[TaskKey]) -> Iterator[Write]:
    """Return the writes that recompute summaries of locked versions, as statements after their lock."""
    return ((_SUMMARISE, _of(key)) for key in sorted(set(keys)))


def wrong_summaries(connection: Connection) -> list[TaskKey]:
    """Return task versions whose summary differs from their triggers, read in one statement."""
    only = func.count() == 1
    right = (
        select(
            *_BOUND,
            func.count().label("total"),
            func.count(case((triggers.c.active == true(), 1))).label("active"),
            case((only, func.min(triggers.c.name)), else_=null()).label("named"),
            case((only, func.min(triggers.c.automation)), else_=null()).label("automation"),
        )
        .where(triggers.c.deleted == false())
        .group_by(*_BOUND)
        .subquery()
    )
    same = and_(*(mine == right.c[its.name] for mine, its in zip(_IDENTITY, _BOUND, strict=True)))
    differs = or_(
        tasks.c.total_triggers != func.coalesce(right.c.total, 0),
        tasks.c.active_triggers != func.coalesce(right.c.active, 0),
        tasks.c.trigger_name.is_distinct_from(right.c.named),
        tasks.c.trigger_automation.is_distinct_from(right.c.automation),
    )
    statement = select(*_IDENTITY).outerjoin(right, same).where(differs).order_by(*_IDENTITY)
    return [TaskKey(*row) for row in connection.execute(statement)]


def _summary() -> Update:
    attached = and_(
        triggers.c.project == bindparam("where_project"),
        triggers.c.domain == bindparam("where_domain"),
        triggers.c.task == bindparam("where_name"),
        triggers.c.task_version == bindparam("where_version"),
        triggers.c.deleted == false(),
    )
    only = func.count() == 1
    summary = {
        "total_triggers": func.count(),
        "active_triggers": func.count(case((triggers.c.active == true(), 1))),
        "trigger_name": case((only, func.min(triggers.c.name)), else_=null()),
        "trigger_automation": case((only, func.min(triggers.c.automation)), else_=null()),
    }
    values = {name: select(value).where(attached).scalar_subquery() for name, value in summary.items()}
    return update(tasks).where(_IS).values(**values)


_SUMMARISE = _summary()


def _of(key: TaskKey) -> dict[str, str]:
    return {f"where_{name}": part for name, part in key._asdict().items()}


def _task(row: Any) -> TaskRow:
    return TaskRow(
        key=TaskKey(row.project, row.domain, row.name, row.version),
        spec=row.spec,
        hash=row.hash,
        deleted=row.deleted,
        created_at=row.created_at,
        created_by=row.created_by,
        trigger_name=row.trigger_name,
        total_triggers=row.total_triggers,
        active_triggers=row.active_triggers,
        trigger_automation=json.loads(row.trigger_automation) if row.trigger_automation else None,
    )
