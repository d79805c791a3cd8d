"""Backlogs as operators see them, how much is left and when it ends; and giving the rest up (L-17)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile.decide.admission import Pace
from reconcile.observations.observation import Observations
from reconcile.observations.specs import BacklogDropped
from reconcile.schedule import ranges
from reconcile.schedule.fires import count
from reconcile.schedule.ranges import DROPPED
from reconcile.triggers.append import skip_of
from reconcile.triggers.caller import Caller
from reconcile.triggers.closed_days import read_terms
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


@dataclass(frozen=True, slots=True)
class BacklogView:
    """What of a trigger waits to be caught up (L-17).

    `remaining` is how many occurrences are left, None beyond a million; `others` how many triggers share the cap;
    `takes` estimates how long it is until the last is started, None when there is nothing or nothing can be said: while
    the trigger is inactive, or `held` by a freeze or a blackout.
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


class Backlogs:
    """Shows one trigger's backlog, or gives it up; that is recorded in the ledger."""

    def __init__(self, database: Database, observations: Observations, pace: Pace) -> None:
        self._database = database
        self._observations = observations
        self._pace = pace

    def show(self, key: TriggerKey) -> BacklogView:
        """What is left to catch up, and until when about. Raises NotFound."""
        with self._database.read() as connection:
            trigger, row = _existing(connection, key)
            return self._standing(connection, trigger, row, self._database.clock.now(connection))

    def drop(self, key: TriggerKey, caller: Caller) -> tuple[BacklogView, Skip | None]:
        """Gives up what is left: one skipped range, `missed`, whose reason says who dropped it and why.

        The range is None where no occurrence was in it. Raises NotFound, and Conflict when nothing is left.
        """
        with self._database.write() as connection:
            trigger, row = _existing(connection, key, lock=True)
            now = self._database.clock.now(connection)
            held = backlog_store.get(connection, [trigger.trigger_id])
            if not held:
                raise Conflict.hinted("backlog", f"{key} has no backlog", "there is nothing to give up")
            schedule = read_terms(connection, key.project, trigger.spec, trigger.resolved).schedule
            spans = [(backlog.cursor_at, backlog.until_at) for backlog in held]
            reason = f"{DROPPED} by {caller.actor}" + (f": {caller.reason}" if caller.reason else "")
            left = ranges.joined(schedule, spans, OccurrenceOutcome.MISSED, reason)
            dropped = skip_of(trigger.trigger_id, row.revision, now, left) if left else None
            occurrences.record(connection, [dropped] if dropped else [])
            backlog_store.delete_all(connection, trigger.trigger_id)
            notices.changed(connection)
            standing = self._standing(connection, trigger, row, now)
        self._observations.emit(BacklogDropped(key, caller.actor, dropped.count if dropped else 0))
        return standing, dropped

    def _standing(self, connection: Connection, trigger: Trigger, row: StatusRow, now: datetime) -> BacklogView:
        backlogs = backlog_store.get(connection, [trigger.trigger_id])
        held = holds.hold_of(holds.not_ended(connection, now), trigger, now)
        number, others = 0, backlog_store.count_triggers(connection)
        if backlogs:
            schedule = read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved).schedule
            number = sum(count(schedule, one.cursor_at, one.until_at, MOST_COUNTED + 1) for one in backlogs)
        is_served = bool(backlogs) and trigger.active and not held
        remaining = number if number <= MOST_COUNTED else None
        return BacklogView(
            trigger=trigger.key,
            watermark=row.watermark,
            is_ahead=row.watermark > now,
            backlogs=backlogs,
            remaining=remaining,
            others=max(0, others - bool(backlogs)),
            now=now,
            takes=self._takes(remaining, others) if is_served else None,
            held=held,
        )

    def _takes(self, remaining: int | None, sharing: int) -> timedelta | None:
        """The cap is shared evenly; the rate may be the narrower of the two."""
        per_second = self._pace.max_catchup_runs_per_loop / self._pace.resync_interval.total_seconds()
        if self._pace.execution_qps:
            per_second = min(per_second, self._pace.execution_qps)
        if remaining is None or per_second == 0:
            return None
        return timedelta(seconds=remaining * max(1, sharing) / per_second)


def _existing(connection: Connection, key: TriggerKey, *, lock: bool = False) -> tuple[Trigger, StatusRow]:
    trigger = trigger_store.get(connection, key)
    if trigger is None:
        raise NotFound.trigger(key)
    if trigger.deleted:
        raise NotFound.deleted(key, trigger.revision)
    if lock:
        rows = status_store.lock(connection, [trigger.trigger_id])
        trigger = trigger_store.by_id(connection, trigger.trigger_id) or trigger
        return trigger, rows[0]
    row = status_store.get(connection, trigger.trigger_id)
    assert row is not None
    return trigger, row
