"""The whole product without threads: one database, a hand-driven clock and passes called by the test."""

from datetime import UTC, datetime, timedelta
from typing import Any

from reconcile.decide.admission import Pace
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Caller, Sharing
from reconcile.decide.preconditions import Expected
from reconcile.decide.retention import Retention
from reconcile.loop.loop import Loop
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.passes import TriggerQuarantined
from reconcile.runs.attempt import Ended
from reconcile.runs.claim import claim_runs
from reconcile.runs.endings import Settled
from reconcile.runs.manual.backfill import Backfilled, BackfillRequest, backfill_trigger
from reconcile.runs.manual.fire import fire_trigger
from reconcile.runs.manual.orders import approve_run, retry_run
from reconcile.runs.settle import apply_stop, settle
from reconcile.triggers.activation import activate_trigger, deactivate_trigger, delete_trigger
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import deploy_trigger, rename_trigger
from reconcile.triggers.tasks import Registered, register_task
from revisions.clock import Clock, HandClock
from revisions.history.triggers import Revision
from revisions.ids import TriggerKey
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from revisions.store import occurrences, runs, status, triggers
from revisions.store import revisions as revision_store
from revisions.store.database import Database
from revisions.store.occurrences import Skip
from revisions.store.runs import Run
from revisions.store.status import StatusRow
from tests.observing import only

UNLIMITED = Pace(execution_qps=0, max_catchup_runs_per_loop=1_000_000)
EVER = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
"""All time: the earliest and the latest datetime."""


def task_document(version: str = "v1", name: str = "report", **spec: Any) -> dict[str, Any]:
    """Return a task whose command succeeds immediately."""
    return {
        "apiVersion": "triggerctl/v1",
        "kind": "Task",
        "metadata": {"project": "acme", "domain": "production", "name": name, "version": version},
        "spec": {"launcher": "process", "process": {"command": ["true"]}, **spec},
    }


def trigger_document(name: str = "tick", task: str = "report", tags: Any = None, **spec: Any) -> dict[str, Any]:
    """Return a trigger of task version v1 that fires every minute, unless `spec` says otherwise."""
    metadata = {"project": "acme", "domain": "production", "task": task, "name": name}
    return {
        "apiVersion": "triggerctl/v1",
        "kind": "Trigger",
        "metadata": metadata if tags is None else metadata | {"tags": tags},
        "spec": {"task_version": "v1", "schedule": {"every": "1m"}, **spec},
    }


