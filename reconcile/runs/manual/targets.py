"""Checks common to all runs started by hand: the locked trigger, its input, rights and freezes (X-11, S-13)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reconcile.decide import authority
from reconcile.decide.authority import Caller
from reconcile.decide.budget import Spending, expected
from reconcile.decide.terms import Terms
from reconcile.runs.claim import new_run
from reconcile.triggers import credentials, spending
from reconcile.triggers.trigger_calendars import read_terms
from revisions.errors import Conflict, Forbidden, Invalid, NotFound
from revisions.history import chain
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import RunSource
from revisions.spec.stored import readable_task, readable_trigger
from revisions.store import holds
from revisions.store import revisions as revision_store
from revisions.store import status as status_store
from revisions.store import trigger_facts as facts_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.runs import NewRun, Run
from revisions.store.status import StatusRow
from revisions.store.trigger_facts import TriggerFacts


@dataclass(frozen=True, slots=True)
class Target:
    """A trigger that exists, with its status, its typed terms and what it spent, all read at `now`.

    `spending` is None for a trigger without a budget.
    """

    trigger: Trigger
    status: StatusRow
    facts: TriggerFacts
    terms: Terms
    spending: Spending | None
    now: datetime

    def refuse_beyond_budget(self, number: int) -> None:
        """Raise Conflict when the budget does not allow `number` more runs (X-08)."""
        if self.terms.budget and self.spending:
            spending.refuse_unaffordable(self.trigger.key, self.terms.budget, self.spending, self.now, number)

    def new_run(
        self,
        occurrence_id: str,
        scheduled_at: datetime,
        *,
        source: RunSource,
        overlap: str,
        caller: Caller,
        input: Mapping[str, Any] | None,
    ) -> NewRun:
        """Build a run that somebody asks for; each name in `input` replaces the trigger's own value of that name.

        A manual run may wait `start_within` for its start. A backfilled run is never too late (X-18).
        """
        return new_run(
            self.facts,
            self.terms,
            self.now,
            occurrence_id=occurrence_id,
            scheduled_at=scheduled_at,
            source=source,
            overlap=overlap,
            actor=caller.actor,
            input=chain.canonical({**self.terms.spec.input, **(input or {})}),
            start_by=self.terms.start_by(self.now) if source == RunSource.MANUAL else None,
            reserved=expected(self.terms.budget, self.spending) if self.terms.budget and self.spending else None,
            traceparent=caller.traceparent,
            cause=caller.cause,
        )


def lock_target(database: Database, connection: Connection, key: TriggerKey) -> Target:
    """Lock the trigger's status row and read the trigger (L-15). Raises NotFound, also for a deleted trigger.

    The status row carries the revision, so its lock keeps deploys and due passes away. The trigger is read a second
    time under the lock, because it may have been renamed, changed or deleted while waiting for it.
    """
    unlocked = _existing(trigger_store.get(connection, key), key)
    status = status_store.lock(connection, [unlocked.trigger_id])[0]
    trigger = _existing(trigger_store.by_id(connection, unlocked.trigger_id), key)
    return _target(database, connection, trigger, status)


def read_target(database: Database, connection: Connection, key: TriggerKey) -> Target:
    """Read the trigger without a lock. Raises NotFound, also for a deleted trigger."""
    trigger = _existing(trigger_store.get(connection, key), key)
    status = status_store.get(connection, trigger.trigger_id)
    assert status is not None
    return _target(database, connection, trigger, status)


def renewed_start_by(connection: Connection, run: Run, now: datetime) -> datetime | None:
    """Return the `start_by` of a run that is retried or approved: `start_within` counts from now again (X-18).

    None when its revision has no `start_within`, and for a backfilled run.
    """
    revision = revision_store.get(connection, run.trigger_id, run.revision)
    if revision is None or run.source == RunSource.BACKFILL:
        return None
    span = readable_trigger(revision.spec).start_within
    return now + span if span else None


def refuse_denied(connection: Connection, trigger: Trigger, now: datetime) -> None:
    """Raise Forbidden when the trigger's author may start nothing any more, whoever asks for the run (X-15)."""
    rights = credentials.rights_of_authors(connection, [trigger.scopes], now)
    scopes = readable_trigger(trigger.spec).scopes
    if reason := authority.refusal(scopes, trigger.scopes, trigger.key.project, rights):
        detail = f"{trigger.key} may start nothing: {reason}"
        raise Forbidden.hinted("scopes", detail, f"see `triggerctl show {trigger.key}`")


def refuse_frozen(connection: Connection, project: str, now: datetime) -> None:
    """Raise Conflict while the project or everything is frozen: a freeze stops manual runs too (S-13)."""
    for freeze in holds.frozen(connection, now):
        if freeze.project in (None, project):
            what = freeze.project or "everything"
            end = f"until {utc_text(freeze.until_at)}" if freeze.until_at else "until somebody lifts it"
            detail = f"{what} is frozen {end} by {freeze.owner}, so nothing is started: {freeze.reason}"
            command = "triggerctl unfreeze" + (f" --project {what}" if freeze.project else "")
            raise Conflict.hinted("freeze", detail, f"wait for its end, or lift it with `{command}`")


def check_input(target: Target, input: Mapping[str, Any] | None) -> None:
    """Raise Invalid for an input that the task does not declare."""
    declared = readable_task(target.facts.task_spec).inputs if target.facts.task_spec else {}
    unknown = sorted(set(input or {}) - set(declared)) if declared else []
    if unknown:
        hint = f"the task declares {', '.join(sorted(declared))}"
        raise Invalid.at(f"input.{unknown[0]}", "is not an input of the task", hint)


def _existing(trigger: Trigger | None, key: TriggerKey) -> Trigger:
    if trigger is None:
        raise NotFound.trigger(key)
    if trigger.deleted:
        raise NotFound.deleted(key, trigger.revision)
    return trigger


def _target(database: Database, connection: Connection, trigger: Trigger, status: StatusRow) -> Target:
    terms = read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved)
    facts = facts_store.read(connection, [trigger.trigger_id])[trigger.trigger_id]
    now = database.clock.now(connection)
    spent = None
    if terms.budget:
        spent = spending.read(connection, {trigger.trigger_id: terms.budget}, now)[trigger.trigger_id]
    return Target(trigger, status, facts, terms, spent, now)
