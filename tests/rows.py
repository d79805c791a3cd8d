"""Rows that tests start with: a task version, a trigger with its first revision and status, and runs."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from reconcile.decide.authority import scopes_of
from revisions.history.chain import canonical
from revisions.history.triggers import Action, Revision, Trigger
from revisions.ids import TaskKey, TriggerKey, fresh
from revisions.store import runs, tasks, triggers
from revisions.store.database import Database
from revisions.store.runs import NewRun
from revisions.store.status import Baseline


@dataclass
class Rows:
    """Insert rows into one database, at the time of its clock."""

    database: Database

    @property
    def now(self) -> datetime:
        with self.database.read() as connection:
            return self.database.clock.now(connection)

    def task(self, name: str = "report", version: str = "v1", **spec: Any) -> TaskKey:
        key = TaskKey("acme", "production", name, version)
        text = canonical({"launcher": "scripted", "scripted": {}} | spec)
        row = tasks.TaskRow(key, text, "", False, self.now, "test", None, 0, 0, None)
        with self.database.write() as connection:
            tasks.register(connection, row)
        return key

    def trigger(
        self, name: str = "morning", task: str = "report", *, author: str | None = None, **spec: Any
    ) -> Trigger:
        """Insert an active trigger at revision 1, whose task version must exist. `author` is the name of a token."""
        scopes = _EVERYTHING if author is None else scopes_of(f"token:{author}")
        text = canonical({"task_version": "v1", "schedule": {"every": "1h"}} | spec)
        key = TriggerKey("acme", "production", task, name)
        return self._deploy(None, fresh(self.now), key, text, scopes)

    def redeploy(self, trigger: Trigger, **spec: Any) -> Trigger:
        text = canonical(json.loads(trigger.spec) | spec)
        return self._deploy(trigger, trigger.trigger_id, trigger.key, text, _EVERYTHING)

    def run(self, trigger: Trigger, occurrence: str | None = None, **values: Any) -> str:
        """Insert a pending run of the trigger's current revision and return its id."""
        new = new_run(trigger, self.now, occurrence, **values)
        with self.database.write() as connection:
            runs.create(connection, [new])
        return new.id

    def _deploy(self, previous: Trigger | None, trigger_id: str, key: TriggerKey, spec: str, scopes: str) -> Trigger:
        now = self.now
        revision = Revision(
            trigger_id=trigger_id,
            key=key,
            revision=1 if previous is None else previous.revision + 1,
            action=Action.DEPLOY,
            actor="test",
            reason="",
            at=now,
            active=True,
            tags=(),
            until=None,
            origin=None,
            idempotency_key=None,
            resolved="{}",
            scopes=scopes,
            spec=spec,
            previous_hash="",
            hash="",
        )
        baseline = Baseline(now, now + timedelta(hours=1)) if previous is None else None
        with self.database.write() as connection:
            return triggers.append(connection, previous, revision, baseline)


def new_run(trigger: Trigger, now: datetime, occurrence: str | None = None, **values: Any) -> NewRun:
    run_id = fresh(now)
    defaults: dict[str, Any] = {
        "id": run_id,
        "trigger_id": trigger.trigger_id,
        "occurrence_id": occurrence or f"manual/{run_id}",
        "revision": trigger.revision,
        "project": trigger.key.project,
        "domain": trigger.key.domain,
        "task": trigger.key.task,
        "task_version": "v1",
        "source": "schedule",
        "overlap": "allow",
        "max_attempts": 3,
        "actor": "system",
        "scheduled_at": now,
        "created_at": now,
        "input": "{}",
    }
    return NewRun(**(defaults | values))


_EVERYTHING = '["*"]'
