"""Backlogs of triggers as operators see them: what is left, when it will be done, and dropping it (L-17)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.decide.admission import Pace
from reconcile.decide.authority import Caller
from reconcile.observations.observation import Observations
from reconcile.observations.specs import BacklogDropped
from reconcile.schedule import ranges
from reconcile.schedule.fires import count
from reconcile.schedule.ranges import DROPPED
from reconcile.triggers.append import skip_of
from reconcile.triggers.trigger_calendars import read_terms
from revisions.errors import Conflict, NotFound
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey
from revisions.outcomes import OccurrenceOutcome
from revisions.store import backlogs as backlog_store
from revisions.store import holds, notices, occurrences
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.backlogs import Backlog
from revisions.store.database import Connection, Database
from revisions.store.holds import Hold
from revisions.store.occurrences import Skip
from revisions.store.status import StatusRow

MOST_COUNTED = 1_000_000
"""Occurrences that are counted in one backlog."""


@dataclass(frozen=True, slots=True)
class BacklogView:
    """Occurrences of one trigger that wait for catch-up (L-17).

    `remaining` is their number, None beyond a million. `others` is the number of other triggers that share the catch-up
    cap. `takes` estimates the time until the last one starts. It is None when nothing is left, and when no estimate is
    possible: while the trigger is inactive, or held by a freeze or a blackout (`held`).
    """

    trigger: TriggerKey
    watermark: datetime
    is_ahead: bool
    backlogs: Sequence[Backlog]
    remaining: int | None
    others: int
    now: datetime
    takes: timedelta | None
    held: Hold | None


def show_backlog(database: Database, pace: Pace, key: TriggerKey) -> BacklogView:
    """Return a trigger's backlog. Raises NotFound, also for a deleted trigger."""
    with database.read() as connection:
        trigger = _existing(connection, key)
        row = status_store.get(connection, trigger.trigger_id)
        assert row is not None
        return _view(connection, pace, trigger, row, database.clock.now(connection))


def drop_backlog(
    database: Database, observations: Observations, pace: Pace, key: TriggerKey, caller: Caller
) -> tuple[BacklogView, Skip | None]:
    """Give a trigger's backlog up, and record it as one skipped range: `missed`, with who dropped it and why.

    The range is None when no occurrence was in the backlog. Raises NotFound, and Conflict when there is no backlog.
    """
    with database.write() as connection:
        trigger = _existing(connection, key)
        row = status_store.lock(connection, [trigger.trigger_id])[0]
        trigger = trigger_store.by_id(connection, trigger.trigger_id) or trigger  # as it is under the lock
        now = database.clock.now(connection)
        backlogs = backlog_store.get(connection, [trigger.trigger_id])
        if not backlogs:
            raise Conflict.hinted("backlog", f"{key} has no backlog", "there is nothing to give up")
        schedule = read_terms(connection, key.project, trigger.spec, trigger.resolved).schedule
        spans = [(backlog.cursor_at, backlog.until_at) for backlog in backlogs]
        reason = f"{DROPPED} by {caller.actor}" + (f": {caller.reason}" if caller.reason else "")
        skipped = ranges.joined(schedule, spans, OccurrenceOutcome.MISSED, reason)
        skip = skip_of(trigger.trigger_id, row.revision, now, skipped) if skipped else None
        occurrences.record(connection, [skip] if skip else [])
        backlog_store.delete_all(connection, trigger.trigger_id)
        notices.changed(connection)
        view = _view(connection, pace, trigger, row, now)
    observations.emit(BacklogDropped(key, caller.actor, skip.count if skip else 0))
    return view, skip


def _existing(connection: Connection, key: TriggerKey) -> Trigger:
    trigger = trigger_store.get(connection, key)
    if trigger is None:
        raise NotFound.trigger(key)
    if trigger.deleted:
        raise NotFound.deleted(key, trigger.revision)
    return trigger


def _view(connection: Connection, pace: Pace, trigger: Trigger, row: StatusRow, now: datetime) -> BacklogView:
    backlogs = backlog_store.get(connection, [trigger.trigger_id])
    hold = holds.hold_of(holds.not_ended(connection, now), trigger, now)
    number, sharing = 0, backlog_store.count_triggers(connection)
    if backlogs:
        schedule = read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved).schedule
        number = sum(count(schedule, backlog.cursor_at, backlog.until_at, MOST_COUNTED + 1) for backlog in backlogs)
    is_served = bool(backlogs) and trigger.active and not hold
    remaining = number if number <= MOST_COUNTED else None
    return BacklogView(
        trigger=trigger.key,
        watermark=row.watermark,
        is_ahead=row.watermark > now,
        backlogs=backlogs,
        remaining=remaining,
        others=max(0, sharing - bool(backlogs)),
        now=now,
        takes=_estimate(pace, remaining, sharing) if is_served else None,
        held=hold,
    )


def _estimate(pace: Pace, remaining: int | None, sharing: int) -> timedelta | None:
    """Return the time to start `remaining` runs when `sharing` triggers share the catch-up cap evenly.

    The execution rate applies when it is lower than the cap.
    """
    per_second = pace.max_catchup_runs_per_loop / pace.resync_interval.total_seconds()
    if pace.execution_qps:
        per_second = min(per_second, pace.execution_qps)
    if remaining is None or per_second == 0:
        return None
    return timedelta(seconds=remaining * max(1, sharing) / per_second)
