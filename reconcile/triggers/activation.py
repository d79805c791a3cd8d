"""Activate, deactivate and delete triggers: one, many, or those that the system itself stops or resumes."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from reconcile.decide import changes, preconditions
from reconcile.decide.authority import Caller
from reconcile.decide.automatic_stops import Stop
from reconcile.decide.changes import NextRevision
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.triggers import append
from reconcile.triggers.append import Changed, append_revision, calendar_days, earlier_change, notify_change
from reconcile.triggers.locks import LockedTrigger, Selection, locked_trigger, locked_triggers
from revisions.errors import Conflict, Fault, Invalid, NotFound, TriggerctlError
from revisions.history.triggers import SYSTEM, Action, Trigger
from revisions.ids import TriggerKey
from revisions.store import triggers as store
from revisions.store.database import Connection, Database
from revisions.store.status import StatusRow


def activate_trigger(
    database: Database,
    observations: Observations,
    key: TriggerKey,
    expected: Expected,
    caller: Caller,
    *,
    resumed_at: datetime | None = None,
) -> Changed:
    """Resume a trigger with a new baseline, so that paused time never fires (R-20, R-21).

    `resumed_at` is when the pause was to end; by default the trigger resumes now. The answer warns of limits that keep
    the trigger from starting, such as a budget that is used up.
    Raises NotFound, PreconditionRequired, PreconditionFailed, and Invalid when no fire is left.
    """
    begun = database.clock.monotonic()
    with locked_trigger(database, key) as locked:
        changed = earlier_change(locked, caller, _request(Action.ACTIVATE, caller))
        if changed is None:
            current = preconditions.check_change(key, locked.trigger, expected)
            following = _activation(locked, current, resumed_at or locked.now, caller)
            changed = append_revision(locked, following, caller, resumed_at=resumed_at, commits=True)
    notify_change(database, observations, changed, caller, begun)
    return append.with_warnings(database, [changed])[0]


def deactivate_trigger(
    database: Database,
    observations: Observations,
    key: TriggerKey,
    expected: Expected,
    caller: Caller,
    *,
    until: datetime | None = None,
) -> Changed:
    """Pause a trigger, for good or until an instant; runs that exist go on.

    Raises NotFound, PreconditionRequired, PreconditionFailed, and Invalid for an `until` that is past.
    """
    begun = database.clock.monotonic()
    with locked_trigger(database, key) as locked:
        changed = earlier_change(locked, caller, _request(Action.DEACTIVATE, caller, until))
        if changed is None:
            current = preconditions.check_change(key, locked.trigger, expected)
            following = changes.deactivate(current, locked.now, reason=caller.reason, until=until)
            changed = append_revision(locked, following, caller, commits=True)
    notify_change(database, observations, changed, caller, begun)
    return changed


def delete_trigger(
    database: Database, observations: Observations, key: TriggerKey, expected: Expected, caller: Caller
) -> Changed:
    """Delete a trigger softly: its history stays. Raises NotFound, PreconditionRequired, PreconditionFailed."""
    begun = database.clock.monotonic()
    with locked_trigger(database, key) as locked:
        changed = earlier_change(locked, caller, _request(Action.DELETE, caller))
        if changed is None:
            current = preconditions.check_change(key, locked.trigger, expected)
            changed = append_revision(locked, changes.delete(current, reason=caller.reason), caller, commits=True)
    notify_change(database, observations, changed, caller, begun)
    return changed


def change_triggers(
    database: Database,
    observations: Observations,
    selection: Selection,
    action: Action,
    caller: Caller,
    *,
    until: datetime | None = None,
    projects: Collection[str] | None = None,
) -> list[Changed]:
    """Activate, deactivate or delete many triggers, all or none (R-16).

    Selected by name, each must stand at the revision given; a tag means the triggers of `projects` (None: all) that
    have it once they are locked. Activating warns of each trigger whose limits keep it from starting.
    Raises Conflict with a fault for each trigger that refuses, and Invalid for an `until` that is past.
    """
    begun = database.clock.monotonic()
    if until is not None:
        with database.read() as connection:
            changes.refuse_past(until, database.clock.now(connection))
    request = _request(action, caller, until)
    changed: list[Changed] = []
    faults: list[Fault] = []
    with locked_triggers(database, selection, projects) as all_locked:
        for locked in all_locked:
            try:
                earlier = earlier_change(locked, caller, request)
                changed.append(earlier or _change_selected(locked, selection, action, caller, until))
            except TriggerctlError as error:
                faults.append(_fault(locked.key, error))
        if faults:
            raise Conflict(f"nothing was changed: {faults[0].path}: {faults[0].message}", errors=faults)
    for change in changed:
        notify_change(database, observations, change, caller, begun)
    return append.with_warnings(database, changed) if action is Action.ACTIVATE else changed


def delete_triggers_of_task(
    connection: Connection,
    triggers: Sequence[Trigger],
    statuses: Mapping[str, StatusRow],
    now: datetime,
    caller: Caller,
) -> None:
    """Delete triggers whose rows are locked, in the transaction that deletes their task version (R-14)."""
    for trigger in triggers:
        locked = LockedTrigger(connection, trigger.key, trigger, statuses[trigger.trigger_id], {}, now)
        append_revision(locked, changes.delete(trigger, reason=caller.reason), caller)


def resume_paused(database: Database, observations: Observations) -> list[Changed]:
    """End the pauses whose time has come, each by an ACTIVATE of the system as of that time (R-20, R-21)."""
    with database.read() as connection:
        paused = store.paused_until(connection, database.clock.now(connection))
    resumed = []
    for trigger in paused:
        caller, expected = Caller(SYSTEM, "pause ended"), Expected(revision=trigger.revision)
        try:
            resumed.append(
                activate_trigger(database, observations, trigger.key, expected, caller, resumed_at=trigger.until)
            )
        except (Conflict, NotFound, Invalid):
            continue  # a person was faster, or there is nothing to resume to; the next pass looks again
    return resumed


def stop_trigger(database: Database, observations: Observations, trigger_id: str, stop: Stop) -> Changed | None:
    """Deactivate a trigger as the system; None when somebody changed it meanwhile."""
    with database.read() as connection:
        trigger = store.by_id(connection, trigger_id)
    if trigger is None or not trigger.active:
        return None
    caller, expected = Caller(SYSTEM, stop.reason), Expected(revision=trigger.revision)
    try:
        return deactivate_trigger(database, observations, trigger.key, expected, caller, until=stop.until)
    except (Conflict, NotFound, Invalid):
        return None


def _request(action: Action, caller: Caller, until: datetime | None = None) -> Mapping[str, object]:
    """Return the fields of the revision that a request determines, by which its retry is recognised (R-04)."""
    return {"action": action, "reason": caller.reason, "until": until}


def _activation(locked: LockedTrigger, current: Trigger, at: datetime, caller: Caller) -> NextRevision | None:
    started = locked.status.started_count if locked.status else 0
    days = calendar_days(locked, current.spec)
    return changes.activate(current, at, reason=caller.reason, started=started, calendars=days)


def _change_selected(
    locked: LockedTrigger, selection: Selection, action: Action, caller: Caller, until: datetime | None
) -> Changed:
    current = preconditions.check_exists(locked.key, locked.trigger)
    if not isinstance(selection, str):
        preconditions.check_revision(current, selection[locked.key])
    match action:
        case Action.ACTIVATE:
            following = _activation(locked, current, locked.now, caller)
        case Action.DEACTIVATE:
            following = changes.deactivate(current, locked.now, reason=caller.reason, until=until)
        case _:
            following = changes.delete(current, reason=caller.reason)
    return append_revision(locked, following, caller)


def _fault(key: TriggerKey, error: TriggerctlError) -> Fault:
    """Return the reason why one of many triggers was not changed; for a conflict, with the author in between (R-04)."""
    by = f", changed by {error.changed_by}" if isinstance(error, Conflict) and error.changed_by else ""
    return Fault(str(key), error.detail + by, "read it again")
