"""Runs: made once per occurrence, read, cancelled, counted; `claims` holds what their workers do with them."""

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
from revisions.store.batches import in_list, insert_if_absent
from revisions.store.pipeline import Query, fetch
from revisions.store.run_tables import runs

_QUEUE_LOCK = 7_302_114_550_183_942_001
"""The advisory lock's number on PostgreSQL: any, as long as it stays."""


LIVE = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PARKED)
"""Run statuses that count as going on (X-09)."""
DEAD = (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.EXPIRED)
"""Statuses of runs that failed for good: begun again by hand or not at all (X-16)."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be made; (trigger, occurrence) is its claim on existence (X-01)."""

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
    """One run as stored (X-02). `attempt` counts from 1 once it was claimed; `claim` fences every write of a worker.

    `start_by`: it is to be claimed by then for the first time, or never (X-18). `serialize_key`: the key that it holds,
    or held when it ran; `task_limit`: how many of its task may run beside it (X-04). `reserved`: what it is expected to
    cost (X-08). `cancel_forced`: it is to be ended without being asked. `parked`: it was to be approved, and was not
    (X-14). `traceparent`: what its request was part of (O-04).
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
    """That a run came to be, and for what."""

    scheduled_at: datetime
    occurrence_id: str
    created_at: datetime
    revision: int
    id: str
    source: RunSource


def create(connection: Connection, new: Sequence[NewRun]) -> int:
    """Inserts pending and parked runs and answers how many; an occurrence that has its run keeps it."""
    return insert_if_absent(connection, runs, *map(_columns, new)) if new else 0


def stored_ids(connection: Connection, new: Sequence[NewRun]) -> dict[str, str]:
    """The id of each new run → the id of the run that its occurrence has, its own or an earlier one (X-01)."""
    keys = {(run.trigger_id, run.occurrence_id): run.id for run in new}
    statement = select(runs.c.trigger_id, runs.c.occurrence_id, runs.c.id).where(
        tuple_(runs.c.trigger_id, runs.c.occurrence_id).in_(list(keys))
    )
    return {keys[row.trigger_id, row.occurrence_id]: row.id for row in connection.execute(statement)}


def by_occurrence(connection: Connection, trigger_id: str, occurrence_ids: Sequence[str]) -> dict[str, ExistingRun]:
    """The runs of a trigger's occurrences, by the ids of those that have one (X-01)."""
    statement = select(runs.c.occurrence_id, runs.c.id, runs.c.input).where(
        runs.c.trigger_id == trigger_id, in_list(connection, runs.c.occurrence_id, occurrence_ids)
    )
    return {row[0]: ExistingRun(row[1], row[2]) for row in connection.execute(statement)}


def newest_live_id(connection: Connection, trigger_id: str) -> str | None:
    """The id of a run of this trigger that goes on, the newest (X-09)."""
    live = in_status(*LIVE)
    return connection.execute(select(func.max(runs.c.id)).where(live, runs.c.trigger_id == trigger_id)).scalar()


