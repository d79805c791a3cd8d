"""Judges the deadlines of `expect` that have come, each once, whichever replica does it (X-16)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from reconcile.decide import in_force
from reconcile.decide.expectations import Deadline, Life, Occasion, Success, deadlines, is_expected, is_met
from reconcile.observations.observation import Observations
from reconcile.observations.passes import DeadlineMissed, ExpectationUnreadable
from reconcile.schedule.ranges import MOMENT
from reconcile.triggers.trigger_calendars import eras_with_calendars
from revisions.errors import TriggerctlError
from revisions.history.triggers import Trigger
from revisions.outcomes import HoldKind, OccurrenceOutcome, SkipReason
from revisions.spec.stored import readable_trigger
from revisions.spec.trigger import LONGEST_DEADLINE
from revisions.store import expectations as store
from revisions.store import holds, occurrences
from revisions.store import revisions as revision_store
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.expectations import DeadlineWatch, MissedDeadline
from revisions.store.status import StatusRow

LIMIT = 500
"""Triggers that one call judges, and deadlines of each; the next call goes on."""
LOOKAHEAD = timedelta(days=366)
"""How far ahead the next deadline is searched for; without one the trigger is looked at again after that time."""
LOOKBACK = LONGEST_DEADLINE + timedelta(days=2)
"""How long before a deadline the occurrences may lie that it is about."""
RETRY_DELAY = timedelta(hours=1)
"""Time until a trigger whose history cannot be read is judged again."""


def judge_deadlines(database: Database, observations: Observations) -> int:
    """Judge the deadlines that have come, and return the number that were missed. Raises Unavailable.

    Costs one indexed query where none has come.
    """
    with database.read() as connection:
        ids = store.due(connection, database.clock.now(connection), LIMIT)
    return sum(_judge_trigger(database, observations, trigger_id) for trigger_id in ids)


def _judge_trigger(database: Database, observations: Observations, trigger_id: str) -> int:
    with database.write() as connection:
        # The status row's lock is that of the due pass: no occurrence is decided while its deadline is judged. Whoever
        # holds it is a pass or another replica at this very trigger, so it is left to the next call.
        rows = status_store.lock(connection, [trigger_id], skip_locked=True)
        now = database.clock.now(connection)
        watch = store.get(connection, trigger_id)
        trigger = trigger_store.by_id(connection, trigger_id)
        if not rows or watch is None or trigger is None or watch.look_at is None or watch.look_at > now:
            return 0
        try:
            missed, moved = _judge(connection, trigger, rows[0], watch, now)
        except (TriggerctlError, ValueError) as error:
            missed, moved = [], replace(watch, look_at=now + RETRY_DELAY)
            observations.emit(ExpectationUnreadable(trigger.key, str(error)))
        store.record(connection, missed)
        store.move(connection, moved)
    for miss in missed:
        observations.emit(
            DeadlineMissed(trigger.key, trigger_id, miss.kind, miss.due_at, miss.scheduled_at, miss.revision)
        )
    return len(missed)


def _judge(
    connection: Connection, trigger: Trigger, row: StatusRow, watch: DeadlineWatch, now: datetime
) -> tuple[list[MissedDeadline], DeadlineWatch]:
    """Return the deadlines missed since the last call, and the watch as it is afterwards."""
    life = _life(connection, trigger, row, watch, now)
    come, until = list(islice(deadlines(life, watch.judged_until, now), LIMIT + 1)), now
    if len(come) > LIMIT:
        # More than one call judges: stop before the instant of the first one beyond the limit, and not between two
        # deadlines of the same instant, because the watch goes on after an instant.
        until = come[-1].at - MOMENT
        come = [deadline for deadline in come if deadline.at <= until]
    missed = [_missed(trigger, deadline, now) for deadline in _unmet(connection, trigger, come)]
    ahead = next(deadlines(life, until, until + LOOKAHEAD), None)
    is_expecting = is_expected(trigger) and readable_trigger(trigger.spec).expect is not None
    rest = until + LOOKAHEAD if is_expecting else None
    return missed, DeadlineWatch(trigger.trigger_id, until, ahead.at if ahead else rest)


def _life(connection: Connection, trigger: Trigger, row: StatusRow, watch: DeadlineWatch, now: datetime) -> Life:
    """Read the part of a trigger's life that its deadlines since the last call are about."""
    since = watch.judged_until - LOOKBACK
    revisions = revision_store.since(connection, trigger.trigger_id, since)
    periods = eras_with_calendars(connection, trigger.key.project, in_force.periods(revisions))
    requested = [Occasion(*made) for made in run_store.asked_within(connection, trigger.trigger_id, since, now)]
    if row.asked_fire_at is not None:
        requested.append(Occasion(row.asked_fire_at, f"next/{row.asked_by_run_id}"))
    voided = list(_voided(connection, trigger, row, since, now, periods[-1].delay))
    return Life(periods, voided, sorted(requested))


def _voided(
    connection: Connection, trigger: Trigger, row: StatusRow, since: datetime, now: datetime, delay: timedelta
) -> Iterator[tuple[datetime, datetime]]:
    """Yield ranges of nominal time, both ends included, whose occurrences nobody expects to start.

    These are blackouts, and times before a fire that a run asked for, which stands in for the schedule's.
    """
    for hold in holds.not_ended(connection, since, HoldKind.BLACKOUT):
        if hold.covers(project=trigger.key.project, trigger_id=trigger.trigger_id, tags=trigger.tags) and hold.until_at:
            yield hold.from_at - delay, hold.until_at - delay - MOMENT
    for skip in occurrences.skips_within(connection, trigger.trigger_id, since, now):
        if (skip.outcome, skip.reason) == (OccurrenceOutcome.SUPERSEDED, SkipReason.NEXT_FIRE_AT):
            yield skip.scheduled_at, skip.scheduled_until
    if row.asked_fire_at is not None:
        yield row.watermark + MOMENT, row.asked_fire_at - MOMENT


def _unmet(connection: Connection, trigger: Trigger, come: Sequence[Deadline]) -> list[Deadline]:
    if not come:
        return []
    since = min(deadline.since for deadline in come)
    successes = [Success(*run) for run in run_store.succeeded_since(connection, trigger.trigger_id, since)]
    return [deadline for deadline in come if not is_met(deadline, successes)]


def _missed(trigger: Trigger, deadline: Deadline, now: datetime) -> MissedDeadline:
    return MissedDeadline(
        trigger.trigger_id,
        deadline.kind,
        deadline.at,
        deadline.since,
        deadline.occurrence_id,
        deadline.revision,
        noticed_at=now,
    )
