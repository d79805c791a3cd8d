"""Runs for one worker: those that waited too long are ended, then what may go is claimed, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from reconcile.decide.concurrency import Turns
from reconcile.observations.observation import Observations
from reconcile.observations.runs import RunExpired, RunsClaimed, WaitEnded
from reconcile.runs.run_tokens import create_run_tokens
from revisions.run_limits import RunningRun
from revisions.store import claims, holds, queue, run_orders, runs, tokens, triggers
from revisions.store.claims import Claimed
from revisions.store.database import Connection, Database, fetch_with_time
from revisions.store.pipeline import fetch
from revisions.store.runs import Run


@dataclass(frozen=True, slots=True)
class ClaimedRuns:
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
) -> ClaimedRuns:
    """Claims up to `limit` runs, none without room: what waits before a full house expires all the same (X-04, X-18).

    Raises Unavailable, after which nobody knows whether something was claimed.
    """
    begun = database.clock.monotonic()
    with database.write() as connection:
        _, now = fetch_with_time(database.clock, connection, *runs.lock_queue_queries(connection))
        seen = _look(connection, now, limit)
        names = triggers.keys(connection, [one.trigger_id for one in seen.expired]) if seen.expired else {}
        ids = _choose(connection, now, seen, min(limit, max_running - len(seen.running)))
        claimed = claims.claim(connection, ids, now, claimed_by=claimed_by, lease=lease)
        handed = create_run_tokens(connection, claimed) if guarded or seen.guarded else {}
    for run in seen.expired:
        trigger = names.get(run.trigger_id)
        observations.emit(RunExpired(run, trigger))
        observations.emit(WaitEnded(run, trigger, now))
    if claimed:
        observations.emit(RunsClaimed(len(claimed), database.clock.monotonic() - begun))
    return ClaimedRuns(now, claimed, handed)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a claimer sees first: what waited too long, all that runs, freezes, who waits, whether access is guarded."""

    expired: Sequence[Run]
    running: Sequence[RunningRun]
    freezes: Sequence[Any]
    first: Sequence[Any]
    guarded: bool


def _look(connection: Connection, now: datetime, limit: int) -> _Seen:
    """All of it in one turn; what expires is over before anybody looks at who waits."""
    expired, running, freezes, first, ((guarded,),) = fetch(
        connection,
        run_orders.expire_query(now),
        queue.RUNNING,
        holds.freezes_query(now),
        queue.first_page_query(now, limit),
        tokens.EXIST,
    )
    return _Seen([*map(runs.from_row, expired)], [RunningRun(*row) for row in running], freezes, first, bool(guarded))


def _choose(connection: Connection, now: datetime, seen: _Seen, room: int) -> list[str]:
    """Whose turn it is, where there is room for so many more in all: nobody's of what is frozen (X-04, S-13)."""
    frozen = holds.frozen_projects_of(seen.freezes, now)
    if room <= 0 or frozen is None:
        return []
    turns = Turns(seen.running, room, frozen)
    ids: list[str] = []
    for page in queue.waiting(connection, now, seen.first, turns.full):
        ids += turns.grant(page)
        if turns.left == 0:
            break
    return ids
