"""Claims on runs: taken one claimer at a time, kept by leases, fenced by numbers, given up by settling (X-04, X-05).

Whoever writes to a running run names the claim's number; when it is no longer the run's, the write changes nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, func, not_, or_, select, tuple_, update

from revisions.ids import TriggerKey
from revisions.store.runs import Run, from_row, in_status
from revisions.store.tables import runs, tasks, trigger_revisions, trigger_status, triggers

_TAKEN = ("running", "waiting", "parked")
_RUN = tuple(column.label(f"run_{column.name}") for column in runs.c)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that is ours, with what launching it needs; texts are canonical JSON.

    `task_spec` is None when the task version is not there, `trigger_spec` is of the revision that made the run.
    """

    run: Run
    task_spec: str | None
    trigger: TriggerKey | None
    trigger_spec: str | None
    last_success_at: datetime | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a claim stands."""

    held: bool
    cancel_requested: bool


Standings = dict[tuple[str, int], Standing]
"""By run and claim number: a worker may hold a new claim on a run whose older one it has not missed yet."""


def claim(
    connection: Connection, now: datetime, *, claimed_by: str, lease: timedelta, limit: int, max_running: int
) -> list[Claimed]:
    """Takes up to `limit` pending runs whose time has come, longest waiting first, never beyond `max_running` in all.

    The caller holds `runs.lock_queue` and read `now` after it. A run with overlap `queue_all` goes only when it is its
    trigger's oldest pending one and no other of that trigger is under way.
    """
    running: int = connection.execute(select(func.count()).select_from(runs).where(in_status("running"))).scalar_one()
    room = min(limit, max_running - running)
    if room <= 0:
        return []
    candidates = (
        select(runs.c.id)
        .where(in_status("pending"), runs.c.available_at <= now, or_(runs.c.overlap != "queue_all", _is_next()))
        .order_by(runs.c.available_at, runs.c.id)
        .limit(room)
    )
    ids = list(connection.execute(candidates).scalars())
    if not ids:
        return []
    connection.execute(
        update(runs)
        .where(runs.c.id.in_(ids), in_status("pending"))  # a cancellation may have come between
        .values(
            status="running",
            attempt=runs.c.attempt + 1,
            claim=runs.c.claim + 1,
            claimed_by=claimed_by,
            lease_until=now + lease,
            started_at=now,
            output=None,
            error=None,
        )
    )
    return _claimed(connection, and_(runs.c.id.in_(ids), runs.c.claimed_by == claimed_by, in_status("running")))


def renew(connection: Connection, held: Collection[Run], now: datetime, lease: timedelta) -> Standings:
    """Prolongs the leases of claims still theirs, also lapsed ones that nobody took, and answers how each stands."""
    still = (
        update(runs)
        .where(_are(held))
        .values(lease_until=now + lease)
        .returning(runs.c.id, runs.c.claim, runs.c.cancel_requested_at)
    )
    return _standings(held, connection.execute(still) if held else ())


def standings(connection: Connection, held: Collection[Run]) -> Standings:
    """How each claim stands, without prolonging any."""
    found = select(runs.c.id, runs.c.claim, runs.c.cancel_requested_at).where(_are(held))
    return _standings(held, connection.execute(found) if held else ())


def lapsed(connection: Connection, now: datetime, limit: int) -> list[Run]:
    """Running runs whose lease has ended, longest ago first."""
    statement = (
        select(runs)
        .where(in_status("running"), runs.c.lease_until <= now)
        .order_by(runs.c.lease_until, runs.c.id)
        .limit(limit)
    )
    return [from_row(row) for row in connection.execute(statement)]


def running_of(connection: Connection, workers: Collection[str]) -> list[Run]:
    """The running runs that these workers claimed."""
    statement = select(runs).where(in_status("running"), runs.c.claimed_by.in_(list(workers))).order_by(runs.c.id)
    return [from_row(row) for row in connection.execute(statement)] if workers else []


def get(connection: Connection, run_ids: Collection[str]) -> list[Claimed]:
    """These runs with what belongs to them, whoever's they are."""
    return _claimed(connection, runs.c.id.in_(list(run_ids))) if run_ids else []


