"""Real controllers, each a `triggerctl up` process, that share one database and one folder of attempts."""

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

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.launchers.shared import child_process
from reconcile.observations.observation import Observations
from reconcile.queries.audit import audit_faults
from reconcile.report.audit import AuditLine
from reconcile.runs.manual.fire import fire_trigger
from reconcile.triggers.activation import activate_trigger, deactivate_trigger
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
RECORD_START = """
read -r input
attempt=${input##*'"attempt": '}
echo "$TRIGGERCTL_RUN_ID ${attempt%%[!0-9]*}" >>"$RECORDS/began"
"""
WAIT_FOR_RELEASE = """
until [ -e "$RECORDS/go" ]; do sleep 0.05; done
echo '{"answer": 42}' >"$TRIGGERCTL_OUTPUT"
echo "$TRIGGERCTL_RUN_ID ${attempt%%[!0-9]*}" >>"$RECORDS/ended"
"""
"""Scripts for `/bin/sh`: the first appends run and attempt to a file; the second follows it and waits for a release."""


class Controller:
    """Controller process; `log` is the file with its standard error."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log

    def events(self, event: str) -> list[dict[str, Any]]:
        """Return its log lines with this event name."""
        return [line for line in self._lines() if line.get("event") == event]

    def errors(self) -> list[dict[str, Any]]:
        """Return its log lines of level error or critical, and lines that are not JSON."""
        return [line for line in self._lines() if line.get("level") in (None, "error", "critical")]

    def wait_for(self, event: str) -> dict[str, Any]:
        """Wait for its first log line with this event name and return it."""
        return eventually(lambda: self.events(event) or self._fail_if_ended(event))[0]

    @property
    def url(self) -> str:
        """Address of its API, once it has started."""
        url: str = self.wait_for("controller.started")["url"]
        return url

    def kill(self) -> None:
        """Send SIGKILL. Its tasks run in process groups of their own and survive."""
        assert self.process.poll() is None, self.log.read_text()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def freeze(self, seconds: float) -> None:
        """Send SIGSTOP, and SIGCONT `seconds` later, unless it is killed in between."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM and return immediately."""
        self.process.terminate()

    def stop(self) -> int:
        """Send SIGTERM and return the exit code.

        It waits for the start first, because before that Python's default handler would end the process.
        """
        self.wait_for("controller.started")
        self.terminate()
        return self.process.wait(PATIENCE)

    def survives(self, seconds: float) -> bool:
        """Return True if the process is still running after `seconds`."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.poll() is None

    def _fail_if_ended(self, event: str) -> list[dict[str, Any]]:
        assert self.process.poll() is None, f"ended before {event}: {self.log.read_text()}"
        return []

    def _lines(self) -> list[dict[str, Any]]:
        """Return the complete lines of the log; a kill may have cut off the last one."""
        *lines, _ = self.log.read_text().split("\n")
        return [_parsed(line) for line in lines]


class Site:
    """Database and folders that the controllers share, and what a person does to the database meanwhile."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.database_url, self.folder = database_url, folder
        self.records, self.work = folder / "records", folder / "work"
        self.records.mkdir(parents=True)
        self.database = Database(database_url)
        self.observations = Observations()
        self.controllers: list[Controller] = []

    def up(self, *arguments: str, without: str = "", **settings: str) -> Controller:
        """Start a controller. Settings are named as environment variables without the prefix TRIGGERCTL_."""
        log = self.folder / f"controller-{len(self.controllers)}.log"
        variables = {
            "DATABASE_URL": self.database_url,
            "LISTEN": "127.0.0.1:0",
            "LOG_FORMAT": "json",
            "TASK_ROOT": str(self.folder),
            "WORK_DIR": str(self.work),
            **settings,
        }
        parts = ["--without", without] if without else []
        prefixes = {name: "" if name.startswith("OTEL_") else "TRIGGERCTL_" for name in variables}
        environment = {prefixes[name] + name: value for name, value in variables.items()}
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
        """Register a version of task report that runs a script with `/bin/sh`."""
        process = {"command": ["/bin/sh", "-c", script], "env": {"RECORDS": str(self.records)}}
        register_task(
            self.database, self.observations, TaskManifest.read(task_document(version, process=process)), Caller("ann")
        )

    def deploy(self, name: str, **spec: Any) -> None:
        """Create a trigger. Without a schedule in `spec` it never fires by itself."""
        spec = {"schedule": {"at": "2060-01-01T00:00:00Z"}, "overlap": "allow"} | spec
        deploy_trigger(
            self.database,
            self.observations,
            TriggerManifest.read(trigger_document(name, **spec)),
            Expected(absent=True),
            Caller("ann"),
        )

    def redeploy(self, name: str, **spec: Any) -> None:
        """Deploy another revision."""
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

    def audit_faults(self, name: str) -> list[AuditLine]:
        """Return what `audit` reports as missing, doubled or unexplained in the trigger's whole life."""
        return audit_faults(self.database, timedelta(minutes=1), key(name))

    def fire(self, name: str) -> str:
        """Fire one run manually and return its id."""
        return fire_trigger(self.database, self.observations, key(name), None, Caller("ann"), "allow").id

    def run(self, run_id: str) -> Run:
        with self.database.read() as connection:
            run = runs.get(connection, run_id)
        assert run is not None
        return run

    def wait_for_end(self, run_id: str) -> Run:
        """Wait until the run has ended and return it."""
        return eventually(lambda: run if (run := self.run(run_id)).status not in LIVE else None)

    def runs(self, name: str | None = None) -> list[Run]:
        with self.database.read() as connection:
            return runs.page(connection, None, 1_000_000, trigger_id=None if name is None else self._id(name))

    def skips(self, name: str) -> list[Skip]:
        with self.database.read() as connection:
            return occurrences.skips_within(connection, self._id(name), *EVER)

    def history(self, name: str) -> list[Revision]:
        """Return revisions, oldest first."""
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

    def drain(self, *names: str) -> datetime:
        """Stop the schedules as `stop_schedules` does, and wait for the last runs to end.

        Return the instant up to which everything was decided; later occurrences may have been skipped by the
        deactivation.
        """
        until = self.stop_schedules(*names)
        for name in names:
            self._wait_until_idle(name)
        return until

    def stop_schedules(self, *names: str) -> datetime:
        """Wait until everything due by now is decided, deactivate the triggers, and return that instant."""
        until = self.now()
        for name in names:
            self._wait_until_decided(name, until)
            self.deactivate(name)
        return until

    def release_tasks(self) -> None:
        """Let waiting tasks end."""
        (self.records / "go").touch()

    def started_attempts(self) -> Counter[tuple[str, int]]:
        """Return how often a task started, by run and attempt."""
        return self._recorded("began")

    def finished_attempts(self) -> Counter[tuple[str, int]]:
        """Return how often a waiting task ended, by run and attempt."""
        return self._recorded("ended")

    def close(self) -> None:
        """Kill the remaining controllers and tasks."""
        for controller in self.controllers:
            if controller.process.poll() is None:
                controller.kill()
        self.release_tasks()
        for folder in self.work.glob("*-*"):
            if child := child_process.adopt(folder):
                child.forget()
        self.database.close()

    def _wait_until_decided(self, name: str, until: datetime) -> None:
        eventually(lambda: self.status(name).watermark >= until)
        eventually(lambda: not self.backlogs(name))

    def _wait_until_idle(self, name: str) -> None:
        eventually(lambda: not self._live_run_id(name))

    def _live_run_id(self, name: str) -> str | None:
        with self.database.read() as connection:
            return runs.newest_live_id(connection, self._id(name))

    def _recorded(self, name: str) -> Counter[tuple[str, int]]:
        path = self.records / name
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
