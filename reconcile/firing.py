"""Runs by hand: fire now, with an input, whatever the schedule says (X-11)."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reconcile.calendars import read_terms
from reconcile.observe import Observations
from reconcile.revising import NEW_KEY, Caller
from reconcile.rules.terms import start_by
from revisions import chain, documents, ids
from revisions.errors import Conflict, Invalid, NotFound
from revisions.ids import TriggerKey, utc_text
from revisions.store import holds, notices
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store import tasks as task_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.runs import NewRun, Run
from revisions.triggers import Trigger

OVERLAPS = ("allow", "skip", "queue_all")


class Firing:
    """Makes manual runs; they are not scheduled, so neither rate nor activation holds them back."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def fire(self, key: TriggerKey, input: Mapping[str, Any] | None, caller: Caller, overlap: str | None = None) -> Run:
        """One pending run; with an idempotency key used before, the run it made then.

        `input` stands over the trigger's own, name by name. Raises NotFound (also for a deleted trigger), Invalid for
        an input that the task does not declare, and Conflict under a freeze, and while a run goes on, unless `overlap`
        says otherwise.
        """
        if overlap is not None and overlap not in OVERLAPS:
            raise Invalid.at("overlap", f"{overlap!r} is not known", f"one of {', '.join(OVERLAPS)}")
        documents.check(input or {}, "input")
        with self._database.write() as connection:
            trigger = trigger_store.get(connection, key)
            if trigger is None or trigger.deleted:
                raise NotFound.trigger(key) if trigger is None else NotFound.deleted(key, trigger.revision)
            status = status_store.lock(connection, [trigger.trigger_id])[0]
            trigger = trigger_store.by_id(connection, trigger.trigger_id)  # as it is under the lock (L-15)
            if trigger is None:
                raise NotFound.trigger(key)
            if trigger.deleted:
                raise NotFound.deleted(key, trigger.revision)
            now = self._database.clock.now(connection)
            self._check_input(connection, trigger, input or {})
            read = read_terms(connection, key.project, trigger.spec, trigger.resolved)
            new = NewRun(
                id=ids.fresh(now),
                trigger_id=trigger.trigger_id,
                occurrence_id=f"manual/{caller.idempotency_key or ids.fresh(now)}",
                revision=trigger.revision,
                project=key.project,
                domain=key.domain,
                task=key.task,
                task_version=trigger_store.task_key(trigger).version,
                source="manual",
                overlap=overlap or "allow",
                max_attempts=read.max_attempts,
                actor=caller.actor,
                scheduled_at=now,
                created_at=now,
                input=chain.canonical({**json.loads(read.input), **(input or {})}),
                start_by=start_by(read, now),
            )
            if (first := run_store.firsts(connection, [new])) and (made := run_store.get(connection, first[new.id])):
                return _same_request(made, new, caller)
            self._refuse_frozen(connection, key, now)
            live = run_store.live_of(connection, trigger.trigger_id)
            if live and overlap in (None, "skip"):
                hint = "cancel it, wait for it, or allow the overlap (--overlap allow)"
                raise Conflict.hinted("overlap", f"run {live} of {key} goes on, so nothing was fired", hint)
            run_store.create(connection, [new])
            status_store.fired(connection, status, new.id, now)
            notices.runs_pending(connection)
            made = run_store.get(connection, new.id)
        assert made is not None
        self._observations.emit("run.fired", trigger=str(key), run_id=made.id, actor=caller.actor)
        return made

    def _refuse_frozen(self, connection: Connection, key: TriggerKey, now: datetime) -> None:
        """A freeze stops what people start, too (S-13)."""
        for freeze in holds.frozen(connection, now):
            if freeze.project in (None, key.project):
                what = freeze.project or "everything"
                end = f"until {utc_text(freeze.until_at)}" if freeze.until_at else "until somebody lifts it"
                detail = f"{what} is frozen {end} by {freeze.owner}, so nothing was fired: {freeze.reason}"
                command = "triggerctl unfreeze" + (f" --project {what}" if freeze.project else "")
                raise Conflict.hinted("freeze", detail, f"wait for its end, or lift it with `{command}`")

    def _check_input(self, connection: Connection, trigger: Trigger, input: Mapping[str, Any]) -> None:
        task = task_store.get(connection, trigger_store.task_key(trigger))
        declared = json.loads(task.spec).get("inputs") if task else None
        unknown = sorted(set(input) - set(declared)) if declared else []
        if unknown:
            known = f"the task declares {', '.join(sorted(declared or {}))}"
            raise Invalid.at(f"input.{unknown[0]}", "is not an input of the task", known)


def _same_request(made: Run, new: NewRun, caller: Caller) -> Run:
    if made.input != new.input:
        detail = f"Idempotency-Key {caller.idempotency_key!r} was used for another fire, run {made.id}"
        raise Conflict.hinted("Idempotency-Key", detail, NEW_KEY)
    return made