def count_live(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """How many runs of these triggers go on; one without is left out."""
    if not ids:
        return {}
    counted = select(runs.c.trigger_id, func.count()).where(
        in_list(connection, runs.c.trigger_id, ids), in_status(*LIVE)
    )
    return {row[0]: row[1] for row in connection.execute(counted.group_by(runs.c.trigger_id))}


def get(connection: Connection, run_id: str) -> Run | None:
    row = connection.execute(select(runs).where(runs.c.id == run_id)).one_or_none()
    return from_row(row) if row else None


_LOCK = select(runs).where(runs.c.id == bindparam("of_run")).with_for_update()
_LOCK_QUEUE = select(cast(func.pg_advisory_xact_lock(_QUEUE_LOCK), Text).label("locked"))


def lock_query(run_id: str) -> Query:
    """Asks for the run, locked."""
    return _LOCK, {"of_run": run_id}


def lock(connection: Connection, run_id: str) -> Run | None:
    """The run, locked: last in the lock order that holds everywhere."""
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
    """Runs newest first, those before an id, of these projects only; `dead` ones failed for good (X-16)."""
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
    """When the runs scheduled in (after, until] came to be, oldest scheduled first; not whole rows: they are many."""
    statement = select(*(runs.c[name] for name in RunMade._fields)).where(
        runs.c.trigger_id == trigger_id, runs.c.scheduled_at > after, runs.c.scheduled_at <= until
    )
    found = connection.execute(statement.order_by(runs.c.scheduled_at))
    return (RunMade(row[0], row[1], row[2], row[3], row[4], RunSource(row[5])) for row in found)


def count_scheduled(
    connection: Connection, trigger_id: str, after: datetime, until: datetime, *, source: RunSource
) -> int:
    """How many runs of a source are scheduled in (after, until]."""
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
    """When the fires that runs asked for were to be in (after, until], and their ids, oldest first (S-08)."""
    statement = select(runs.c.scheduled_at, runs.c.occurrence_id).where(
        runs.c.trigger_id == trigger_id,
        runs.c.scheduled_at > after,
        runs.c.scheduled_at <= until,
        runs.c.occurrence_id.startswith("next/"),
    )
    return [(row[0], row[1]) for row in connection.execute(statement.order_by(runs.c.scheduled_at))]


def succeeded_since(connection: Connection, trigger_id: str, at: datetime) -> list[tuple[datetime, datetime]]:
    """(scheduled, finished) of the runs scheduled at an instant or later that succeeded."""
    statement = select(runs.c.scheduled_at, runs.c.finished_at).where(
        runs.c.trigger_id == trigger_id, runs.c.scheduled_at >= at, in_status(RunStatus.SUCCEEDED)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def of_occurrence(connection: Connection, trigger_id: str, occurrence_id: str) -> Run | None:
    """The run of an occurrence, by the key that lets there be no second one (X-01)."""
    statement = select(runs).where(runs.c.trigger_id == trigger_id, runs.c.occurrence_id == occurrence_id)
    row = connection.execute(statement).one_or_none()
    return from_row(row) if row else None


def lock_queue(connection: Connection) -> None:
    """One claimer at a time until the transaction ends, so that limits are exact; between status and run locks.

    A statement of its own: what follows must see what the lock waited for. SQLite's write transactions are alone.
    """
    fetch(connection, *lock_queue_queries(connection))


def lock_queue_queries(connection: Connection) -> list[Query]:
    """Asks for the queue's lock, where there is one: see `lock_queue`."""
    return [(_LOCK_QUEUE, {})] if connection.dialect.name == "postgresql" else []


def in_status(*statuses: RunStatus, of: FromClause = runs) -> ColumnElement[bool]:
    """Literals, for only they let a planner see that a partial index covers the question; SQLite's wants one as `=`."""
    if len(statuses) == 1:
        return of.c.status == literal_column(f"'{statuses[0]}'")
    return of.c.status.in_([literal_column(f"'{status}'") for status in statuses])


def from_row(row: Row[Any]) -> Run:
    return run_of({name: getattr(row, name) for name in Run.__slots__})


def run_of(columns: Mapping[str, Any]) -> Run:
    """Return a run with these columns, as they are stored."""
    return Run(**{**columns, "status": RunStatus(columns["status"]), "source": RunSource(columns["source"])})


def initial_status(parked: bool) -> RunStatus:
    return RunStatus.PARKED if parked else RunStatus.PENDING


_NAMES = NewRun.__slots__
_VALUES = attrgetter(*_NAMES)


def _columns(run: NewRun) -> dict[str, Any]:
    values = dict(zip(_NAMES, _VALUES(run), strict=True))
    return values | {"available_at": run.created_at, "status": initial_status(run.parked), "attempt": 0, "claim": 0}
