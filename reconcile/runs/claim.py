"""Claim runs for one worker: end those that waited too long, then claim those that may start, in one transaction."""

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
    """Runs claimed at `now`, and their tokens by run id; no tokens without access control."""

    now: datetime
    claimed: Sequence[Claimed]
    tokens: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Queue:
    """State of the queue at the beginning of a claim: expired and running runs, freezes, and the first waiting runs.

    `is_guarded` says that credentials exist, so that runs need tokens.
    """

    expired: Sequence[Run]
    running: Sequence[RunningRun]
    freezes: Sequence[Any]
    first_page: Sequence[Any]
    is_guarded: bool


def claim_runs(
    database: Database,
    observations: Observations,
    *,
    claimed_by: str,
    lease: timedelta,
    limit: int,
    max_running: int,
    guarded: bool = False,
) -> ClaimedRuns:
    """Claim up to `limit` runs, of which no more than `max_running` run at once over all workers (X-04).

    Runs that waited beyond their `start_by` expire even when there is no room for another run (X-18). `guarded`
    creates run tokens although no credential exists in the database.

    Raises Unavailable, after which it is unknown whether runs were claimed.
    """
    begun = database.clock.monotonic()
    with database.write() as connection:
        # One claimer at a time, so that limits are exact with plain reads.
        _, now = fetch_with_time(database.clock, connection, *runs.lock_queue_queries(connection))
        waiting = _read_queue(connection, now, limit)
        names = triggers.keys(connection, [run.trigger_id for run in waiting.expired]) if waiting.expired else {}
        ids = _choose(connection, now, waiting, min(limit, max_running - len(waiting.running)))
        claimed = claims.claim(connection, ids, now, claimed_by=claimed_by, lease=lease)
        run_tokens = create_run_tokens(connection, claimed) if guarded or waiting.is_guarded else {}
    for run in waiting.expired:
        trigger = names.get(run.trigger_id)
        observations.emit(RunExpired(run, trigger))
        observations.emit(WaitEnded(run, trigger, now))
    if claimed:
        observations.emit(RunsClaimed(len(claimed), database.clock.monotonic() - begun))
    return ClaimedRuns(now, claimed, run_tokens)


def _read_queue(connection: Connection, now: datetime, limit: int) -> _Queue:
    """Expire runs and read the queue in one round trip; the runs that expire are over before the queue is read."""
    expired, running, freezes, first_page, ((is_guarded,),) = fetch(
        connection,
        run_orders.expire_query(now),
        queue.RUNNING,
        holds.freezes_query(now),
        queue.first_page_query(now, limit),
        tokens.EXIST,
    )
    return _Queue(
        [*map(runs.from_row, expired)],
        [RunningRun(*row) for row in running],
        freezes,
        first_page,
        bool(is_guarded),
    )


def _choose(connection: Connection, now: datetime, waiting: _Queue, room: int) -> list[str]:
    """Return the ids of the runs that may start, at most `room`; none of a frozen project (X-04, S-13)."""
    frozen = holds.frozen_projects_of(waiting.freezes, now)
    if room <= 0 or frozen is None:
        return []
    turns = Turns(waiting.running, room, frozen)
    ids: list[str] = []
    for page in queue.waiting(connection, now, waiting.first_page, turns.full):
        ids += turns.grant(page)
        if turns.left == 0:
            break
    return ids
