"""New runs, built the same way for the schedule and for people, and their claim by a runner (X-02, X-04).

One transaction ends the runs that waited too long and claims those that may start. Each claimed run gets a token, valid
for its project while the attempt is under way (X-13).
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from reconcile.decide import authority
from reconcile.decide.admission import Turns
from reconcile.decide.authority import CausingRun, Principal
from reconcile.decide.terms import Terms
from reconcile.observations.observation import Observations
from reconcile.observations.runs import RunExpired, RunsClaimed, WaitEnded
from reconcile.plugins import LaunchError
from reconcile.runs import launch
from reconcile.triggers import credentials
from reconcile.triggers.credentials import hash_token
from revisions import ids
from revisions.outcomes import OccurrenceOutcome, RunSource
from revisions.run_limits import RunningRun
from revisions.spec.stored import readable_task
from revisions.store import claims, holds, queue, run_orders, runs, tokens, triggers
from revisions.store.claims import Claimed
from revisions.store.database import Connection, Database, fetch_with_time
from revisions.store.runs import NewRun, Run
from revisions.store.sessions import fetch
from revisions.store.trigger_facts import TriggerFacts

RUN_TOKEN_PREFIX: Final = "tcr_"
AFTER_TIMEOUT: Final = timedelta(minutes=1)
"""Validity of a run's token beyond the task's timeout, so that the run can still report its end."""


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


def new_run(
    facts: TriggerFacts,
    terms: Terms,
    now: datetime,
    *,
    occurrence_id: str,
    scheduled_at: datetime,
    source: RunSource,
    overlap: str,
    actor: str,
    input: str,
    start_by: datetime | None,
    reserved: float | None,
    traceparent: str | None = None,
    cause: CausingRun | None = None,
) -> NewRun:
    """Build a run of a trigger's current revision: pending, or parked until somebody approves it (X-14).

    `input` is canonical JSON text, `reserved` the part of the budget that the run may cost, `start_by` the instant at
    which it expires unless a worker claimed it. A parked run does not expire. `cause` is the run that asked for it.
    """
    task = readable_task(facts.task_spec) if facts.task_spec else None
    is_parked = terms.spec.requires_approval or (task is not None and task.requires_approval)
    return NewRun(
        id=ids.fresh(now),
        trigger_id=facts.trigger_id,
        occurrence_id=occurrence_id,
        revision=facts.revision,
        project=facts.project,
        domain=facts.domain,
        task=facts.task,
        task_version=facts.task_version,
        source=source,
        overlap=overlap,
        max_attempts=terms.spec.retry.max_attempts,
        actor=actor,
        scheduled_at=scheduled_at,
        created_at=now,
        input=input,
        start_by=None if is_parked else start_by,
        task_limit=task.concurrency_limit if task else None,
        reserved=reserved,
        parked=is_parked,
        traceparent=traceparent,
        caused_by_run_id=cause.run_id if cause else None,
        caused_by_trigger_id=cause.trigger_id if cause else None,
    )


def outcome_of(new: NewRun) -> OccurrenceOutcome:
    """Return the outcome of an occurrence that has this run (E-05)."""
    return OccurrenceOutcome.PARKED if new.parked else OccurrenceOutcome.STARTED


def create_run_tokens(connection: Connection, claimed: Sequence[Claimed]) -> Mapping[str, str]:
    """Create a token for each run that was just claimed, and return the tokens by run id.

    Only hashes are stored. Whatever ends the claim removes the hash, and with it the token's validity.
    """
    if not claimed:
        return {}
    tokens = {claim.run.id: RUN_TOKEN_PREFIX + secrets.token_urlsafe(32) for claim in claimed}
    claims.set_token_hashes(connection, {run_id: hash_token(token) for run_id, token in tokens.items()})
    return tokens


def principal_of_run(database: Database, token: str) -> Principal | None:
    """Return the principal of a run token; None for a token that is unknown or whose run is over."""
    with database.read() as connection:
        claimed = claims.by_token(connection, hash_token(token))
        if claimed is None or claimed.scopes is None:
            return None
        now = database.clock.now(connection)
        try:
            ends_at = (claimed.run.started_at or now) + launch.timeout_of(claimed) + AFTER_TIMEOUT
        except LaunchError:
            return None
        if now >= ends_at:
            return None
        rights = credentials.rights_of_authors(connection, [claimed.scopes], now)
    return Principal(
        f"run:{claimed.run.id} of {claimed.trigger}",
        authority.of_run(claimed.run.project, claimed.scopes, rights),
        claimed.scopes,
        CausingRun(claimed.run.id, claimed.run.trigger_id),
    )
