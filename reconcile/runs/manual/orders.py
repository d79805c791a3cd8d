"""Orders of people about runs: retry one that ended badly, approve a parked one, and set the state that runs hand on.

X-03, X-11, X-14, X-16.
"""

from dataclasses import dataclass
from typing import Any

from reconcile.decide import attempt_ends
from reconcile.decide.authority import Caller
from reconcile.observations.observation import Observations
from reconcile.observations.runs import RunApproved, RunRetriedByHand
from reconcile.observations.specs import StateChanged
from reconcile.runs.manual.targets import read_target, refuse_denied, refuse_frozen, renewed_start_by
from revisions.errors import Conflict, Invalid, NotFound
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey
from revisions.outcomes import OccurrenceOutcome, RunStatus
from revisions.spec import documents
from revisions.spec.stored import readable_trigger
from revisions.store import notices, run_orders, runs, status, triggers
from revisions.store import revisions as revision_store
from revisions.store import states as store
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.runs import DEAD, LIVE, Run
from revisions.store.states import StoredState

ENDED_BADLY = (*DEAD, RunStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class Seeded:
    """State after a request, None when there never was one; `changed` is False when it had this value already."""

    state: StoredState | None
    changed: bool


def retry_run(database: Database, observations: Observations, run_id: str, caller: Caller) -> Run:
    """Put a run that ended back in the queue, with as many attempts as its revision allows; attempt numbers go on.

    A run that was not allowed beside another live run waits for its turn. Raises NotFound (also for a deleted
    trigger), Forbidden when the trigger's author may start nothing, and Conflict for a run that is live or succeeded,
    under a freeze, and beyond the budget.
    """
    with database.write() as connection:
        unlocked = runs.get(connection, run_id)
        if unlocked is None:
            raise NotFound.run(run_id)
        status.lock(connection, [unlocked.trigger_id])  # status row before run, the lock order of invariant 1
        trigger = triggers.by_id(connection, unlocked.trigger_id)
        run = runs.lock(connection, run_id)
        assert trigger is not None
        if run is None:  # pruned between the two reads
            raise NotFound.run(run_id)
        if trigger.deleted:
            raise NotFound.deleted(trigger.key, trigger.revision)
        _refuse_retry(run)
        now = database.clock.now(connection)
        refuse_frozen(connection, run.project, now)
        refuse_denied(connection, trigger, now)
        read_target(database, connection, trigger.key).refuse_beyond_budget(1)
        run_orders.begin_again(
            connection,
            run,
            now,
            max_attempts=run.attempt + _max_attempts(connection, run),
            overlap="allow" if run.overlap == "allow" else "queue_all",
            start_by=renewed_start_by(connection, run, now),
        )
        notices.runs_pending(connection)
        retried = runs.get(connection, run_id)
    assert retried is not None
    observations.emit(RunRetriedByHand(run, trigger.key, run.status, caller.actor))
    return retried


def approve_run(database: Database, observations: Observations, run_id: str, caller: Caller) -> Run:
    """Put a parked run in the queue and record who approved it; any other live run is returned unchanged.

    Raises NotFound, Conflict for a run that ended or was rejected, and Forbidden when the trigger's author may start
    nothing any more (X-15).
    """
    with database.write() as connection:
        unlocked = runs.get(connection, run_id)
        if unlocked is None:
            raise NotFound.run(run_id)
        rows = status.lock(connection, [unlocked.trigger_id])  # status row before run, the lock order of invariant 1
        run = runs.lock(connection, run_id)
        if run is None:  # pruned between the two reads
            raise NotFound.run(run_id)
        if run.status not in LIVE:
            hint = f"`triggerctl runs retry {run_id}` asks for it anew, where it ended badly"
            raise Conflict.hinted("status", f"run {run_id} is {run.status}, so there is nothing to approve", hint)
        if run.status != RunStatus.PARKED:
            return run
        now = database.clock.now(connection)
        if trigger := triggers.by_id(connection, run.trigger_id):
            refuse_denied(connection, trigger, now)
        run_orders.approve(connection, run_id, now, caller.actor, renewed_start_by(connection, run, now))
        if rows and rows[0].last_run_id == run_id:
            outcome = {"last_outcome": OccurrenceOutcome.STARTED, "last_outcome_at": now}
            status.save(connection, [{"trigger_id": run.trigger_id, **outcome}])
        notices.runs_pending(connection)
        key = triggers.keys(connection, [run.trigger_id]).get(run.trigger_id)
        approved = runs.get(connection, run_id)
    assert approved is not None
    observations.emit(RunApproved(approved, key, caller.actor))
    return approved


def _refuse_retry(run: Run) -> None:
    """Raise Conflict for a run that did not end badly."""
    if run.status in LIVE:
        hint = f"wait for its end, or `triggerctl runs cancel {run.id}` first"
        raise Conflict.hinted("status", f"run {run.id} is {run.status}, so there is nothing to retry", hint)
    if run.status not in ENDED_BADLY:
        hint = "`triggerctl fire` makes a new run, `triggerctl backfill --force` one for the same time"
        raise Conflict.hinted("status", f"run {run.id} has {run.status}, so there is nothing to retry", hint)


def _max_attempts(connection: Connection, run: Run) -> int:
    """Return the attempts that the run's own revision allows."""
    revision = revision_store.get(connection, run.trigger_id, run.revision)
    assert revision is not None
    return readable_trigger(revision.spec).retry.max_attempts


def read_state(database: Database, key: TriggerKey) -> StoredState | None:
    """Return the state, also of a deleted trigger. Raises NotFound."""
    with database.read() as connection:
        return store.get(connection, _trigger(connection, key).trigger_id)


def seed_state(database: Database, observations: Observations, key: TriggerKey, value: Any, caller: Caller) -> Seeded:
    """Set the state that the next run reads; a run under way may still replace it when it ends.

    Raises NotFound, also for a deleted trigger, and Invalid for a value that is no JSON or is too large.
    """
    documents.check(value, attempt_ends.STATE_KEY)
    new = attempt_ends.state_of(value)
    if new.fault:
        raise Invalid.at(attempt_ends.STATE_KEY, new.fault, "store what is large elsewhere, and keep a reference to it")
    return _replace(database, observations, key, new.text, caller)


def clear_state(database: Database, observations: Observations, key: TriggerKey, caller: Caller) -> Seeded:
    """Remove the state. Raises NotFound, also for a deleted trigger."""
    return _replace(database, observations, key, None, caller)


def _replace(
    database: Database, observations: Observations, key: TriggerKey, text: str | None, caller: Caller
) -> Seeded:
    """Store the state with its author, under the status row's lock that settling takes as well."""
    with database.write() as connection:
        trigger = _trigger(connection, key)
        status_store.lock(connection, [trigger.trigger_id])
        trigger = _trigger(connection, key)  # it may have been deleted while waiting for the lock
        if trigger.deleted:
            raise NotFound.deleted(key, trigger.revision)
        before = store.get(connection, trigger.trigger_id)
        if (before.state if before else None) == text:
            return Seeded(before, changed=False)
        now = database.clock.now(connection)
        state = StoredState(trigger.trigger_id, text, now, caller.actor, run_id=None)
        store.put(connection, state)
    size = len(text.encode()) if text is not None else None
    observations.emit(StateChanged(key, caller.actor, size))
    return Seeded(state, changed=True)


def _trigger(connection: Connection, key: TriggerKey) -> Trigger:
    trigger = trigger_store.get(connection, key)
    if trigger is None:
        raise NotFound.trigger(key)
    return trigger