def take_over(
    connection: Connection, found: Collection[Run], now: datetime, *, claimed_by: str, lease: timedelta
) -> list[Claimed]:
    """Makes other workers' claims ours under a new number; one that was renewed or given up meanwhile stays.

    The attempt goes on: it is the same work, seen by another worker.
    """
    leases = {run.id: run.lease_until for run in found}
    # Skipping what is locked: a worker that renews its lease just now locks many rows, in another order.
    unchanged = select(runs.c.id, runs.c.lease_until).where(_are(found)).with_for_update(skip_locked=True)
    rows = connection.execute(unchanged) if found else ()
    ids = [row.id for row in rows if row.lease_until == leases[row.id]]
    if not ids:
        return []
    taken = {"claim": runs.c.claim + 1, "claimed_by": claimed_by, "lease_until": now + lease}
    connection.execute(update(runs).where(runs.c.id.in_(ids)).values(taken))
    return _claimed(connection, runs.c.id.in_(ids))


def holds(current: Run | None, ours: Run) -> bool:
    """Whether a locked run is still running under our claim."""
    return current is not None and current.status == "running" and current.claim == ours.claim


def finish(
    connection: Connection,
    ours: Run,
    now: datetime,
    status: str,
    *,
    output: str | None,
    error: str | None,
    cost: float | None,
) -> None:
    """Ends a run for good and releases its claim, on success and on failure (X-06)."""
    _release(connection, ours, status=status, finished_at=now, output=output, error=error, cost=cost)


def retry(
    connection: Connection, ours: Run, at: datetime, *, output: str | None, error: str | None, cost: float | None
) -> None:
    """Makes a run pending again for its next attempt; the key is free in between (X-07)."""
    _release(connection, ours, status="pending", available_at=at, output=output, error=error, cost=cost)


def hand_back(connection: Connection, ours: Run, at: datetime) -> None:
    """Makes a run pending again as if this attempt had not been begun (X-07)."""
    _release(connection, ours, status="pending", available_at=at, attempt=runs.c.attempt - 1, started_at=None)


def _release(connection: Connection, ours: Run, **values: Any) -> None:
    connection.execute(update(runs).where(_are([ours])).values(claimed_by=None, lease_until=None, **values))


def _are(held: Collection[Run]) -> ColumnElement[bool]:
    return and_(in_status("running"), tuple_(runs.c.id, runs.c.claim).in_([(run.id, run.claim) for run in held]))


def _standings(held: Collection[Run], rows: Any) -> Standings:
    found = {(row.id, row.claim): Standing(True, row.cancel_requested_at is not None) for row in rows}
    return {key: found.get(key, Standing(False, False)) for key in ((run.id, run.claim) for run in held)}


def _is_next() -> ColumnElement[bool]:
    other = runs.alias("other")
    same = other.c.trigger_id == runs.c.trigger_id
    under_way = exists().where(same, in_status(*_TAKEN, of=other), other.c.id != runs.c.id)
    earlier = exists().where(
        same,
        in_status("pending", of=other),
        or_(
            other.c.scheduled_at < runs.c.scheduled_at,
            and_(other.c.scheduled_at == runs.c.scheduled_at, other.c.id < runs.c.id),
        ),
    )
    return and_(not_(under_way), not_(earlier))


def _claimed(connection: Connection, which: ColumnElement[bool]) -> list[Claimed]:
    statement = (
        select(
            *_RUN,
            tasks.c.spec.label("task_spec"),
            triggers.c.name.label("trigger_name"),
            trigger_revisions.c.spec.label("trigger_spec"),
            trigger_status.c.last_success_at,
        )
        .select_from(runs)
        .outerjoin(
            tasks,
            and_(
                tasks.c.project == runs.c.project,
                tasks.c.domain == runs.c.domain,
                tasks.c.name == runs.c.task,
                tasks.c.version == runs.c.task_version,
            ),
        )
        .outerjoin(triggers, triggers.c.trigger_id == runs.c.trigger_id)
        .outerjoin(
            trigger_revisions,
            and_(trigger_revisions.c.trigger_id == runs.c.trigger_id, trigger_revisions.c.revision == runs.c.revision),
        )
        .outerjoin(trigger_status, trigger_status.c.trigger_id == runs.c.trigger_id)
        .where(which)
        .order_by(runs.c.available_at, runs.c.id)
    )
    return [_claimed_row(row) for row in connection.execute(statement)]


def _claimed_row(row: Any) -> Claimed:
    run = Run(**{name: getattr(row, f"run_{name}") for name in Run.__slots__})
    key = TriggerKey(run.project, run.domain, run.task, row.trigger_name) if row.trigger_name else None
    return Claimed(run, row.task_spec, key, row.trigger_spec, row.last_success_at)
