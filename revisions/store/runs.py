"""Runs: inserted once per occurrence, read, counted and locked. `claims` holds the writes of workers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    tuple_,
)

from revisions.outcomes import RunSource, RunStatus
from revisions.store.columns import in_list, insert_if_absent
from revisions.store.run_tables import runs
from revisions.store.sessions import Query, fetch

_QUEUE_LOCK = 7_302_114_550_183_942_001
"""Number of the advisory lock on PostgreSQL; it must never change."""


LIVE = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PARKED)
"""Statuses of runs that have not ended (X-09)."""
DEAD = (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.EXPIRED)
"""Statuses of runs that failed for good; only a person starts them again (X-16)."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to insert; (trigger_id, occurrence_id) is unique (X-01)."""

    id: str
    trigger_id: str
    occurrence_id: str
    revision: int
    project: str
    domain: str
    task: str
    task_version: str
    source: RunSource
    overlap: str
    max_attempts: int
    actor: str
    scheduled_at: datetime
    created_at: datetime
    input: str
    start_by: datetime | None = None
    task_limit: int | None = None
    reserved: float | None = None
    parked: bool = False
    traceparent: str | None = None
    caused_by_run_id: str | None = None
    caused_by_trigger_id: str | None = None


class ExistingRun(NamedTuple):
    """The run that an occurrence has."""

    id: str
    input: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run as stored (X-02). `attempt` counts from 1 at the first claim; `claim` fences every write of a worker.

    `start_by`: latest first claim (X-18). `serialize_key`: the key it holds while it runs. `task_limit`: number of its
    task's runs that may run at once (X-04). `reserved`: expected cost (X-08). `cancel_forced`: end it without asking.
    `parked`: it waits, or waited, for an approval (X-14). `traceparent`: trace of the request that made it (O-04).
    """

    id: str
    trigger_id: str
    occurrence_id: str
    revision: int
    project: str
    domain: str
    task: str
    task_version: str
    source: RunSource
    overlap: str
    max_attempts: int
    actor: str
    scheduled_at: datetime
    created_at: datetime
    available_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    status: RunStatus
    attempt: int
    claim: int
    claimed_by: str | None
    lease_until: datetime | None
    cancel_requested_at: datetime | None
    cancel_requested_by: str | None
    input: str
    output: str | None
    error: str | None
    cost: float | None
    caused_by_run_id: str | None
    caused_by_trigger_id: str | None
    start_by: datetime | None
    serialize_key: str | None
    task_limit: int | None
    reserved: float | None
    cancel_forced: bool
    parked: bool
    approved_at: datetime | None
    approved_by: str | None
    traceparent: str | None


class RunMade(NamedTuple):
    """Facts of how a run was made."""

    scheduled_at: datetime
    occurrence_id: str
    created_at: datetime
    revision: int
    id: str
    source: RunSource


def create(connection: Connection, new: Sequence[NewRun]) -> int:
    """Insert runs and return their number; an occurrence that has a run keeps that one."""
    return insert_if_absent(connection, runs, *map(_columns, new)) if new else 0


def stored_ids(connection: Connection, new: Sequence[NewRun]) -> dict[str, str]:
    """Return the id of each new run → the id of the run that its occurrence has (X-01)."""
    keys = {(run.trigger_id, run.occurrence_id): run.id for run in new}
    statement = select(runs.c.trigger_id, runs.c.occurrence_id, runs.c.id).where(
        tuple_(runs.c.trigger_id, runs.c.occurrence_id).in_(list(keys))
    )
    return {keys[row.trigger_id, row.occurrence_id]: row.id for row in connection.execute(statement)}


def by_occurrence(connection: Connection, trigger_id: str, occurrence_ids: Sequence[str]) -> dict[str, ExistingRun]:
    """Return the runs of a trigger's occurrences, by occurrence id (X-01)."""
    statement = select(runs.c.occurrence_id, runs.c.id, runs.c.input).where(
        runs.c.trigger_id == trigger_id, in_list(connection, runs.c.occurrence_id, occurrence_ids)
    )
    return {row[0]: ExistingRun(row[1], row[2]) for row in connection.execute(statement)}


def newest_live_id(connection: Connection, trigger_id: str) -> str | None:
    """Return the id of a trigger's newest live run (X-09)."""
    live = in_status(*LIVE)
    return connection.execute(select(func.max(runs.c.id)).where(live, runs.c.trigger_id == trigger_id)).scalar()


