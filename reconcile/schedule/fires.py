"""Fires of a schedule between two instants, forwards and backwards (S-01 to S-07, S-10).

croniter only computes the days that a normalised rule matches. `times` counts the times of a day and maps wall times to
instants.
"""

import calendar
import copy
import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import islice
from typing import Final

from croniter import croniter

from reconcile.schedule import cron, times, zones
from reconcile.schedule.definition import Beat, Bounded, Closed, Cron, Every, Once, Schedule, parse
from reconcile.schedule.times import DAY_SECONDS, Course, DayRule, Times, seconds
from reconcile.schedule.zones import TZDATA_VERSION, Span
from revisions.spec.notation import ScheduleError, duration, instant

__all__ = [
    "TZDATA_VERSION",
    "Bounded",
    "Closed",
    "Cron",
    "Every",
    "Fire",
    "LeftOut",
    "Once",
    "Schedule",
    "ScheduleError",
    "count",
    "duration",
    "fires",
    "instant",
    "last",
    "left_out",
    "never_fires",
    "parse",
]

HORIZON_YEARS: Final = 50
_FEW: Final = 2

_HORIZON: Final = HORIZON_YEARS * 366 * DAY_SECONDS
_FLOOR: Final = seconds(datetime(1000, 1, 1, tzinfo=UTC))
_CEILING: Final = seconds(datetime(9900, 1, 1, tzinfo=UTC))
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
SCHEDULED_PREFIXES: Final = ("cron/", "every/", "at/")
"""Prefixes of the ids of scheduled occurrences (S-05). Other ids never were on a schedule."""


