"""What a trigger has made of its limits, read for people who deploy, activate or fire it (X-08)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from reconcile.decide.budget import budget_of
from reconcile.report import spec_warnings
from reconcile.triggers import budgets
from reconcile.triggers.append import Changed
from revisions.history.triggers import StopReason, Trigger
from revisions.spec.stored import readable_trigger
from revisions.spec.trigger import LimitsSpec, TriggerSpec
from revisions.store import status, triggers
from revisions.store.database import Connection, Database


def warnings(connection: Connection, trigger: Trigger | None, spec: TriggerSpec, now: datetime) -> list[str]:
    """What whoever gives a trigger this spec, or has it go on under it, is to know; None is one that is not there yet.

    What is deleted, or was stopped for its successes, has them counted anew once it goes on.
    """
    if spec.limits == LimitsSpec():
        return []
    anew = trigger is not None and (trigger.deleted or trigger.stopped_for == StopReason.MAX_RUNS)
    row = status.get(connection, trigger.trigger_id) if trigger else None
    budget, spending = budget_of(spec), None
    if row and budget:
        spending = budgets.read(connection, {row.trigger_id: budget}, now)[row.trigger_id]
    return list(spec_warnings.limit_warnings(spec, 0 if anew or row is None else row.success_count, spending, now))


def with_warnings(database: Database, changed: Sequence[Changed]) -> list[Changed]:
    """Add to each change the warnings about the limits of its trigger as it stands."""
    with database.read() as connection:
        now = database.clock.now(connection)
        texts = [warnings(connection, change.trigger, readable_trigger(change.trigger.spec), now) for change in changed]
    return [replace(change, warnings=(*change.warnings, *more)) for change, more in zip(changed, texts, strict=True)]


def beyond(database: Database, trigger_id: str) -> list[str]:
    """What whoever has started runs of a trigger by hand is to know."""
    with database.read() as connection:
        trigger, row = triggers.by_id(connection, trigger_id), status.get(connection, trigger_id)
    return (
        list(spec_warnings.manual_run_warnings(readable_trigger(trigger.spec), row.success_count))
        if trigger and row
        else []
    )
