"""Runs for one worker: those that waited too long are ended, then what may go is claimed, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile import credentials
from reconcile.attempts.attempt import facts_of
from reconcile.observe import Observations
from reconcile.rules.turns import Turns
from revisions.store import claims, expiry, holds, queue, runs, triggers
from revisions.store.claims import Claimed
from revisions.store.database import Connection, Database, ask_and_look_at


@dataclass(frozen=True, slots=True)
class Taken:
    """The claims that are ours since `now`, and the tokens of their runs, by id; none without access control."""

    now: datetime
    claimed: Sequence[Claimed]
    tokens: Mapping[str, str]


def take(
    database: Database,
    observations: Observations,
    *,
    claimed_by: str,
    lease: timedelta,
    limit: int,
    max_running: int,
    guarded: bool = False,
) -> Taken:
    """Claims up to `limit` runs, none without room: what waits before a full house expires all the same (X-04, X-18).

    Raises Unavailable, after which nobody knows whether something was claimed.
    """
    begun = database.clock.monotonic()
    with database.write() as connection:
        _, now = ask_and_look_at(database.clock, connection, *runs.locking_queue(connection))
        expired = expiry.expire(connection, now)
        names = triggers.keys(connection, [one.trigger_id for one in expired]) if expired else {}
        claimed = claim(connection, now, claimed_by=claimed_by, lease=lease, limit=limit, max_running=max_running)
        tokens = credentials.for_runs(connection, claimed, guarded=guarded)
    for run in expired:
        trigger = names.get(run.trigger_id)
        observations.emit("run.expired", **facts_of(run, trigger), source=run.source)
        observations.emit("wait.ended", run=run, trigger=trigger, at=now)
    if claimed:
        observations.emit("run.claimed", count=len(claimed), seconds=database.clock.monotonic() - begun)
    return Taken(now, claimed, tokens)


def claim(
    connection: Connection, now: datetime, *, claimed_by: str, lease: timedelta, limit: int, max_running: int
) -> list[Claimed]:
    """The runs whose turn it is, claimed. The caller holds `runs.lock_queue` and read `now` after it."""
    ids = _choose(connection, now, limit, max_running)
    return claims.claim(connection, ids, now, claimed_by=claimed_by, lease=lease)


def _choose(connection: Connection, now: datetime, limit: int, max_running: int) -> list[str]:
    """Whose turn it is: nobody's beyond `max_running` in all, nor of what is frozen (X-04, S-13)."""
    running, freezes = queue.running_and_freezes(connection, now)
    room, frozen = min(limit, max_running - len(running)), holds.projects_of(freezes, now)
    if room <= 0 or frozen is None:
        return []
    turns = Turns(running, room, frozen)
    ids: list[str] = []
    for page in queue.waiting(connection, now, room, turns.full):
        ids += turns.grant(page)
        if turns.left == 0:
            break
    return ids
