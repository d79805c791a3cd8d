"""Callbacks of services: a service that accepted a run reports its end, or that it still works on it.

A service names the attempt by its number. Unlike the number of the claim, that stays the same when another worker takes
the run over. A callback for an attempt that is over changes nothing and is recorded (X-05).
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from reconcile.decide.secret_masks import Mask
from reconcile.observations.observation import Observations
from reconcile.observations.runs import ClaimLost, RunCompleted
from reconcile.plugins import LaunchError
from reconcile.runs import attempt_secrets, launch, workspace
from reconcile.runs.attempt import Ended
from reconcile.runs.attempt_secrets import Vault
from reconcile.runs.endings import EndedAttempt
from reconcile.runs.settle import apply_stop, settle_all
from revisions.errors import Conflict, NotFound
from revisions.store import claims, runs
from revisions.store.claims import Claimed
from revisions.store.database import Connection, Database
from revisions.store.runs import Run


def complete_run(
    database: Database,
    observations: Observations,
    run_id: str,
    attempt: int,
    ended: Ended,
    *,
    vault: Vault,
    work_dir: Path,
) -> Run:
    """Settle an attempt that is under way, and return its run; the worker finds it settled (X-10).

    Secrets in the answer are hidden: the values in `vault`, and those that the attempt was given if it is one of this
    machine's, whose folders are in `work_dir`. Raises NotFound, and Conflict when the attempt is over.
    """
    with database.read() as connection:
        claimed = _read(connection, run_id)
    reported = replace(claimed.run, attempt=attempt)
    given = attempt_secrets.read(workspace.folder_of(work_dir, run_id, attempt))
    ended = ended.masked(Mask((*vault.readable_values(claimed), *given)))
    completed = EndedAttempt(reported, ended, trigger=claimed.trigger, is_reported=True)
    (settled,) = settle_all(database, observations, [completed])
    if settled.stop:
        apply_stop(database, observations, reported, settled.stop, claimed.trigger)
    with database.read() as connection:
        run = _read(connection, run_id).run
    if settled.decision is None:
        raise _over(run, attempt)
    observations.emit(RunCompleted(reported, claimed.trigger))
    return run


def record_heartbeat(
    database: Database, observations: Observations, run_id: str, attempt: int, *, lease: timedelta
) -> Run:
    """Prolong the lease of an attempt that is under way to `lease` from now, and return its run (X-05).

    After the attempt's timeout the lease stays as it is, so that a run whose worker is gone can be taken over.
    Raises NotFound, and Conflict when the attempt is over.
    """
    with database.write() as connection:
        runs.lock(connection, run_id)
        claimed = _read(connection, run_id)
        now = database.clock.now(connection)
        reported = replace(claimed.run, attempt=attempt)
        is_under_way = claims.holds_attempt(claimed.run, reported)
        if is_under_way and now - (claimed.run.started_at or now) < _timeout(claimed):
            claims.extend_lease(connection, claimed.run, now + lease)
    if not is_under_way:
        observations.emit(ClaimLost(reported, claimed.trigger, reported.claim))
        raise _over(claimed.run, attempt)
    return claimed.run


def _read(connection: Connection, run_id: str) -> Claimed:
    for claimed in claims.get(connection, [run_id]):
        return claimed
    raise NotFound.run(run_id)


def _timeout(claimed: Claimed) -> timedelta:
    """Return the attempt's timeout, zero when its task cannot be read any more."""
    try:
        return launch.timeout_of(claimed)
    except (LaunchError, ValueError):
        return timedelta(0)


def _over(run: Run, attempt: int) -> Conflict:
    state = f"the run is {run.status} in attempt {run.attempt}"
    hint = "stop working on it: what this attempt says changes nothing any more"
    return Conflict.hinted("attempt", f"attempt {attempt} of run {run.id} does not go on: {state}", hint)