def count_live(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Return the number of live runs by trigger; triggers without any are left out."""
    if not ids:
        return {}
    counted = select(runs.c.trigger_id, func.count()).where(
        in_list(connection, runs.c.trigger_id, ids), in_status(*LIVE)
    )
    return {row[0]: row[1] for row in connection.execute(counted.group_by(runs.c.trigger_id))}


def get(connection: Connection, run_id: str) -> Run | None:
    row = connection.execute(select(runs).where(runs.c.id == run_id)).one_or_none()
    return from_row(row) if row else None


_LOCK = select(runs).where(runs.c.id == bindparam("where_run")).with_for_update()
_LOCK_QUEUE = select(cast(func.pg_advisory_xact_lock(_QUEUE_LOCK), Text).label("locked"))


def lock_query(run_id: str) -> Query:
    """Return the query that locks and returns a run."""
    return _LOCK, {"where_run": run_id}


def lock(connection: Connection, run_id: str) -> Run | None:
    """Lock and return a run. Lock order: runs come last, after trigger_status (invariant 1)."""
    row = connection.execute(select(runs).where(runs.c.id == run_id).with_for_update()).one_or_none()
    return from_row(row) if row else None


def page(
    connection: Connection,
    before: str | None,
    limit: int,
    *,
    trigger_id: str | None = None,
    project: str | None = None,
    domain: str | None = None,
    task: str | None = None,
    status: RunStatus | None = None,
    source: RunSource | None = None,
    ids: Collection[str] | None = None,
    dead: bool = False,
    projects: Collection[str] | None = None,
) -> list[Run]:
    """Return runs before an id, newest first, within `projects`; `dead` selects those that failed for good (X-16)."""
    statement = select(runs).order_by(runs.c.id.desc()).limit(limit)
    wanted = {"trigger_id": trigger_id, "project": project, "domain": domain, "task": task, "status": status}
    for name, value in (wanted | {"source": source}).items():
        if value is not None:
            statement = statement.where(runs.c[name] == value)
    if dead:
        statement = statement.where(runs.c.status.in_(DEAD))
    if ids is not None:
        statement = statement.where(runs.c.id.in_(list(ids)))
    if projects is not None:
        statement = statement.where(runs.c.project.in_(sorted(projects)))
    if before is not None:
        statement = statement.where(runs.c.id < before)
    return [from_row(row) for row in connection.execute(statement)]


def scheduled_within(connection: Connection, trigger_id: str, after: datetime, until: datetime) -> Iterator[RunMade]:
    """Return facts of the runs scheduled in (after, until], oldest first; whole rows would be too many."""
    statement = select(*(runs.c[name] for name in RunMade._fields)).where(
        runs.c.trigger_id == trigger_id, runs.c.scheduled_at > after, runs.c.scheduled_at <= until
    )
    found = connection.execute(statement.order_by(runs.c.scheduled_at))
    return (RunMade(row[0], row[1], row[2], row[3], row[4], RunSource(row[5])) for row in found)


def count_scheduled(
    connection: Connection, trigger_id: str, after: datetime, until: datetime, *, source: RunSource
) -> int:
    """Return the number of runs of a source scheduled in (after, until]."""
    statement = select(func.count()).where(
        runs.c.trigger_id == trigger_id,
        runs.c.source == source,
        runs.c.scheduled_at > after,
        runs.c.scheduled_at <= until,
    )
    found: int = connection.execute(statement).scalar_one()
    return found


def asked_within(
    connection: Connection, trigger_id: str, after: datetime, until: datetime
) -> list[tuple[datetime, str]]:
    """Return (instant, occurrence id) of fires in (after, until] that runs requested, oldest first (S-08)."""
    statement = select(runs.c.scheduled_at, runs.c.occurrence_id).where(
        runs.c.trigger_id == trigger_id,
        runs.c.scheduled_at > after,
        runs.c.scheduled_at <= until,
        runs.c.occurrence_id.startswith("next/"),
    )
    return [(row[0], row[1]) for row in connection.execute(statement.order_by(runs.c.scheduled_at))]


def succeeded_since(connection: Connection, trigger_id: str, at: datetime) -> list[tuple[datetime, datetime]]:
    """Return (scheduled, finished) of the successful runs scheduled at an instant or later."""
    statement = select(runs.c.scheduled_at, runs.c.finished_at).where(
        runs.c.trigger_id == trigger_id, runs.c.scheduled_at >= at, in_status(RunStatus.SUCCEEDED)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def of_occurrence(connection: Connection, trigger_id: str, occurrence_id: str) -> Run | None:
    """Return the run of an occurrence (X-01)."""
    statement = select(runs).where(runs.c.trigger_id == trigger_id, runs.c.occurrence_id == occurrence_id)
    row = connection.execute(statement).one_or_none()
    return from_row(row) if row else None


def lock_queue(connection: Connection) -> None:
    """Lock the queue until the transaction ends: one claimer at a time makes every limit exact.

    Lock order: after trigger_status, before runs. It is a statement of its own, because only a later one sees what the
    lock waited for. On SQLite a write transaction has no other beside it.
    """
    fetch(connection, *lock_queue_queries(connection))


def lock_queue_queries(connection: Connection) -> list[Query]:
    """Return the query that locks the queue, an empty list on SQLite; see `lock_queue`."""
    return [(_LOCK_QUEUE, {})] if connection.dialect.name == "postgresql" else []


def in_status(*statuses: RunStatus, of: FromClause = runs) -> ColumnElement[bool]:
    """Return the condition on the status, as literals: with parameters a planner cannot choose a partial index.

    SQLite does so for a single status only when it is written with `=`.
    """
    if len(statuses) == 1:
        return of.c.status == literal_column(f"'{statuses[0]}'")
    return of.c.status.in_([literal_column(f"'{status}'") for status in statuses])


def from_row(row: Row[Any]) -> Run:
    return run_of({name: getattr(row, name) for name in Run.__slots__})


def run_of(columns: Mapping[str, Any]) -> Run:
    """Return a run with these columns."""
    return Run(**{**columns, "status": RunStatus(columns["status"]), "source": RunSource(columns["source"])})


def initial_status(parked: bool) -> RunStatus:
    """Return the status of a run that nobody has claimed."""
    return RunStatus.PARKED if parked else RunStatus.PENDING


_NAMES = NewRun.__slots__
_VALUES = attrgetter(*_NAMES)


def _columns(run: NewRun) -> dict[str, Any]:
    values = dict(zip(_NAMES, _VALUES(run), strict=True))
    return values | {"available_at": run.created_at, "status": initial_status(run.parked), "attempt": 0, "claim": 0}
