"""Runs that waited for longer than their trigger allows (`start_within`): over before they began (X-18)."""

from datetime import datetime

from sqlalchemy import bindparam, update

from revisions.outcomes import RunStatus
from revisions.store.runs import in_status
from revisions.store.pipeline import Query
from revisions.store.run_tables import runs

_NOW = bindparam("over_at", type_=runs.c.finished_at.type)
_EXPIRE = (
    update(runs)
    .where(in_status(RunStatus.PENDING), runs.c.start_by < _NOW, runs.c.claim == 0)
    .values(status=RunStatus.EXPIRED, finished_at=_NOW)
    .returning(runs)
)


def expiring(now: datetime) -> Query:
    """Ends for good what should have begun before now and was never claimed, and asks for those runs.

    What was claimed once began in time: a retry, or a run that a controller gave back, goes on whenever it can. The
    caller holds `runs.lock_queue`, for a claimer updates many rows too, in another order.
    """
    return _EXPIRE, {"over_at": now}
