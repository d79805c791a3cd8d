"""When a trigger is expected to have succeeded, and whether it had by then: pure (X-16).

An occurrence is expected that a revision then in force named while it was active, or stopped for its failures or its
budget. A deadline is judged by the revision in force when it comes: a deploy that leaves `expect` alone disarms
nothing, and one that changes it counts from then on. Who pauses or deletes a trigger expects nothing of it; what the
system itself stopped is missed all the same, and so is what a freeze holds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from reconcile.decide.in_force import Era, named
from reconcile.schedule.definition import Bounded, Cron, Schedule
from reconcile.schedule.ranges import MOMENT
from reconcile.schedule.zones import span_at, zone
from revisions.history.triggers import SYSTEM, StopReason, Trigger
from revisions.outcomes import DeadlineKind
from revisions.spec.stored import readable_trigger

TROUBLE: Final = (StopReason.FAILURES, StopReason.BUDGET)
"""Stops after which a success is still wanted; the others end what was wanted."""
SUCCESS_BY, WITHIN = "success_by", "within"
DAY: Final = timedelta(days=1)


class Occasion(NamedTuple):
    """An occurrence that is expected to lead to a success."""

    at: datetime
    occurrence_id: str


@dataclass(frozen=True, slots=True)
class Deadline:
    """That a run scheduled at `since` or later is to have succeeded `at` an instant; `occurrence_id` is the first's."""

    at: datetime
    kind: DeadlineKind
    since: datetime
    occurrence_id: str
    revision: int


class Success(NamedTuple):
    """A run that succeeded."""

    scheduled_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Life:
    """What there is to know of a trigger: its eras, times [from, to] whose occurrences nobody expects, and occurrences
    that runs asked for, in order."""

    eras: Sequence[Era]
    voided: Sequence[tuple[datetime, datetime]] = ()
    asked: Sequence[Occasion] = field(default=())


def is_expected(trigger: Trigger) -> bool:
    """Whether what its schedule names is to succeed: it is active, or it was stopped in trouble."""
    in_trouble = trigger.changed_by == SYSTEM and trigger.stopped_for in TROUBLE
    return not trigger.deleted and (trigger.active or in_trouble)


def deadlines(life: Life, after: datetime, until: datetime) -> Iterator[Deadline]:
    """Those in (after, until], in order."""
    for era in life.eras:
        low, high = era.within(after, until)
        if low >= high or _is_off(era):
            continue
        if expected := readable_trigger(era.trigger.spec).expect:
            parts = []
            if expected.within is not None:
                parts.append(_within(life, era, low, high, expected.within))
            if expected.success_by is not None:
                parts.append(_by(life, era, low, high, expected.success_by))
            yield from merge(*parts, key=attrgetter("at"))


def is_met(deadline: Deadline, successes: Iterable[Success]) -> bool:
    """Whether a run succeeded in time; a late one, caught up after the deadline, came late."""
    return any(one.scheduled_at >= deadline.since and one.finished_at <= deadline.at for one in successes)


def _is_off(era: Era) -> bool:
    """Whether somebody switched it off; what the system stopped, because it failed or is completed, is expected."""
    trigger = era.trigger
    return trigger.deleted or not (trigger.active or trigger.changed_by == SYSTEM)


def _within(life: Life, era: Era, low: datetime, high: datetime, span: timedelta) -> Iterator[Deadline]:
    for one in _expected(life, low - span, high - span):
        yield Deadline(one.at + span, DeadlineKind.WITHIN, *one, era.trigger.revision)


def _by(life: Life, era: Era, low: datetime, high: datetime, by: time) -> Iterator[Deadline]:
    """One for each day on which something is expected before that time, or since that time of the day before."""
    here = _zone(era.schedule)
    day = low.astimezone(here).date() - DAY
    while (at := _instant(here, day, by)) <= high:
        if at > low:
            begins = (_instant(here, day, time()), _instant(here, day - DAY, by))
            found = (next(_expected(life, begin - MOMENT, at - MOMENT), None) for begin in begins)
            if first := next(filter(None, found), None):
                yield Deadline(at, DeadlineKind.SUCCESS_BY, *first, era.trigger.revision)
        day += DAY


def _expected(life: Life, after: datetime, until: datetime) -> Iterator[Occasion]:
    """The occurrences in (after, until] that are to lead to a success, in order."""
    scheduled = (
        Occasion(one.at, one.fire.id) for one in named(life.eras, after, until) if is_expected(one.era.trigger)
    )
    asked = (one for one in life.asked if after < one.at <= until)
    awaited = (one for one in scheduled if not any(begin <= one.at <= end for begin, end in life.voided))
    return merge(awaited, asked)


def _zone(schedule: Schedule) -> ZoneInfo:
    beat = schedule.beat if isinstance(schedule, Bounded) else schedule
    return zone(beat.timezone if isinstance(beat, Cron) else "UTC")


def _instant(here: ZoneInfo, day: date, at: time) -> datetime:
    """When the clock shows a time: first, where it does so twice; where it skips it, when it has."""
    found = datetime.combine(day, at, here).astimezone(UTC)
    if found.astimezone(here).time() == at:
        return found
    return datetime.fromtimestamp(span_at(here.key, int(found.timestamp())).start, UTC)
