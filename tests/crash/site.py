"""Real controllers, each a `triggerctl up` in a process of its own, over one database and one folder of attempts."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reconcile.decide.preconditions import Expected
from reconcile.launchers.shared import child_process
from reconcile.observations.observation import Observations
from reconcile.queries.audit import Auditing
from reconcile.report.audit import AuditLine
from reconcile.runs.manual.fire import Firing
from reconcile.triggers.activation import activate_trigger, deactivate_trigger
from reconcile.triggers.caller import Caller
from reconcile.triggers.deploy import deploy_trigger
from reconcile.triggers.tasks import register_task
from revisions.history.triggers import Revision
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from revisions.store import backlogs as backlog_store
from revisions.store import occurrences, runs, status, triggers
from revisions.store import revisions as revision_store
from revisions.store.backlogs import Backlog
from revisions.store.database import Database
from revisions.store.occurrences import Skip
from revisions.store.runs import LIVE, Run
from revisions.store.status import StatusRow
from tests.waiting import PATIENCE, eventually
from tests.world import EVER, key, task_document, trigger_document

ROOT = Path(__file__).parents[2]
TELL = """
read -r input
attempt=${input##*'"attempt": '}
echo "$TRIGGERCTL_RUN_ID ${attempt%%[!0-9]*}" >>"$TOLD/began"
"""
WAIT = """
until [ -e "$TOLD/go" ]; do sleep 0.05; done
echo '{"answer": 42}' >"$TRIGGERCTL_OUTPUT"
echo "$TRIGGERCTL_RUN_ID ${attempt%%[!0-9]*}" >>"$TOLD/ended"
"""
"""Tasks for `/bin/sh`: one appends its run and attempt to a file; the other, after it, waits until it may go on."""


class Controller:
    """One process; `log` is what it wrote to standard error."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log

    def said(self, event: str) -> list[dict[str, Any]]:
        """Its log lines for an event."""
        return [line for line in self._lines() if line.get("event") == event]

    def complaints(self) -> list[dict[str, Any]]:
        """Errors it logged, and what is no log line at all."""
        return [line for line in self._lines() if line.get("level") in (None, "error", "critical")]

    def until(self, event: str) -> dict[str, Any]:
        """Its first log line for an event, once it is there."""
        return eventually(lambda: self.said(event) or self._is_over(event))[0]

    @property
    def url(self) -> str:
        """Where it answers, once it does."""
        url: str = self.until("controller.started")["url"]
        return url

    def kill(self) -> None:
        """SIGKILL: nothing is cleaned up. Its tasks are in groups of their own and live on."""
        assert self.process.poll() is None, self.log.read_text()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT that much later, unless it was killed: it does not know that it was away."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, and no waiting."""
        self.process.terminate()

    def stop(self) -> int:
        """SIGTERM once it has started, for until then the signal is Python's; answers the exit code."""
        self.until("controller.started")
        self.terminate()
        return self.process.wait(PATIENCE)

    def lives_on(self, seconds: float) -> bool:
        """Whether it is still there that much later."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.poll() is None

    def _is_over(self, event: str) -> list[dict[str, Any]]:
        assert self.process.poll() is None, f"ended before {event}: {self.log.read_text()}"
        return []

    def _lines(self) -> list[dict[str, Any]]:
        """What is cut off in the middle by a kill is no line."""
        *lines, _ = self.log.read_text().split("\n")
        return [_parsed(line) for line in lines]


class Site:
    """What the controllers share, and what a person does about it beside them."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.database_url, self.folder = database_url, folder
        self.told, self.work = folder / "told", folder / "work"
        self.told.mkdir(parents=True)
        self.database = Database(database_url)
        self.observations = Observations()
        self._firing = Firing(self.database, self.observations)
        self.controllers: list[Controller] = []

    def up(self, *arguments: str, without: str = "", **settings: str) -> Controller:
        """Starts a controller; settings are named as in the environment, ours without the prefix."""
        log = self.folder / f"controller-{len(self.controllers)}.log"
        chosen = {
            "DATABASE_URL": self.database_url,
            "LISTEN": "127.0.0.1:0",
            "LOG_FORMAT": "json",
            "TASK_ROOT": str(self.folder),
            "WORK_DIR": str(self.work),
            **settings,
        }
        parts = ["--without", without] if without else []
        prefixes = {name: "" if name.startswith("OTEL_") else "TRIGGERCTL_" for name in chosen}
        environment = {prefixes[name] + name: value for name, value in chosen.items()}
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "controller.cli.main", "up", *arguments, *parts],
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": str(ROOT), **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.controllers.append(Controller(process, log))
        return self.controllers[-1]

    def register(self, script: str, version: str = "v1") -> None:
        """Registers a version of task report: a script for `/bin/sh`."""
        process = {"command": ["/bin/sh", "-c", script], "env": {"TOLD": str(self.told)}}
        register_task(
            self.database, self.observations, TaskManifest.read(task_document(version, process=process)), Caller("ann")
        )

    def deploy(self, name: str, **spec: Any) -> None:
        """Creates a trigger; where the spec says nothing it never fires by itself."""
        spec = {"schedule": {"at": "2060-01-01T00:00:00Z"}, "overlap": "allow"} | spec
        deploy_trigger(
            self.database,
            self.observations,
            TriggerManifest.read(trigger_document(name, **spec)),
            Expected(absent=True),
            Caller("ann"),
        )

    def redeploy(self, name: str, **spec: Any) -> None:
        """A revision more."""
        manifest = TriggerManifest.read(trigger_document(name, **spec))
        deploy_trigger(
            self.database, self.observations, manifest, Expected(revision=self._revision(name)), Caller("ann")
        )

    def deactivate(self, name: str) -> None:
        deactivate_trigger(
            self.database, self.observations, key(name), Expected(revision=self._revision(name)), Caller("ann")
        )

    def activate(self, name: str) -> None:
        activate_trigger(
            self.database, self.observations, key(name), Expected(revision=self._revision(name)), Caller("ann")
        )

    def faults(self, name: str) -> list[AuditLine]:
        """What `audit` finds missing, twice or unexplained in a trigger's whole life."""
        return Auditing(self.database, timedelta(minutes=1)).faults(key(name))

    def fire(self, name: str) -> str:
        """One run by hand; answers its id."""
        return self._firing.fire(key(name), None, Caller("ann"), "allow").id

    def run(self, run_id: str) -> Run:
        with self.database.read() as connection:
            run = runs.get(connection, run_id)
        assert run is not None
        return run

    def ended(self, run_id: str) -> Run:
        """A run, once it is over."""
        return eventually(lambda: run if (run := self.run(run_id)).status not in LIVE else None)

    def runs(self, name: str | None = None) -> list[Run]:
        with self.database.read() as connection:
            return runs.page(connection, None, 1_000_000, trigger_id=None if name is None else self._id(name))

    def skips(self, name: str) -> list[Skip]:
        with self.database.read() as connection:
            return occurrences.skips_within(connection, self._id(name), *EVER)

    def history(self, name: str) -> list[Revision]:
        """Oldest first."""
        with self.database.read() as connection:
            return revision_store.page(connection, self._id(name), None, 1_000)[::-1]

    def status(self, name: str) -> StatusRow:
        with self.database.read() as connection:
            row = status.get(connection, self._id(name))
        assert row is not None
        return row

    def now(self) -> datetime:
        with self.database.read() as connection:
            return self.database.clock.now(connection)

    def backlogs(self, name: str) -> list[Backlog]:
        with self.database.read() as connection:
            return backlog_store.get(connection, [self._id(name)])

    def comes_to_an_end(self, *names: str) -> datetime:
        """Waits until all that was due by now is decided, then ends the schedules and waits for the last runs.

        Answers what `now` was: what fell due later may have fallen into the schedules' end.
        """
        until = self.comes_to_rest(*names)
        for name in names:
            self._ends(name)
        return until

    def comes_to_rest(self, *names: str) -> datetime:
        """Waits until all that was due by now is decided, then ends the schedules; answers what `now` was."""
        until = self.now()
        for name in names:
            self._gets_decided(name, until)
            self.deactivate(name)
        return until

    def lets_go(self) -> None:
        """Lets waiting tasks go on."""
        (self.told / "go").touch()

    def began(self) -> Counter[tuple[str, int]]:
        """How often a task began, by run and attempt."""
        return self._told("began")

    def finished(self) -> Counter[tuple[str, int]]:
        """How often a waiting task came to its end, by run and attempt."""
        return self._told("ended")

    def close(self) -> None:
        """Ends every controller that is left, and every task."""
        for controller in self.controllers:
            if controller.process.poll() is None:
                controller.kill()
        self.lets_go()
        for folder in self.work.glob("*-*"):
            if child := child_process.adopt(folder):
                child.forget()
        self.database.close()

    def _gets_decided(self, name: str, until: datetime) -> None:
        eventually(lambda: self.status(name).watermark >= until)
        eventually(lambda: not self.backlogs(name))

    def _ends(self, name: str) -> None:
        eventually(lambda: not self._live(name))

    def _live(self, name: str) -> str | None:
        with self.database.read() as connection:
            return runs.newest_live_id(connection, self._id(name))

    def _told(self, name: str) -> Counter[tuple[str, int]]:
        path = self.told / name
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter((run_id, int(attempt)) for run_id, attempt in map(str.split, lines))

    def _revision(self, name: str) -> int:
        with self.database.read() as connection:
            trigger = triggers.get(connection, key(name))
        assert trigger is not None
        return trigger.revision

    def _id(self, name: str) -> str:
        with self.database.read() as connection:
            trigger = triggers.get(connection, key(name))
        assert trigger is not None
        return trigger.trigger_id


def _parsed(line: str) -> dict[str, Any]:
    with suppress(ValueError):
        parsed = json.loads(line)
        if isinstance(parsed, dict):
            return parsed
    return {"event": line}
