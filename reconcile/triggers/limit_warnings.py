"""Warnings about a trigger's limits for people who deploy, activate or fire it (X-08)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from reconcile.decide.budget import budget_of
from reconcile.report import outlook
from reconcile.triggers import spending as budget_spending
from reconcile.triggers.append import Changed
from revisions.history.triggers import StopReason, Trigger
from revisions.spec.stored import readable_trigger
from revisions.spec.trigger import LimitsSpec, TriggerSpec
from revisions.store import status, triggers
from revisions.store.database import Connection, Database


def warnings_for_spec(connection: Connection, trigger: Trigger | None, spec: TriggerSpec, now: datetime) -> list[str]:
    """Warn of limits of `spec` that keep the trigger from starting; None is a trigger that does not exist yet.

    A trigger that is deleted or was stopped by `max_runs` starts to count its successes anew when it goes on, so those
    of the past are left out.
    """
    if spec.limits == LimitsSpec():
        return []
    counts_anew = trigger is not None and (trigger.deleted or trigger.stopped_for == StopReason.MAX_RUNS)
    row = status.get(connection, trigger.trigger_id) if trigger else None
    budget, spending = budget_of(spec), None
    if row and budget:
        spending = budget_spending.read(connection, {row.trigger_id: budget}, now)[row.trigger_id]
    successes = 0 if counts_anew or row is None else row.success_count
    return list(outlook.limit_warnings(spec, successes, spending, now))


def with_warnings(database: Database, changes: Sequence[Changed]) -> list[Changed]:
    """Add to each change the warnings about the limits of its trigger as it stands."""
    with database.read() as connection:
        now = database.clock.now(connection)
        added = [
            warnings_for_spec(connection, change.trigger, readable_trigger(change.trigger.spec), now)
            for change in changes
        ]
    return [replace(change, warnings=(*change.warnings, *more)) for change, more in zip(changes, added, strict=True)]


def warnings_after_manual_start(database: Database, trigger_id: str) -> list[str]:
    """Warn whoever started runs by hand of a limit that these runs go beyond."""
    with database.read() as connection:
        trigger, row = triggers.by_id(connection, trigger_id), status.get(connection, trigger_id)
    if trigger is None or row is None:
        return []
    return list(outlook.manual_run_warnings(readable_trigger(trigger.spec), row.success_count))
