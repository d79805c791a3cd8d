"""Runs for one worker: those that waited too long are ended, then what may go is claimed, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.observe import Observations
from revisions.store import claims, expiry, runs, triggers
from revisions.store.claims import Claimed
from revisions.store.database import Database


@dataclass(frozen=True, slots=True)
class Taken:
    """The claims that are ours since `now`."""

    now: datetime
    claimed: Sequence[Claimed]


def take(
    database: Database,
    observations: Observations,
    *,
    claimed_by: str,
    lease: timedelta,
    limit: int,
    max_running: int,
) -> Taken:
    """Claims up to `limit` runs, none without room: what waits before a full house expires all the same (X-04, X-18).

    Raises Unavailable, after which nobody knows whether something was claimed.
    """
    begun = database.clock.monotonic()
    with database.write() as connection:
        runs.lock_queue(connection)
        now = database.clock.now(connection)
        expired = expiry.expire(connection, now)
        names = triggers.keys(connection, [one.trigger_id for one in expired]) if expired else {}
        claimed = claims.claim(
            connection, now, claimed_by=claimed_by, lease=lease, limit=limit, max_running=max_running
        )
    for one in expired:
        facts = {"run_id": one.run_id, "trigger_id": one.trigger_id, "source": one.source}
        observations.emit("run.expired", trigger=str(names.get(one.trigger_id)), **facts)
    if claimed:
        observations.emit("run.claimed", count=len(claimed), seconds=database.clock.monotonic() - begun)
    return Taken(now, claimed)
