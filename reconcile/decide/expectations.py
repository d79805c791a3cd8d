"""Deadlines by which a trigger is expected to have succeeded, and their evaluation (X-16).

An occurrence is expected if the revision in force named it while active, or while stopped for failures or budget. A
deadline is judged by the revision in force when it falls due: a deploy that keeps `expect` keeps the deadline, one that
changes it applies from then on. Pausing or deleting a trigger cancels its expectations; an automatic stop or a freeze
does not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from reconcile.decide.in_force import RevisionPeriod, named
from reconcile.schedule.definition import Bounded, Cron, Schedule
from reconcile.schedule.ranges import MOMENT
from reconcile.schedule.zones import span_at, zone
from revisions.history.triggers import SYSTEM, StopReason, Trigger
from revisions.outcomes import DeadlineKind
from revisions.spec.stored import readable_trigger

TROUBLE: Final = (StopReason.FAILURES, StopReason.BUDGET)
"""Reasons for an automatic stop after which a success is still expected."""
SUCCESS_BY, WITHIN = "success_by", "within"
DAY: Final = timedelta(days=1)


class Occasion(NamedTuple):
    """Occurrence that is expected to lead to a success."""

    at: datetime
    occurrence_id: str


@dataclass(frozen=True, slots=True)
class Deadline:
    """Instant by which a run scheduled at `since` or later must have succeeded; `occurrence_id` is that of the first
    one.
    """

    at: datetime
    kind: DeadlineKind
    since: datetime
    occurrence_id: str
    revision: int


class Success(NamedTuple):
    """Successful run."""

    scheduled_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Life:
    """Facts about one trigger: its revision periods, times [from, to] without expected occurrences, and the occurrences
    that runs requested, in order of time."""

    periods: Sequence[RevisionPeriod]
    voided: Sequence[tuple[datetime, datetime]] = ()
    asked: Sequence[Occasion] = field(default=())


def is_expected(trigger: Trigger) -> bool:
    """Return true when occurrences of the trigger are expected to succeed: it is active, or stopped for failures or
    budget.
    """
    in_trouble = trigger.changed_by == SYSTEM and trigger.stopped_for in TROUBLE
    return not trigger.deleted and (trigger.active or in_trouble)


def deadlines(life: Life, after: datetime, until: datetime) -> Iterator[Deadline]:
    """Return the deadlines in (after, until], ascending."""
    for period in life.periods:
        low, high = period.within(after, until)
        if low >= high or _is_off(period):
            continue
        if expected := readable_trigger(period.trigger.spec).expect:
            parts = []
            if expected.within is not None:
                parts.append(_within(life, period, low, high, expected.within))
            if expected.success_by is not None:
                parts.append(_by(life, period, low, high, expected.success_by))
            yield from merge(*parts, key=attrgetter("at"))


def is_met(deadline: Deadline, successes: Iterable[Success]) -> bool:
    """Return true when a run succeeded in time; a run caught up after the deadline does not count."""
    return any(one.scheduled_at >= deadline.since and one.finished_at <= deadline.at for one in successes)


def _is_off(period: RevisionPeriod) -> bool:
    """Return true when a person deactivated or deleted the trigger; after an automatic stop a success is still
    expected.
    """
    trigger = period.trigger
    return trigger.deleted or not (trigger.active or trigger.changed_by == SYSTEM)


def _within(life: Life, period: RevisionPeriod, low: datetime, high: datetime, span: timedelta) -> Iterator[Deadline]:
    for one in _expected(life, low - span, high - span):
        yield Deadline(one.at + span, DeadlineKind.WITHIN, *one, period.trigger.revision)


def _by(life: Life, period: RevisionPeriod, low: datetime, high: datetime, by: time) -> Iterator[Deadline]:
    """Return one deadline per day on which an occurrence lies before that time or after it the day before."""
    here = _zone(period.schedule)
    day = low.astimezone(here).date() - DAY
    while (at := _instant(here, day, by)) <= high:
        if at > low:
            begins = (_instant(here, day, time()), _instant(here, day - DAY, by))
            found = (next(_expected(life, begin - MOMENT, at - MOMENT), None) for begin in begins)
            if first := next(filter(None, found), None):
                yield Deadline(at, DeadlineKind.SUCCESS_BY, *first, period.trigger.revision)
        day += DAY


def _expected(life: Life, after: datetime, until: datetime) -> Iterator[Occasion]:
    """Return the expected occurrences in (after, until], ascending."""
    scheduled = (
        Occasion(one.at, one.fire.id) for one in named(life.periods, after, until) if is_expected(one.period.trigger)
    )
    asked = (one for one in life.asked if after < one.at <= until)
    awaited = (one for one in scheduled if not any(begin <= one.at <= end for begin, end in life.voided))
    return merge(awaited, asked)


def _zone(schedule: Schedule) -> ZoneInfo:
    beat = schedule.beat if isinstance(schedule, Bounded) else schedule
    return zone(beat.timezone if isinstance(beat, Cron) else "UTC")


def _instant(here: ZoneInfo, day: date, at: time) -> datetime:
    """Return the first instant at which the clock shows `at`, or the end of the gap that skips it."""
    found = datetime.combine(day, at, here).astimezone(UTC)
    if found.astimezone(here).time() == at:
        return found
    return datetime.fromtimestamp(span_at(here.key, int(found.timestamp())).start, UTC)
