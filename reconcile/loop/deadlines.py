"""Judges the deadlines that have come, each once, whichever replica looks (X-16)."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from reconcile.decide import in_force
from reconcile.decide.expectations import Deadline, Life, Occasion, Success, deadlines, is_expected, is_met
from reconcile.observations.observation import Observations
from reconcile.observations.passes import DeadlineMissed, ExpectationUnreadable
from reconcile.schedule.ranges import MOMENT
from reconcile.triggers.closed_days import lived
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

AT_ONCE = 500
"""Triggers that one look takes on, and deadlines of each; the next look goes on."""
HORIZON = timedelta(days=366)
"""How far ahead the next deadline is looked for; what expects something is looked at again then at the latest."""
BEFORE = LONGEST_DEADLINE + timedelta(days=2)
"""How far back the occurrences lie that a deadline may be about."""
LATER = timedelta(hours=1)
"""Until a trigger whose past cannot be read is looked at again."""


class Expecting:
    """Looks when the loop says so; `look` costs nothing where no deadline has come."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def look(self) -> int:
        """Judges what has come, and answers how many deadlines were missed. Raises Unavailable."""
        with self._database.read() as connection:
            ids = store.due(connection, self._database.clock.now(connection), AT_ONCE)
        return sum(self._judge(trigger_id) for trigger_id in ids)

    def _judge(self, trigger_id: str) -> int:
        with self._database.write() as connection:
            rows = status_store.lock(connection, [trigger_id], skip_locked=True)
            now = self._database.clock.now(connection)
            watch = store.get(connection, trigger_id)
            trigger = trigger_store.by_id(connection, trigger_id)
            if not rows or watch is None or trigger is None or watch.look_at is None or watch.look_at > now:
                return 0  # somebody else is at it, or was
            try:
                missed, moved = _judged(connection, trigger, rows[0], watch, now)
            except (TriggerctlError, ValueError) as error:
                missed, moved = [], replace(watch, look_at=now + LATER)
                self._observations.emit(ExpectationUnreadable(trigger.key, str(error)))
            store.record(connection, missed)
            store.move(connection, moved)
        for one in missed:
            self._observations.emit(
                DeadlineMissed(trigger.key, trigger_id, one.kind, one.due_at, one.scheduled_at, one.revision)
            )
        return len(missed)


def _judged(
    connection: Connection, trigger: Trigger, row: StatusRow, watch: DeadlineWatch, now: datetime
) -> tuple[list[MissedDeadline], DeadlineWatch]:
    """The deadlines since the last look that were missed, and where the next look begins."""
    life = _life(connection, trigger, row, watch, now)
    found, until = list(islice(deadlines(life, watch.judged_until, now), AT_ONCE + 1)), now
    if len(found) > AT_ONCE:
        until = found[-1].at - MOMENT
        found = [one for one in found if one.at <= until]
    missed = [_missed(trigger, one, now) for one in _unmet(connection, trigger, found)]
    ahead = next(deadlines(life, until, until + HORIZON), None)
    is_expecting = is_expected(trigger) and readable_trigger(trigger.spec).expect is not None
    rest = until + HORIZON if is_expecting else None
    return missed, DeadlineWatch(trigger.trigger_id, until, ahead.at if ahead else rest)


def _life(connection: Connection, trigger: Trigger, row: StatusRow, watch: DeadlineWatch, now: datetime) -> Life:
    since = watch.judged_until - BEFORE
    revisions = revision_store.since(connection, trigger.trigger_id, since)
    lived_through = lived(connection, trigger.key.project, in_force.eras(revisions))
    made = run_store.asked_within(connection, trigger.trigger_id, since, now)
    asked = [Occasion(*one) for one in made]
    if row.asked_fire_at is not None:
        asked.append(Occasion(row.asked_fire_at, f"next/{row.asked_by_run_id}"))
    delay = lived_through[-1].delay
    return Life(lived_through, list(_voided(connection, trigger, row, since, now, delay)), sorted(asked))


def _voided(
    connection: Connection, trigger: Trigger, row: StatusRow, since: datetime, now: datetime, delay: timedelta
) -> Iterator[tuple[datetime, datetime]]:
    """What a blackout keeps from starting, and what a run's own next fire takes the place of."""
    for hold in holds.not_ended(connection, since, HoldKind.BLACKOUT):
        if hold.covers(project=trigger.key.project, trigger_id=trigger.trigger_id, tags=trigger.tags) and hold.until_at:
            yield hold.from_at - delay, hold.until_at - delay - MOMENT
    for skip in occurrences.skips_within(connection, trigger.trigger_id, since, now):
        if (skip.outcome, skip.reason) == (OccurrenceOutcome.SUPERSEDED, SkipReason.NEXT_FIRE_AT):
            yield skip.scheduled_at, skip.scheduled_until
    if row.asked_fire_at is not None:
        yield row.watermark + MOMENT, row.asked_fire_at - MOMENT


def _unmet(connection: Connection, trigger: Trigger, found: list[Deadline]) -> list[Deadline]:
    if not found:
        return []
    since = min(one.since for one in found)
    successes = [Success(*one) for one in run_store.succeeded_since(connection, trigger.trigger_id, since)]
    return [one for one in found if not is_met(one, successes)]


def _missed(trigger: Trigger, one: Deadline, now: datetime) -> MissedDeadline:
    return MissedDeadline(
        trigger.trigger_id, one.kind, one.at, one.since, one.occurrence_id, one.revision, noticed_at=now
    )
