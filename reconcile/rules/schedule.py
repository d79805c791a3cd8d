"""When a schedule fires: pure functions of a schedule and two instants, forwards and backwards (S-01 to S-06, S-10).

croniter answers one question only: which days a normalised rule names. It never sees a zone or a time of day;
`walltime` counts the times of a day and maps wall times to instants.
"""

import calendar
import copy
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import islice
from typing import Final

from croniter import croniter

from reconcile.rules import cron, zones
from reconcile.rules.block import EPOCH, SECOND, Cron, Every, Once, Schedule, parse
from reconcile.rules.notation import ScheduleError, duration, instant
from reconcile.rules.walltime import DAY_SECONDS, Course, Times
from reconcile.rules.zones import TZDATA_VERSION, Span

__all__ = [
    "TZDATA_VERSION",
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

_HORIZON: Final = HORIZON_YEARS * 366 * DAY_SECONDS
_FLOOR: Final = (datetime(1000, 1, 1, tzinfo=UTC) - EPOCH) // SECOND
_CEILING: Final = (datetime(9900, 1, 1, tzinfo=UTC) - EPOCH) // SECOND
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Fire:
    """One nominal fire: its instant in UTC, its public occurrence id (S-05), and its time in the schedule's zone."""

    at: datetime
    id: str
    local: datetime


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A wall time that the schedule names and that does not fire: `gap` (never existed) or `fold` (second pass)."""

    local: str
    reason: str


def fires(schedule: Schedule, after: datetime, until: datetime | None, limit: int) -> list[Fire]:
    """The first `limit` nominal fires in (after, until], ascending.

    Without `until` a cron schedule goes on for as long as the next fire lies within 50 years of the one before.
    """
    first, final = _window(after, until)
    if not isinstance(schedule, Cron):
        return [_elapsed_fire(schedule, at) for at in _slots(schedule, first, final)[: max(limit, 0)]]
    if until is not None:
        return _cron_fires(schedule, first, final, limit)
    found: list[Fire] = []
    while more := _cron_fires(schedule, first, min(first + _HORIZON, final), limit - len(found)):
        found += more
        first = _seconds(more[-1].at) + 1
    return found


def last(schedule: Schedule, after: datetime, until: datetime) -> Fire | None:
    """The newest nominal fire in (after, until]; walks backwards from `until`, whatever lies before (L-08)."""
    first, final = _window(after, until)
    if isinstance(schedule, Cron):
        newest = next(_course(schedule).descending(first, final), None)
        return None if newest is None else _cron_fire(schedule.timezone, *newest)
    slots = _slots(schedule, first, final)
    return _elapsed_fire(schedule, slots[-1]) if slots else None


def count(schedule: Schedule, after: datetime, until: datetime, limit: int) -> int:
    """How many nominal fires lie in (after, until], at most `limit`; the work grows with days, not with fires."""
    first, final = _window(after, until)
    if limit <= 0:
        return 0
    if isinstance(schedule, Cron):
        return min(_course(schedule).count(first, final, limit), limit)
    return min(len(_slots(schedule, first, final)), limit)


def left_out(schedule: Schedule, after: datetime, until: datetime | None, limit: int) -> list[LeftOut]:
    """The first `limit` wall times that a gap or a fold in (after, until] keeps from firing, in that order (S-09).

    A slot that `gap: shift` moved has fired and is not among them. Without `until`, those of 50 years.
    """
    if not isinstance(schedule, Cron):
        return []
    first, final = _window(after, until)
    course = _course(schedule)
    missing = course.left_out(first, final if until is not None else min(first + _HORIZON, final))
    return [LeftOut(_text(wall), reason) for wall, reason in islice(missing, max(limit, 0))]


def never_fires(schedule: Schedule, after: datetime) -> bool:
    """True when nothing fires in the 50 years from `after`: a deploy refuses that (S-02)."""
    first, final = _window(after, None)
    final = min(first + _HORIZON, final)
    if isinstance(schedule, Cron):
        return next(_course(schedule).ascending(first, final), None) is None
    return not _slots(schedule, first, final)


def _window(after: datetime, until: datetime | None) -> tuple[int, int]:
    """(after, until] as its first and its final whole second; both must be aware."""
    final = _CEILING if until is None else min(_seconds(until), _CEILING)
    return max(_seconds(after) + 1, _FLOOR), final


def _seconds(at: datetime) -> int:
    return (at - EPOCH) // SECOND


def _text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


def _slots(schedule: Every | Once, first: int, final: int) -> range:
    """The instants of an interval or a single instant in [first, final]; slot 0 of an interval is its anchor (S-06)."""
    if isinstance(schedule, Once):
        at = _seconds(schedule.at)
        return range(at, at + (first <= at <= final))
    anchor, every = _seconds(schedule.anchor), schedule.every // SECOND
    passed = max(-((anchor - first) // every), 0)
    return range(anchor + passed * every, final + 1, every)


def _elapsed_fire(schedule: Every | Once, at: int) -> Fire:
    kind = "at" if isinstance(schedule, Once) else "every"
    instant = datetime.fromtimestamp(at, UTC)
    return Fire(instant, f"{kind}/{_text(at)}Z", instant)


def _cron_fires(schedule: Cron, first: int, final: int, limit: int) -> list[Fire]:
    beats = _course(schedule).ascending(first, final)
    return [_cron_fire(schedule.timezone, span, wall) for span, wall in islice(beats, max(limit, 0))]


def _cron_fire(zone: str, span: Span, wall: int) -> Fire:
    """The fire at a wall time of a span; `/2` marks a wall time that an earlier span had shown already (S-05)."""
    at = wall - span.offset
    local = datetime.fromtimestamp(at, zones.zone(zone))
    again = "/2" if wall < span.fresh else ""
    return Fire(datetime.fromtimestamp(at, UTC), f"cron/{local.isoformat()[:19]}/{zone}{again}", local)


@lru_cache(maxsize=16384)
def _course(schedule: Cron) -> Course:
    """A cron schedule made ready; an hour field that begins with `*` follows real time (S-03, S-04)."""
    read = cron.expression(schedule.expression)
    return Course(
        times=Times(read.minutes, read.seconds, _Walks(read.walks)),
        zone=schedule.timezone,
        repeats=schedule.fold == "both" or (schedule.fold == "auto" and read.rolling),
        shifts=schedule.gap == "shift" and not read.rolling,
    )


@dataclass(frozen=True, slots=True)
class _Walks:
    """The days that any of some walks names (the union of two restricted day fields, S-01); none means every day."""

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
    """The nearest day a walk names, from `day` itself on or back; None when there is none within 50 years."""
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
