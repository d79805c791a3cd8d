"""The whole product without threads over database connections of its own, as one of several processes."""

import random
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.decide.retention import Retention
from reconcile.launchers.shared.attempt_folder import LogFile
from reconcile.loop.loop import Loop
from reconcile.observations.observation import Observation, Observations
from reconcile.observations.runs import ClaimLost, RunLost
from reconcile.plugins import Failed, Launch, Succeeded, WorkProgress
from reconcile.runs.manual.fire import fire_trigger
from reconcile.runs.runner import Runner, RunnerSettings
from reconcile.triggers.activation import (
    activate_trigger,
    change_triggers,
    deactivate_trigger,
    delete_trigger,
)
from reconcile.triggers.deploy import deploy_trigger, rename_trigger, rollback_trigger
from reconcile.triggers.tasks import delete_task, register_task
from revisions.errors import TriggerctlError, Unavailable
from revisions.history.triggers import Action
from revisions.ids import TaskKey
from revisions.outcomes import RunStatus
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from revisions.store import run_orders, runs, triggers
from revisions.store.database import Database
from tests.world import key, task_document, trigger_document

SESSIONS = 32
ANN = Caller("ann")
PACE = Pace(
    resync_interval=timedelta(milliseconds=200),
    live_grace=timedelta(0),  # so that a start half a second late counts as missed, and backlogs are tested
    max_catchup_runs_per_loop=50,
    execution_qps=1000,
    execution_burst=1000,
)


class EndedWork:
    """Work that has ended when it starts; every third attempt has failed."""

    def __init__(self, launch: Launch) -> None:
        self.log = LogFile(launch.folder / "empty log")
        self._end = Failed("broken") if int(launch.run_id[-1], 36) % 3 == 0 else Succeeded()

    def poll(self) -> WorkProgress:
        return self._end

    def cancel(self, *, force: bool = False) -> None:
        pass

    def forget(self) -> None:
        pass


class InstantLauncher:
    """Launcher whose work ends when it starts."""

    finds_anywhere = False

    def read(self, written: Any) -> Any:
        return written

    def system(self, block: Any) -> None:
        return None

    def start(self, launch: Launch) -> EndedWork:
        return EndedWork(launch)

    def adopt(self, folder: Path) -> None:
        return None


