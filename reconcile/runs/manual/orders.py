"""A run that ended badly is run again, because somebody says so (X-11, X-16)."""

from reconcile.observations.observation import Observations
from reconcile.observations.runs import RunApproved, RunRetriedByHand
from reconcile.runs.manual import targets
from reconcile.runs.manual.targets import refuse_denied, start_anew_by
from reconcile.triggers.caller import Caller
from revisions.errors import Conflict, NotFound
from revisions.outcomes import OccurrenceOutcome, RunStatus
from revisions.spec.stored import readable_trigger
from revisions.store import notices, run_orders, runs, status, triggers
from revisions.store import revisions as revision_store
from revisions.store.database import Connection, Database
from revisions.store.runs import DEAD, LIVE, Run

ENDED_BADLY = (*DEAD, RunStatus.CANCELLED)


class Retrying:
    """Puts ended runs back in the queue; who did it is told as an observation."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def retry(self, run_id: str, caller: Caller) -> Run:
        """The same run, pending, with as many attempts ahead as its revision allows; their numbers go on.

        One that was not allowed beside a live run waits for its turn. Raises NotFound, also where the trigger
        is deleted, and Conflict for a run that goes on or has succeeded, under a freeze, and for what the budget does
        not buy.
        """
        with self._database.write() as connection:
            found = runs.get(connection, run_id)
            if found is None:
                raise NotFound.run(run_id)
            status.lock(connection, [found.trigger_id])  # before the run, as whoever settles it does
            trigger = triggers.by_id(connection, found.trigger_id)
            run = runs.lock(connection, run_id)
            assert trigger is not None
            if run is None:  # it had been kept long enough, a moment ago
                raise NotFound.run(run_id)
            if trigger.deleted:
                raise NotFound.deleted(trigger.key, trigger.revision)
            _refuse(run)
            now = self._database.clock.now(connection)
            targets.refuse_frozen(connection, run.project, now)
            targets.refuse_denied(connection, trigger, now)
            targets.read(self._database, connection, trigger.key).refuse_beyond(1)
            more = _max_attempts(connection, run)
            overlap = "allow" if run.overlap == "allow" else "queue_all"
            by = targets.start_anew_by(connection, run, now)
            run_orders.begin_again(connection, run, now, max_attempts=run.attempt + more, overlap=overlap, start_by=by)
            notices.runs_pending(connection)
            again = runs.get(connection, run_id)
        assert again is not None
        self._observations.emit(RunRetriedByHand(run, trigger.key, run.status, caller.actor))
        return again


def _refuse(run: Run) -> None:
    if run.status in LIVE:
        hint = f"wait for its end, or `triggerctl runs cancel {run.id}` first"
        raise Conflict.hinted("status", f"run {run.id} is {run.status}, so there is nothing to retry", hint)
    if run.status not in ENDED_BADLY:
        hint = "`triggerctl fire` makes a new run, `triggerctl backfill --force` one for the same time"
        raise Conflict.hinted("status", f"run {run.id} has {run.status}, so there is nothing to retry", hint)


def _max_attempts(connection: Connection, run: Run) -> int:
    """What the revision that the run was made under says."""
    revision = revision_store.get(connection, run.trigger_id, run.revision)
    assert revision is not None
    return readable_trigger(revision.spec).retry.max_attempts


class Approving:
    """Puts parked runs into the queue, and keeps who let them go."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def approve(self, run_id: str, caller: Caller) -> Run:
        """The run, pending from now on; one that goes on anyway stays as it is.

        Raises NotFound, Conflict for a run that has ended, a rejected one too, and Forbidden where the trigger's author
        may start nothing any more (X-15).
        """
        with self._database.write() as connection:
            found = runs.get(connection, run_id)
            if found is None:
                raise NotFound.run(run_id)
            rows = status.lock(connection, [found.trigger_id])  # before the run, as whoever settles it does
            run = runs.lock(connection, run_id)
            if run is None:  # it had been kept long enough, a moment ago
                raise NotFound.run(run_id)
            if run.status not in LIVE:
                hint = f"`triggerctl runs retry {run_id}` asks for it anew, where it ended badly"
                raise Conflict.hinted("status", f"run {run_id} is {run.status}, so there is nothing to approve", hint)
            if run.status != RunStatus.PARKED:
                return run
            now = self._database.clock.now(connection)
            if trigger := triggers.by_id(connection, run.trigger_id):
                refuse_denied(connection, trigger, now)
            run_orders.approve(connection, run_id, now, caller.actor, start_anew_by(connection, run, now))
            if rows and rows[0].last_run_id == run_id:
                told = {"last_outcome": OccurrenceOutcome.STARTED, "last_outcome_at": now}
                status.save(connection, [{"trigger_id": run.trigger_id, **told}])
            notices.runs_pending(connection)
            key = triggers.keys(connection, [run.trigger_id]).get(run.trigger_id)
            approved = runs.get(connection, run_id)
        assert approved is not None
        self._observations.emit(RunApproved(approved, key, caller.actor))
        return approved
