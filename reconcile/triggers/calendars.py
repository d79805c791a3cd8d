"""Deploy and delete calendars; every trigger that names a changed calendar is planned anew (S-13)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reconcile.decide import preconditions
from reconcile.decide.authority import Caller
from reconcile.decide.changes import has_occurrences
from reconcile.decide.preconditions import Expected
from reconcile.decide.terms import Terms
from reconcile.observations.observation import Observations
from reconcile.observations.specs import CalendarRevised
from reconcile.schedule import ranges
from reconcile.schedule.fires import fires
from reconcile.schedule.ranges import MOMENT
from reconcile.triggers import trigger_calendars
from reconcile.triggers.append import skip_of
from revisions.errors import Conflict, NotFound, PreconditionFailed
from revisions.history import chain
from revisions.history.triggers import Trigger
from revisions.ids import CalendarKey
from revisions.spec.manifest import CalendarManifest
from revisions.spec.stored import readable_trigger
from revisions.store import backlogs as backlog_store
from revisions.store import calendars as store
from revisions.store import notices, occurrences
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.calendars import CalendarRow
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.status import StatusRow

_MOST_NAMED = 20
"""Triggers that a refusal names at most."""


@dataclass(frozen=True, slots=True)
class CalendarChanged:
    """The calendar after a request; `changed` is False when it was so already and nothing was appended."""

    calendar: CalendarRow
    changed: bool
    created: bool = False


def deploy_calendar(
    database: Database, observations: Observations, manifest: CalendarManifest, expected: Expected, caller: Caller
) -> CalendarChanged:
    """Create or update a calendar under the optimistic lock that triggers have (R-04).

    Raises PreconditionFailed and PreconditionRequired.
    """
    key, spec = manifest.key, chain.canonical(manifest.written)
    with database.write() as connection:
        newest = store.get(connection, key)
        current = newest if newest and not newest.deleted else None
        preconditions.check_deploy(key, current, expected)
        if current and current.spec == spec:
            return CalendarChanged(current, changed=False)
        revised = _append_calendar(database, connection, key, newest, caller, spec, deleted=False)
    observations.emit(CalendarRevised(key, revised.revision))
    return CalendarChanged(revised, changed=True, created=current is None)


def delete_calendar(
    database: Database, observations: Observations, key: CalendarKey, expected: Expected, caller: Caller
) -> CalendarChanged:
    """Delete a calendar softly: its history stays.

    Raises NotFound, PreconditionFailed, PreconditionRequired, and Conflict while a trigger names the calendar.
    """
    with database.write() as connection:
        current = store.get(connection, key)
        if current is None or current.deleted:
            hint = "`triggerctl calendar list` shows what there is"
            raise NotFound.hinted("calendar", f"there is no calendar {key}", hint)
        preconditions.check_expected(current, expected)
        if users := [trigger.key for trigger in _users(connection, key) if not trigger.deleted]:
            named = ", ".join(sorted(map(str, users))[:_MOST_NAMED])
            hint = "deploy those triggers without it first"
            raise Conflict.hinted("calendar", f"{key} is named by {named}, so it was not deleted", hint)
        revised = _append_calendar(database, connection, key, current, caller, current.spec, deleted=True)
    observations.emit(CalendarRevised(key, revised.revision))
    return CalendarChanged(revised, changed=True)


def _append_calendar(
    database: Database,
    connection: Connection,
    key: CalendarKey,
    newest: CalendarRow | None,
    caller: Caller,
    spec: str,
    *,
    deleted: bool,
) -> CalendarRow:
    """Append a revision of a calendar and have the triggers that name it planned anew.

    The new days hold for every occurrence that is still undecided. Occurrences that they close are recorded as skips.
    Occurrences that the old days closed do not come back, also where the loop lags behind: the watermark is moved past
    the time in which the old days left nothing to decide.
    """
    triggers = [trigger for trigger in _users(connection, key) if has_occurrences(trigger)]
    old_terms = {trigger.trigger_id: _readable_terms(connection, trigger) for trigger in triggers}
    number = newest.revision + 1 if newest else 1
    revised = CalendarRow(key.project, key.name, number, deleted, caller.actor, database.clock.now(connection), spec)
    if not store.append(connection, revised):
        raise PreconditionFailed.hinted("calendar", f"{key} was changed in the meantime", "read it again")
    rows = status_store.lock(connection, sorted(old_terms))
    # Clock and new days are read after the last lock. A time read before would lie in the past after a wait
    # (invariant 6), and another calendar that a trigger names may have changed in the meantime.
    now = database.clock.now(connection)
    new_terms = {trigger.trigger_id: _readable_terms(connection, trigger) for trigger in triggers}
    _settle_undecided(connection, triggers, rows, old_terms, new_terms, now)
    status_store.recompute_next_fire(connection, [row.trigger_id for row in rows], now)
    for row in rows:
        trigger_store.announce_again(connection, row.trigger_id, row.revision)
    notices.changed(connection)
    return revised


def _settle_undecided(
    connection: Connection,
    triggers: Sequence[Trigger],
    rows: Sequence[StatusRow],
    old_terms: Mapping[str, Terms | None],
    new_terms: Mapping[str, Terms | None],
    now: datetime,
) -> None:
    """Record the occurrences that the new days close, and move watermarks past what the old days closed.

    A trigger stays as it is when its spec cannot be read (L-13), or when its status row, whose lock was waited for,
    stands at another revision: that revision was planned on its own.
    """
    by_id = {trigger.trigger_id: trigger for trigger in triggers}
    skips: list[Skip] = []
    moved = []
    for row in rows:
        trigger, old, new = by_id[row.trigger_id], old_terms[row.trigger_id], new_terms[row.trigger_id]
        watermark = row.watermark
        if old is not None and row.revision == trigger.revision:
            nominal = now - old.delay(str(trigger.key))
            if new is not None:
                skips += _closed_occurrences(connection, row, old, new, nominal, now)
            first = next(iter(fires(old.schedule, row.watermark, nominal, 1)), None)
            watermark = max(row.watermark, first.at - MOMENT if first else nominal)
        moved.append({"trigger_id": row.trigger_id, "watermark": watermark})
    occurrences.record(connection, skips)
    status_store.save(connection, moved)


def _closed_occurrences(
    connection: Connection, row: StatusRow, old: Terms, new: Terms, nominal: datetime, now: datetime
) -> list[Skip]:
    """Return skips for the undecided occurrences of the old schedule that the new one lacks, backlogs included."""
    backlogs = backlog_store.get(connection, [row.trigger_id])
    spans = [
        *((backlog.cursor_at, backlog.until_at) for backlog in backlogs),
        (row.watermark, max(row.watermark, nominal)),
    ]
    closed = ranges.taken(old.schedule, new.schedule, spans)
    return [skip_of(row.trigger_id, row.revision, now, skipped) for skipped in closed]


def _readable_terms(connection: Connection, trigger: Trigger) -> Terms | None:
    """Return the terms under the calendars as they stand; None for a spec that this release cannot read (L-13)."""
    try:
        return trigger_calendars.read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved)
    except ValueError:
        return None


def _users(connection: Connection, key: CalendarKey) -> list[Trigger]:
    """Return the triggers that name a calendar; also deleted ones, whose time may count once they return (R-21)."""
    mentioning = store.mentioning_calendars(connection, key.project)
    return [trigger for trigger in mentioning if key.name in readable_trigger(trigger.spec).schedule.calendars]
