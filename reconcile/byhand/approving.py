"""Runs that wait for somebody's word: approving them lets them go on (X-14)."""

from reconcile.byhand.targets import refuse_denied, start_anew_by
from reconcile.observations.observation import Observations
from reconcile.observations.runs import RunApproved
from reconcile.revising import Caller
from revisions.errors import Conflict, NotFound
from revisions.store import notices, occurrences, orders, runs, status, triggers
from revisions.store.database import Database
from revisions.store.runs import LIVE, Run


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
            if run.status != "parked":
                return run
            now = self._database.clock.now(connection)
            if trigger := triggers.by_id(connection, run.trigger_id):
                refuse_denied(connection, trigger, now)
            orders.approve(connection, run_id, now, caller.actor, start_anew_by(connection, run, now))
            if rows and rows[0].last_run_id == run_id:
                told = {"last_outcome": occurrences.STARTED, "last_outcome_at": now}
                status.save(connection, [{"trigger_id": run.trigger_id, **told}])
            notices.runs_pending(connection)
            key = triggers.keys(connection, [run.trigger_id]).get(run.trigger_id)
            approved = runs.get(connection, run_id)
        assert approved is not None
        self._observations.emit(RunApproved(approved, key, caller.actor))
        return approved
