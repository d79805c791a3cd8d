"""Runs that waited for longer than their trigger allows (`start_within`): over before they began (X-18)."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, update

from revisions.store.runs import in_status
from revisions.store.tables import runs

EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Expired:
    """A run that was never started."""

    run_id: str
    trigger_id: str
    source: str


def expire(connection: Connection, now: datetime) -> list[Expired]:
    """Ends for good what should have begun before now and was never claimed, and answers what that was.

    What was claimed once began in time: a retry, or a run that a controller gave back, goes on whenever it can. The
    caller holds `runs.lock_queue`, for a claimer updates many rows too, in another order.
    """
    statement = (
        update(runs)
        .where(in_status("pending"), runs.c.start_by < now, runs.c.claim == 0)
        .values(status=EXPIRED, finished_at=now)
        .returning(runs.c.id, runs.c.trigger_id, runs.c.source)
    )
    return [Expired(*row) for row in connection.execute(statement)]