@dataclass(frozen=True, slots=True)
class Fire:
    """Nominal fire: its instant in UTC, its public occurrence id (S-05), and its time in the schedule's zone."""

    at: datetime
    id: str
    local: datetime


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Wall time that the schedule names but that does not fire.

    The reason is `gap` (the time does not exist), `fold` (second pass), `exclude`, or the name of a calendar.
    """

    local: str
    reason: str


def fires(schedule: Schedule, after: datetime, until: datetime | None, limit: int) -> list[Fire]:
    """Return the first `limit` nominal fires in (after, until], ascending.

    Without `until` a cron schedule continues while the next fire lies within 50 years of the previous one.
    """
    beat, closed, first, final = _window(schedule, after, until)
    if not isinstance(beat, Cron):
        ahead = (at for part in times.slots(beat, closed, first, final) for at in part)
        return [_elapsed_fire(beat, at) for at in islice(ahead, max(limit, 0))]
    if limit <= _FEW:
        return list(_few_cron_fires(beat, closed, first, final, limit, until is None))
    return _many_cron_fires(beat, closed, first, final, limit, until is None)


@lru_cache(maxsize=16384)
def _few_cron_fires(
    beat: Cron, closed: tuple[int, ...], first: int, final: int, limit: int, endless: bool
) -> tuple[Fire, ...]:
    """Cached, because triggers that are due at the same instant often share a schedule."""
    return tuple(_many_cron_fires(beat, closed, first, final, limit, endless))


def _many_cron_fires(
    beat: Cron, closed: tuple[int, ...], first: int, final: int, limit: int, endless: bool
) -> list[Fire]:
    course = _course(beat, closed)
    if not endless:
        return _cron_fires(course, first, final, limit)
    found: list[Fire] = []
    while more := _cron_fires(course, first, min(first + _HORIZON, final), limit - len(found)):
        found += more
        first = seconds(more[-1].at) + 1
    return found


def last(schedule: Schedule, after: datetime, until: datetime) -> Fire | None:
    """Return the newest nominal fire in (after, until], searching backwards from `until` (L-08)."""
    beat, closed, first, final = _window(schedule, after, until)
    if isinstance(beat, Cron):
        newest = next(_course(beat, closed).descending(first, final), None)
        return None if newest is None else _cron_fire(beat.timezone, *newest)
    newest_part = next((part for part in reversed(times.slots(beat, closed, first, final)) if part), None)
    return _elapsed_fire(beat, newest_part[-1]) if newest_part else None


def count(schedule: Schedule, after: datetime, until: datetime, limit: int) -> int:
    """Return the number of nominal fires in (after, until], at most `limit`; the work grows with days, not fires."""
    beat, closed, first, final = _window(schedule, after, until)
    if limit <= 0:
        return 0
    if isinstance(beat, Cron):
        return min(_course(beat, closed).count(first, final, limit), limit)
    return min(sum(map(len, times.slots(beat, closed, first, final))), limit)


def left_out(schedule: Schedule, after: datetime, until: datetime | None, limit: int) -> list[LeftOut]:
    """Return the first `limit` wall times in (after, until] that a gap, a fold or a closed day suppresses (S-09).

    A time moved by `gap: shift` fires and is not included. Without `until` the search covers 50 years.
    """
    beat, closed, first, final = _window(schedule, after, until)
    final = final if until is not None else min(first + _HORIZON, final)
    shut = times.reasons(schedule.closed) if isinstance(schedule, Bounded) else []
    missing = [_on_closed_days(beat, reason, on, first, final) for reason, on in shut]
    if isinstance(beat, Cron):
        missing.append(_course(beat, closed).left_out(first, final))
    return [LeftOut(_text(wall), reason) for wall, reason in islice(heapq.merge(*missing), max(limit, 0))]


def never_fires(schedule: Schedule, after: datetime) -> bool:
    """Return true when nothing fires within 50 years after `after`; a deploy rejects such a schedule (S-02)."""
    beat, closed, first, final = _window(schedule, after, None)
    final = min(seconds(after) + _HORIZON, final)
    if isinstance(beat, Cron):
        return next(_course(beat, closed).ascending(first, final), None) is None
    return not any(times.slots(beat, closed, first, final))


def _window(schedule: Schedule, after: datetime, until: datetime | None) -> tuple[Beat, tuple[int, ...], int, int]:
    """Return the unbounded schedule, its closed days, and the first and last whole second of (after, until] in its
    bounds.
    """
    final = _CEILING if until is None else min(seconds(until), _CEILING)
    first = max(seconds(after) + 1, _FLOOR)
    if not isinstance(schedule, Bounded):
        return schedule, (), first, final
    if schedule.start:
        first = max(first, seconds(schedule.start))
    if schedule.until:
        final = min(final, seconds(schedule.until))
    return schedule.beat, _closed(schedule.closed), first, final


@lru_cache(maxsize=4096)
def _closed(closed: Closed) -> tuple[int, ...]:
    return times.numbers(closed)


def _text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


def _on_closed_days(beat: Beat, reason: str, on: tuple[int, ...], first: int, final: int) -> Iterator[tuple[int, str]]:
    """Yield (wall time, reason) of the fires in [first, final] that these closed days suppress."""
    match beat:
        case Cron():
            shut = _prepared(beat, times.ClosedDays(_Walks(cron.expression(beat.expression).walks), on))
            yield from ((wall, reason) for _, wall in shut.ascending(first, final))
        case Every():
            for day in on:
                begin = day * DAY_SECONDS
                for at in times.beats(beat, max(first, begin), min(final, begin + DAY_SECONDS - 1)):
                    yield at, reason


def _elapsed_fire(beat: Every | Once, at: int) -> Fire:
    kind = "at" if isinstance(beat, Once) else "every"
    instant = datetime.fromtimestamp(at, UTC)
    return Fire(instant, f"{kind}/{_text(at)}Z", instant)


def _cron_fires(course: Course, first: int, final: int, limit: int) -> list[Fire]:
    beats = course.ascending(first, final)
    return [_cron_fire(course.zone, span, wall) for span, wall in islice(beats, max(limit, 0))]


def _cron_fire(zone: str, span: Span, wall: int) -> Fire:
    """Return the fire at a wall time of a span; `/2` in its id marks the second pass of a repeated time (S-05)."""
    at = wall - span.offset
    local = datetime.fromtimestamp(at, zones.zone(zone))
    again = "/2" if wall < span.fresh else ""
    return Fire(datetime.fromtimestamp(at, UTC), f"cron/{local.isoformat()[:19]}/{zone}{again}", local)


@lru_cache(maxsize=16384)
def _course(beat: Cron, closed: tuple[int, ...]) -> Course:
    """Return the prepared cron schedule without its closed days."""
    walks = _Walks(cron.expression(beat.expression).walks)
    return _prepared(beat, times.OpenDays(walks, closed) if closed else walks)


def _prepared(beat: Cron, rule: DayRule) -> Course:
    """Prepare a cron schedule; an hour field that begins with `*` follows elapsed time (S-03, S-04)."""
    read = cron.expression(beat.expression)
    return Course(
        times=Times(read.minutes, read.seconds, rule),
        zone=beat.timezone,
        repeats=beat.fold == "both" or (beat.fold == "auto" and read.rolling),
        shifts=beat.gap == "shift" and not read.rolling,
    )


@dataclass(frozen=True, slots=True)
class _Walks:
    """Union of the days of several walks (S-01); no walks means every day."""

    walks: tuple[cron.DayWalk, ...]

    @property
    def daily(self) -> bool:
        return not self.walks

    def on_or_after(self, day: int) -> int | None:
        if not self.walks:
            return day
        return min((on for walk in self.walks if (on := _named(walk, day, False)) is not None), default=None)

    def on_or_before(self, day: int) -> int | None:
        if not self.walks:
            return day
        return max((on for walk in self.walks if (on := _named(walk, day, True)) is not None), default=None)


@lru_cache(maxsize=65536)
def _named(walk: cron.DayWalk, day: int, back: bool) -> int | None:
    """Return the nearest day of a walk on or after (`back`: before) `day`; None if there is none within 50 years."""
    on = _walked(walk.expression, day, back)
    while on is not None and abs(on - day) * DAY_SECONDS <= _HORIZON:
        found = date.fromordinal(on + _EPOCH_ORDINAL)
        if calendar.monthrange(found.year, found.month)[1] >= walk.needs:
            return on
        on = _walked(walk.expression, on - 1 if back else on + 1, back)
    return None


def _walked(expression: str, day: int, back: bool) -> int | None:
    walker = copy.copy(_walker(expression))  # a walk moves its croniter, and threads share the cached one
    try:
        if back:
            return int(walker.get_prev(float, start_time=day * DAY_SECONDS + 1)) // DAY_SECONDS
        return int(walker.get_next(float, start_time=day * DAY_SECONDS - 1)) // DAY_SECONDS
    except (ValueError, OverflowError):  # croniter's own "no such date", and the ends of the calendar
        return None


@lru_cache(maxsize=4096)
def _walker(expression: str) -> croniter:
    return croniter(expression, 0.0, max_years_between_matches=HORIZON_YEARS)
