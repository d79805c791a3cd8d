"""Runs that waited for longer than their trigger allows (`start_within`): over before they began (X-18)."""

from datetime import datetime

from sqlalchemy import Connection, update

from revisions.store.runs import Run, from_row, in_status
from revisions.store.tables import runs

EXPIRED = "expired"


def expire(connection: Connection, now: datetime) -> list[Run]:
    """Ends for good what should have begun before now and was never claimed, and answers those runs.

    What was claimed once began in time: a retry, or a run that a controller gave back, goes on whenever it can. The
    caller holds `runs.lock_queue`, for a claimer updates many rows too, in another order.
    """
    statement = (
        update(runs)
        .where(in_status("pending"), runs.c.start_by < now, runs.c.claim == 0)
        .values(status=EXPIRED, finished_at=now)
        .returning(runs)
    )
    return [from_row(row) for row in connection.execute(statement)]
