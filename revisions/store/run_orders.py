"""Orders to runs: cancel, displace, approve, restart, expire (X-09, X-11, X-14, X-18)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Update, bindparam, update

from revisions.ids import TaskKey
from revisions.outcomes import RunStatus
from revisions.store.run_tables import runs
from revisions.store.runs import LIVE, Run, from_row, get, in_status, initial_status, lock, lock_queue
from revisions.store.sessions import Query

_NOW = bindparam("over_at", type_=runs.c.finished_at.type)
_EXPIRE = (
    update(runs)
    .where(in_status(RunStatus.PENDING), runs.c.start_by < _NOW, runs.c.claim == 0)
    .values(status=RunStatus.EXPIRED, finished_at=_NOW)
    .returning(runs)
)


class Displacement(NamedTuple):
    """Runs of a trigger give way to a new run; `forced` ends them without asking them to end."""

    trigger_id: str
    run_id: str
    forced: bool


def request_cancel(connection: Connection, run_id: str, now: datetime, by: str, reason: str = "") -> Run | None:
    """Cancel a run that does not run yet, ask the worker of a running one to end it, and leave an ended one alone.

    Cancelling a parked run rejects it (X-14). The reason is stored where the run ends at once. Returns the run after
    that, None when it does not exist (X-11).
    """
    run = lock(connection, run_id)
    if run is None:
        return None
    this = update(runs).where(runs.c.id == run_id)
    request = {"cancel_requested_at": now, "cancel_requested_by": by}
    if run.status in (RunStatus.PENDING, RunStatus.WAITING, RunStatus.PARKED):
        is_parked = run.status == RunStatus.PARKED
        verdict = f"{'rejected' if is_parked else 'cancelled'} by {by}" + (f": {reason}" if reason else "")
        error = verdict if reason or is_parked else run.error
        connection.execute(this.values(status=RunStatus.CANCELLED, finished_at=now, error=error, **request))
    elif run.status == RunStatus.RUNNING and run.cancel_requested_at is None:
        connection.execute(this.values(**request))
    return get(connection, run_id)


def displace(connection: Connection, displaced: Sequence[Displacement], now: datetime) -> list[Run]:
    """End the live runs of triggers, as `request_cancel` does, in favour of new runs (X-09).

    Returns the runs that ended at once.
    """
    ended: list[Run] = []
    if displaced:
        lock_queue(connection)  # a claimer updates many rows too, and in another order
    for trigger_id, run_id, forced in displaced:
        request = {"cancel_requested_at": now, "cancel_requested_by": f"run/{run_id}", "cancel_forced": forced}
        live = update(runs).where(runs.c.trigger_id == trigger_id, in_status(*LIVE), runs.c.id != run_id)
        waiting = live.where(runs.c.status != RunStatus.RUNNING)
        running = live.where(in_status(RunStatus.RUNNING), runs.c.cancel_requested_at.is_(None))
        ended += _cancelled(connection, waiting, now, **request)
        connection.execute(running.values(request))
    return ended


def approve(connection: Connection, run_id: str, now: datetime, by: str, start_by: datetime | None) -> None:
    """Make a locked, parked run pending, as if it had just been made (X-14)."""
    approved = {"parked": False, "approved_at": now, "approved_by": by}
    values = {"status": RunStatus.PENDING, "available_at": now, "start_by": start_by, **approved}
    connection.execute(update(runs).where(runs.c.id == run_id).values(values))


def begin_again(
    connection: Connection,
    ended: Run,
    now: datetime,
    *,
    max_attempts: int,
    overlap: str,
    start_by: datetime | None,
) -> None:
    """Make a locked run that has ended pending again (X-11). Attempts keep counting, so their logs stay.

    A run that nobody approved is parked again (X-14).
    """
    connection.execute(
        update(runs)
        .where(runs.c.id == ended.id)
        .values(
            status=initial_status(ended.parked),
            available_at=now,
            start_by=start_by,
            finished_at=None,
            max_attempts=max_attempts,
            overlap=overlap,
            cancel_requested_at=None,
            cancel_requested_by=None,
            cancel_forced=False,
        )
    )


def cancel_pending_of_task(connection: Connection, key: TaskKey, now: datetime, by: str) -> list[Run]:
    """Cancel the runs of a task version that have not begun, and return them (R-14)."""
    lock_queue(connection)  # a claimer updates many rows too, and in another order
    waiting = update(runs).where(
        in_status(*LIVE),
        runs.c.status.in_((RunStatus.PENDING, RunStatus.PARKED)),
        runs.c.project == key.project,
        runs.c.domain == key.domain,
        runs.c.task == key.name,
        runs.c.task_version == key.version,
    )
    return _cancelled(connection, waiting, now, cancel_requested_at=now, cancel_requested_by=by)


def cancel_all_pending(connection: Connection, now: datetime, by: str, reason: str) -> list[Run]:
    """Cancel all pending runs, and return them; the caller holds the queue's lock."""
    waiting = update(runs).where(in_status(RunStatus.PENDING))
    return _cancelled(connection, waiting, now, error=reason, cancel_requested_at=now, cancel_requested_by=by)


def expire_query(now: datetime) -> Query:
    """Return the query that expires runs that were not claimed by their `start_by`, and returns them.

    A run that was claimed once began in time, so retries are never expired. The caller holds `runs.lock_queue`, because
    a claimer updates many rows in another order.
    """
    return _EXPIRE, {"over_at": now}


def _cancelled(connection: Connection, waiting: Update, now: datetime, **also: Any) -> list[Run]:
    """Cancel waiting runs, and return them."""
    ended = waiting.values(status=RunStatus.CANCELLED, finished_at=now, **also).returning(runs)
    return [from_row(row) for row in connection.execute(ended)]
