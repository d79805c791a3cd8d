"""Append one revision, the single way in which a trigger changes (invariant 1), and warn of its limits (X-08)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reconcile.decide import changes
from reconcile.decide.authority import Caller
from reconcile.decide.budget import budget_of
from reconcile.decide.changes import NextRevision
from reconcile.observations.observation import Observations
from reconcile.observations.specs import TriggerChanged
from reconcile.report import outlook
from reconcile.schedule.definition import Closed
from reconcile.schedule.ranges import Range
from reconcile.triggers import spending, trigger_calendars
from reconcile.triggers.locks import LockedTrigger
from revisions import ids
from revisions.errors import Conflict, Fault
from revisions.history import chain
from revisions.history.triggers import SYSTEM, Action, Revision, StopReason, Trigger, apply
from revisions.spec.stored import readable_trigger
from revisions.spec.trigger import LimitsSpec, TriggerSpec
from revisions.store import backlogs as backlog_store
from revisions.store import revisions as revision_store
from revisions.store import status, triggers
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.status import Baseline

NEW_KEY = "send another key with another request"
"""Hint for an idempotency key that was used for another request."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The trigger after a request.

    `changed` is False when there was nothing to change and no revision was appended (R-06, R-08). `before` is the
    revision before the change, None for a trigger that did not exist. `warnings` are shown to the caller.
    """

    trigger: Trigger
    changed: bool
    created: bool = False
    before: int | None = None
    warnings: tuple[str, ...] = ()


def append_revision(
    locked: LockedTrigger,
    following: NextRevision | None,
    caller: Caller,
    *,
    resumed_at: datetime | None = None,
    commits: bool = False,
) -> Changed:
    """Append a revision in the transaction that holds the locks; None for `following` appends nothing.

    `resumed_at` is the instant at which a pause was to end. `commits` commits the transaction in the same round trip
    as the revision, so that no statement may follow in it.
    Raises AlreadyThere when the name was created under another task version since it was looked for.
    """
    current = locked.trigger
    if following is None:
        assert current is not None
        return Changed(current, changed=False, before=current.revision)
    trigger = triggers.append(
        locked.connection,
        current,
        _revision(locked, following, caller),
        _baseline(locked, following, resumed_at),
        commits=commits,
        traceparent=caller.traceparent,
        over_budget_until=_over_budget_until(locked, following, caller),
    )
    created = current is None or current.deleted
    return Changed(trigger, changed=True, created=created, before=current.revision if current else None)


def earlier_change(locked: LockedTrigger, caller: Caller, request: Mapping[str, object]) -> Changed | None:
    """Return the change that an earlier request with the same idempotency key made, None without one (R-04).

    `request` holds the fields of the revision that the request determines. Raises Conflict when the revision made
    under this key differs in one of them: the key was used for another request.
    """
    key, current = caller.idempotency_key, locked.trigger
    if key is None or current is None:
        return None
    made = revision_store.by_idempotency_key(locked.connection, current.trigger_id, key)
    if made is None:
        return None
    if not request or any(getattr(made, field) != value for field, value in request.items()):
        detail = f"Idempotency-Key {key!r} was used for another request, revision {made.revision}"
        raise Conflict(
            detail,
            errors=[Fault("Idempotency-Key", detail, NEW_KEY)],
            current_revision=current.revision,
            changed_by=current.changed_by,
            changed_at=current.changed_at,
        )
    before = revision_store.get(locked.connection, made.trigger_id, made.revision - 1)
    created = before is None or before.action is Action.DELETE
    return Changed(apply(None, made), changed=True, created=created, before=before.revision if before else None)


def notify_change(
    database: Database, observations: Observations, changed: Changed, caller: Caller, begun: float
) -> None:
    """Emit the observation of a committed change; `begun` is the monotonic time at which the request began."""
    if not changed.changed:
        return
    seconds = database.clock.monotonic() - begun
    observations.emit(TriggerChanged(changed.trigger, caller.traceparent, seconds))


def warnings_for_spec(connection: Connection, trigger: Trigger | None, spec: TriggerSpec, now: datetime) -> list[str]:
    """Warn of limits of `spec` that keep the trigger from starting; None is a trigger that does not exist yet.

    A trigger that is deleted or was stopped by `max_runs` starts to count its successes anew when it goes on, so those
    of the past are left out.
    """
    if spec.limits == LimitsSpec():
        return []
    counts_anew = trigger is not None and (trigger.deleted or trigger.stopped_for == StopReason.MAX_RUNS)
    row = status.get(connection, trigger.trigger_id) if trigger else None
    budget, spent = budget_of(spec), None
    if row and budget:
        spent = spending.read(connection, {row.trigger_id: budget}, now)[row.trigger_id]
    successes = 0 if counts_anew or row is None else row.success_count
    return list(outlook.limit_warnings(spec, successes, spent, now))


def with_warnings(database: Database, changed: Sequence[Changed]) -> list[Changed]:
    """Add to each change the warnings about the limits of its trigger as it stands."""
    with database.read() as connection:
        now = database.clock.now(connection)
        added = [
            warnings_for_spec(connection, change.trigger, readable_trigger(change.trigger.spec), now)
            for change in changed
        ]
    return [replace(change, warnings=(*change.warnings, *more)) for change, more in zip(changed, added, strict=True)]


def warnings_after_manual_start(database: Database, trigger_id: str) -> list[str]:
    """Warn whoever started runs by hand of a limit that these runs go beyond."""
    with database.read() as connection:
        trigger, row = triggers.by_id(connection, trigger_id), status.get(connection, trigger_id)
    if trigger is None or row is None:
        return []
    return list(outlook.manual_run_warnings(readable_trigger(trigger.spec), row.success_count))


def calendar_days(locked: LockedTrigger, spec: str) -> Closed:
    """Return the closed days of the calendars that a spec names (S-13)."""
    calendars = readable_trigger(spec).schedule.calendars
    return trigger_calendars.closed_days_of(locked.connection, locked.key.project, calendars)


def skip_of(trigger_id: str, revision: int, decided_at: datetime, skipped: Range) -> Skip:
    """Return the ledger row of a range of occurrences that became no run."""
    return Skip(
        trigger_id=trigger_id,
        occurrence_id=skipped.first.id,
        scheduled_at=skipped.first.at,
        scheduled_until=skipped.until,
        decided_at=decided_at,
        outcome=skipped.outcome,
        reason=skipped.reason,
        revision=revision,
        count=skipped.count,
    )


def _revision(locked: LockedTrigger, following: NextRevision, caller: Caller) -> Revision:
    current = locked.trigger
    revision = Revision(
        trigger_id=current.trigger_id if current else ids.fresh(locked.now),
        key=following.key or locked.key,
        revision=current.revision + 1 if current else 1,
        action=following.action,
        actor=caller.actor,
        reason=following.reason,
        at=locked.now,
        active=following.active,
        tags=following.tags,
        until=following.until,
        origin=following.origin,
        idempotency_key=caller.idempotency_key,
        resolved=following.resolved,
        scopes=following.scopes,
        spec=following.spec,
        previous_hash=current.hash if current else chain.ORIGIN,
        hash="",
    )
    return replace(revision, hash=chain.link(revision))


def _baseline(locked: LockedTrigger, following: NextRevision, resumed_at: datetime | None) -> Baseline | None:
    """Return watermark and next fire as this revision sets them; None when both stay as they are (R-21)."""
    current, status = locked.trigger, locked.status
    if status is not None and changes.keeps_watermark(current, following):
        if current is not None and following.active == current.active and not changes.moves_end(current, following):
            return None
        next_fire_at = changes.next_fire(locked.key, following, status.watermark, calendar_days(locked, following.spec))
        return Baseline(status.watermark, next_fire_at, goes_on=True)
    counts = current is not None and changes.has_occurrences(current)
    backlogs = backlog_store.get(locked.connection, [current.trigger_id]) if current and counts else []
    baseline = changes.new_baseline(
        locked.key,
        current,
        following,
        locked.now,
        watermark=status.watermark if status else None,
        backlogs=[(backlog.cursor_at, backlog.until_at) for backlog in backlogs],
        resumed_at=resumed_at,
        calendars=(calendar_days(locked, current.spec) if current else (), calendar_days(locked, following.spec)),
    )
    superseded = baseline.superseded
    skip = skip_of(current.trigger_id, current.revision, locked.now, superseded) if current and superseded else None
    return Baseline(baseline.watermark, baseline.next_fire_at, skip)


def _over_budget_until(locked: LockedTrigger, following: NextRevision, caller: Caller) -> datetime | None:
    """Return until when waiting runs are held back because the budget, under the new limits, is used up (X-08)."""
    if caller.actor == SYSTEM and following.reason == StopReason.BUDGET:
        return following.until
    current = locked.trigger
    if current is None or locked.status is None:
        return None
    if locked.status.over_budget_until is None and not changes.moves_budget(current, following):
        return None
    return spending.used_up_until(locked.connection, current.trigger_id, following.spec, locked.now)