class World:
    """Everything a person or the loop can do, one method each. Keyword arguments named `spec` go into the trigger's
    spec."""

    def __init__(self, database: Database, clock: Clock, pace: Pace = UNLIMITED) -> None:
        self.database, self.clock = database, clock
        with database.read() as connection:
            self.start = clock.now(connection)
        self.observations = Observations()
        self.observed: list[Observation] = []
        self.observations.subscribe(self.observed.append)
        self.sharing = Sharing()
        self.loop = self.another_loop(pace)

    def another_loop(self, pace: Pace = UNLIMITED) -> Loop:
        """Return the loop of another replica, or of the same one after a restart."""
        return Loop(self.database, self.observations, pace, Retention(), "test")

    def another_loop_without_catch_up(self) -> Loop:
        """Return a loop that catches up nothing, so that backlogs stay."""
        return self.another_loop(Pace(execution_qps=0, max_catchup_runs_per_loop=0))

    def resync(self) -> None:
        """Resync and assert that no trigger was quarantined."""
        self.loop.resync()
        assert only(TriggerQuarantined, self.observed) == []

    def register(self, version: str = "v1", **options: Any) -> Registered:
        return register_task(
            self.database, self.observations, TaskManifest.read(task_document(version, **options)), Caller("ann")
        )

    def create(self, name: str = "tick", **spec: Any) -> Changed:
        return self.deploy(name, Expected(absent=True), **spec)

    def update(self, name: str, revision: int, **spec: Any) -> Changed:
        return self.deploy(name, Expected(revision=revision), **spec)

    def deploy(self, name: str, expected: Expected, caller: Caller | None = None, **spec: Any) -> Changed:
        return deploy_trigger(
            self.database,
            self.observations,
            TriggerManifest.read(trigger_document(name, **spec)),
            expected,
            caller or Caller("ann"),
            sharing=self.sharing,
        )

    def activate(self, name: str, revision: int) -> Changed:
        return activate_trigger(self.database, self.observations, key(name), Expected(revision=revision), Caller("ann"))

    def deactivate(self, name: str, revision: int, reason: str = "", **options: Any) -> Changed:
        return deactivate_trigger(
            self.database, self.observations, key(name), Expected(revision=revision), Caller("ann", reason), **options
        )

    def rename(self, name: str, new: str, revision: int) -> Changed:
        return rename_trigger(
            self.database, self.observations, key(name), new, Expected(revision=revision), Caller("ann")
        )

    def delete(self, name: str, revision: int) -> Changed:
        return delete_trigger(self.database, self.observations, key(name), Expected(revision=revision), Caller("ann"))

    def backfill(
        self, first: float, end: float, name: str = "tick", caller: Caller | None = None, **how: Any
    ) -> Backfilled:
        """Backfill [first, end), given in minutes since the start."""
        request = BackfillRequest(self.start + timedelta(minutes=first), self.start + timedelta(minutes=end), **how)
        return backfill_trigger(
            self.database, self.observations, key(name), request, caller or Caller("ann"), lambda done, total: None
        )

    def fire(
        self, trigger: TriggerKey, input: dict[str, Any] | None, caller: Caller, overlap: str | None = None
    ) -> Run:
        return fire_trigger(self.database, self.observations, trigger, input, caller, overlap)

    def retry(self, run_id: str, caller: Caller) -> Run:
        return retry_run(self.database, self.observations, run_id, caller)

    def approve(self, run_id: str, caller: Caller) -> Run:
        return approve_run(self.database, self.observations, run_id, caller)

    def claim(self, limit: int = 100, max_running: int = 100, by: str = "worker") -> list[Run]:
        """Claim pending runs as a runner does."""
        claimed = claim_runs(
            self.database,
            self.observations,
            claimed_by=by,
            lease=timedelta(seconds=60),
            limit=limit,
            max_running=max_running,
        )
        return [claim.run for claim in claimed.claimed]

    def settle(self, run: Run, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED, **output: Any) -> Settled:
        """End a claimed run, and apply what follows for its trigger."""
        settled = settle(self.database, self.observations, run, Ended(outcome, output=output))
        if settled.stop:
            apply_stop(self.database, self.observations, run, settled.stop)
        return settled

    def finish(self, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED, **output: Any) -> Run:
        """Claim the next pending run and end it."""
        (run,) = self.claim(limit=1)
        self.settle(run, outcome, **output)
        return run

    def advance(self, **span: float) -> None:
        """Move the clock forward; nothing happens until a pass is called."""
        assert isinstance(self.clock, HandClock)
        self.clock.advance(timedelta(**span))

    def clock_now(self) -> datetime:
        with self.database.read() as connection:
            return self.clock.now(connection)

    def runs(self, name: str = "tick") -> list[Run]:
        """Return runs, oldest scheduled first."""
        with self.database.read() as connection:
            page = runs.page(connection, None, 100_000, trigger_id=self.id(name))
        return sorted(page, key=lambda run: (run.scheduled_at, run.id))

    def skips(self, name: str = "tick") -> list[Skip]:
        """Return recorded skips, oldest scheduled first."""
        with self.database.read() as connection:
            return occurrences.skips_within(connection, self.id(name), *EVER)

    def status(self, name: str = "tick") -> StatusRow:
        with self.database.read() as connection:
            row = status.get(connection, self.id(name))
        assert row is not None
        return row

    def history(self, name: str = "tick") -> list[Revision]:
        """Return revisions, newest first."""
        with self.database.read() as connection:
            return revision_store.page(connection, self.id(name), None, 1_000)

    def id(self, name: str) -> str:
        with self.database.read() as connection:
            trigger = triggers.get(connection, key(name))
        assert trigger is not None
        return trigger.trigger_id


def key(name: str, task: str = "report") -> TriggerKey:
    return TriggerKey("acme", "production", task, name)