class Replica:
    """Random operations on triggers and task versions.

    `done` and `refused` count operations that changed something and that were refused as expected; `unexpected` lists
    all other errors.
    """

    def __init__(self, database_url: str, folder: Path, names: list[str], versions: list[str]) -> None:
        self.database = Database(database_url, pool_size=SESSIONS)
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self._names, self._versions = names, versions
        self.observations = observations = Observations()
        observations.subscribe(self._record_failure)
        self._loop = Loop(self.database, observations, PACE, Retention(), "test")
        self._runner = Runner(
            self.database,
            observations,
            {"process": InstantLauncher()},
            settings=RunnerSettings(folder),
        )

    def open_all_sessions(self) -> None:
        """Open all sessions in advance, so that no operation waits for a connection."""
        with ExitStack() as stack:
            for _ in range(SESSIONS):
                stack.enter_context(self.database.read())

    def deploy(self, chance: random.Random) -> None:
        """Create, update or move a trigger."""
        name, version = chance.choice(self._names), chance.choice(self._versions)
        manifest = TriggerManifest.read(
            trigger_document(
                name,
                tags=chance.choice([None, ["some"]]),
                task_version=version,
                schedule={"every": "1s"},
                catchup={"policy": chance.choice(["all", "latest", "none"])},
                overlap=chance.choice(["allow", "skip"]),
                description=f"{chance.random()}",
                retry={"max_attempts": 1},
                deactivate_after=2,
            )
        )
        revision = self._revision(name)
        expected = Expected(absent=True) if revision is None else Expected(revision=revision)
        self._try("deploy", lambda: deploy_trigger(self.database, self.observations, manifest, expected, ANN).changed)

    def activate(self, chance: random.Random) -> None:
        name = chance.choice(self._names)
        if revision := self._revision(name):
            self._try(
                "activate",
                lambda: (
                    activate_trigger(
                        self.database, self.observations, key(name), Expected(revision=revision), ANN
                    ).changed
                ),
            )

    def deactivate(self, chance: random.Random) -> None:
        name = chance.choice(self._names)
        if revision := self._revision(name):
            self._try(
                "deactivate",
                lambda: (
                    deactivate_trigger(
                        self.database, self.observations, key(name), Expected(revision=revision), ANN
                    ).changed
                ),
            )

    def delete(self, chance: random.Random) -> None:
        name = chance.choice(self._names)
        if revision := self._revision(name):
            self._try(
                "delete",
                lambda: (
                    delete_trigger(
                        self.database, self.observations, key(name), Expected(revision=revision), ANN
                    ).changed
                ),
            )

    def rename(self, chance: random.Random) -> None:
        name, other = chance.choice(self._names), f"other-{chance.randrange(20)}"
        if revision := self._revision(name):
            expected = Expected(revision=revision)
            self._try(
                "rename",
                lambda: rename_trigger(self.database, self.observations, key(name), other, expected, ANN).changed,
            )

    def roll_back(self, chance: random.Random) -> None:
        name = chance.choice(self._names)
        if revision := self._revision(name):
            to, expected = chance.randint(1, revision), Expected(revision=revision)
            self._try(
                "roll back",
                lambda: rollback_trigger(self.database, self.observations, key(name), to, expected, ANN).changed,
            )

    def change_all(self, chance: random.Random) -> None:
        """Change several triggers at once, by their tag or by their names."""
        action = chance.choice((Action.ACTIVATE, Action.DEACTIVATE))
        read = {key(name): revision for name in chance.sample(self._names, 3) if (revision := self._revision(name))}
        chosen = chance.choice((read, "some"))
        self._try(
            "change all",
            lambda: any(
                change.changed for change in change_triggers(self.database, self.observations, chosen, action, ANN)
            ),
        )

    def register(self, _: random.Random) -> None:
        """Register the last task version again."""
        task = TaskManifest.read(task_document(self._versions[-1]))
        self._try("register", lambda: register_task(self.database, self.observations, task, ANN).changed)

    def delete_task(self, _: random.Random) -> None:
        """Delete the last task version. Deleting any version would leave hardly a trigger alive."""
        task = TaskKey("acme", "production", "report", self._versions[-1])
        self._try("delete task", lambda: delete_task(self.database, self.observations, task, ANN))

    def fire(self, chance: random.Random) -> None:
        name = chance.choice(self._names)
        self._try("fire", lambda: fire_trigger(self.database, self.observations, key(name), None, ANN, "allow"))

    def cancel(self, _: random.Random) -> None:
        with self.database.read() as connection:
            live = runs.page(connection, None, 1, status=RunStatus.PENDING)
        if live:
            self._try("cancel", lambda: self._cancel(live[0].id))

    def resync(self, _: random.Random) -> None:
        """Resync, with due passes and catch-up."""
        self._try("resync", lambda: self._loop.resync() or True)

    def work(self, _: random.Random) -> None:
        """Claim, launch and settle runs."""
        self._try("work", lambda: self._runner.run_pass().settled)

    def _try(self, operation: str, call: Any) -> None:
        try:
            self._count(operation, call())
        except Unavailable as error:
            self.unexpected.append(f"{operation}: {error} ({error.__cause__!r})")
        except TriggerctlError:
            self.refused[operation] += 1

    def _count(self, operation: str, changed: Any) -> None:
        self.done[operation] += bool(changed)

    def _cancel(self, run_id: str) -> bool:
        with self.database.write() as connection:
            run = run_orders.request_cancel(connection, run_id, self.database.clock.now(connection), "ann")
        return run is not None and run.status == "cancelled"

    def _revision(self, name: str) -> int | None:
        with self.database.read() as connection:
            trigger = triggers.get(connection, key(name))
        return None if trigger is None or trigger.deleted else trigger.revision

    def _record_failure(self, observation: Observation) -> None:
        is_failure = observation.name.endswith((".failed", ".quarantined", ".unavailable"))
        if is_failure or isinstance(observation, ClaimLost | RunLost):
            self.unexpected.append(f"{observation.name}: {observation.facts()}")
