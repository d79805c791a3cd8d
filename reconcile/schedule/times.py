"""Mapping of wall times to instants of a zone, where `gap` and `fold` are applied, and closed days (S-03, S-04, S-07).

All times are whole seconds as described in `zones`, days are counted from 1970-01-01. A `DayRule` selects the days; the
times of a day are a table, so that counting and walking backwards cost no more than walking forwards.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, NamedTuple, Protocol

from reconcile.schedule.definition import EPOCH, SECOND, Closed, Every, Once
from reconcile.schedule.zones import Span, span_at

DAY_SECONDS: Final = 86400
LONGEST_SHIFT_SECONDS: Final = 3 * 3600

# Offsets and changes of the clock are a day at most, so a wall time and its instant are never further apart.
_MARGIN: Final = 2 * DAY_SECONDS


class DayRule(Protocol):
    """Days that an expression matches; both methods return None if there is none within 50 years."""

    @property
    def daily(self) -> bool:
        """True when every day matches."""
        ...

    def on_or_after(self, day: int) -> int | None: ...

    def on_or_before(self, day: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Times:
    """Wall times of an expression: every second of `seconds` in every minute of the day of `minutes`."""

    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    days: DayRule

    def ascending(self, low: int, high: int) -> Iterator[int]:
        """Yield the wall times in [low, high), oldest first."""
        for midnight, begin, end in self._ranges(low, high):
            for index in range(begin, end):
                yield midnight + self._time(index)

    def descending(self, low: int, high: int) -> Iterator[int]:
        """Yield the wall times in [low, high), newest first."""
        day = self.days.on_or_before((high - 1) // DAY_SECONDS) if low < high else None
        while day is not None and (day + 1) * DAY_SECONDS > low:
            midnight = day * DAY_SECONDS
            for index in reversed(range(self._index(low - midnight), self._index(high - midnight))):
                yield midnight + self._time(index)
            day = self.days.on_or_before(day - 1)

    def count(self, low: int, high: int, limit: int) -> int:
        """Return the number of wall times in [low, high); from `limit` on it need not be exact."""
        if low >= high:
            return 0
        if self.days.daily:
            return self._rank(high) - self._rank(low)
        found = 0
        for _, begin, end in self._ranges(low, high):
            found += end - begin
            if found >= limit:
                break
        return found

    def next_day(self, low: int) -> int | None:
        """Return the midnight that begins the first matching day not over at `low`."""
        day = self.days.on_or_after(low // DAY_SECONDS)
        return None if day is None else day * DAY_SECONDS

    def previous_day(self, high: int) -> int | None:
        """Return the midnight that ends the last matching day begun before `high`."""
        day = self.days.on_or_before((high - 1) // DAY_SECONDS)
        return None if day is None else (day + 1) * DAY_SECONDS

    def _ranges(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Yield (midnight, first index, end index) of each matching day in [low, high)."""
        day = self.days.on_or_after(low // DAY_SECONDS)
        while day is not None and (midnight := day * DAY_SECONDS) < high:
            yield midnight, self._index(low - midnight), self._index(high - midnight)
            day = self.days.on_or_after(day + 1)

    def _rank(self, wall: int) -> int:
        """Return the number of times between the epoch and `wall` if every day matched."""
        day, time = divmod(wall, DAY_SECONDS)
        return day * len(self.minutes) * len(self.seconds) + self._index(time)

    def _index(self, time: int) -> int:
        """Return the number of a day's times before `time`, in seconds from midnight, also outside the day."""
        minute, second = divmod(time, 60)
        at = bisect_left(self.minutes, minute)
        if at < len(self.minutes) and self.minutes[at] == minute:
            return at * len(self.seconds) + bisect_left(self.seconds, second)
        return at * len(self.seconds)

    def _time(self, index: int) -> int:
        minute, second = divmod(index, len(self.seconds))
        return self.minutes[minute] * 60 + self.seconds[second]


class Stretch(NamedTuple):
    """Part of a window within one span: wall times in [low, high) fire, with `moved` also the span's start."""

    span: Span
    low: int
    high: int
    moved: bool


@dataclass(frozen=True, slots=True)
class Course:
    """Wall times in a zone: `repeats` includes second passes, `shifts` moves times in a gap to its end."""

    times: Times
    zone: str
    repeats: bool
    shifts: bool

    def ascending(self, first: int, final: int) -> Iterator[tuple[Span, int]]:
        """Yield (span, wall time) of every fire in [first, final], oldest first."""
        for span, low, high, moved in self.stretches(first, final):
            if moved:
                yield span, span.start + span.offset
            for wall in self.times.ascending(low, high):
                yield span, wall

    def descending(self, first: int, final: int) -> Iterator[tuple[Span, int]]:
        """Yield (span, wall time) of every fire, newest first; times before the newest cost nothing (L-08)."""
        at = final
        while at >= first:
            span, low, high, moved = self._stretch(at, first, at)
            for wall in self.times.descending(low, high):
                yield span, wall
            if moved:
                yield span, span.start + span.offset
            behind = self.times.previous_day(span.start + span.offset + _MARGIN)
            if behind is None:
                return
            at = min(span.start - 1, behind + _MARGIN)

    def stretches(self, first: int, final: int) -> Iterator[Stretch]:
        """Yield the parts of [first, final] in which fires are possible, ascending; long gaps are skipped."""
        at = first
        while at <= final:
            stretch = self._stretch(at, at, final)
            yield stretch
            ahead = self.times.next_day(stretch.span.end + stretch.span.offset - _MARGIN)
            if ahead is None:
                return
            at = max(stretch.span.end, ahead - _MARGIN)

    def count(self, first: int, final: int, limit: int) -> int:
        """Return the number of fires in [first, final]; from `limit` on it need not be exact."""
        found = 0
        for _, low, high, moved in self.stretches(first, final):
            found += moved + self.times.count(low, high, limit - found)
            if found >= limit:
                break
        return found

    def left_out(self, first: int, final: int) -> Iterator[tuple[int, str]]:
        """Yield (wall time, `gap` or `fold`) of each time in [first, final] that does not fire, oldest first."""
        for span, _, high, moved in self.stretches(first, final):
            begin = span.start + span.offset
            if first <= span.start and not moved:
                for wall in self.times.ascending(span.fresh, begin):
                    yield wall, "gap"
            if not self.repeats:
                for wall in self.times.ascending(max(begin, first + span.offset), min(span.fresh, high)):
                    yield wall, "fold"

    def _stretch(self, at: int, first: int, final: int) -> Stretch:
        """Return the part of [first, final] within the span of `at`."""
        span = span_at(self.zone, at)
        low = max(first, span.start) + span.offset
        high = min(final + 1, span.end) + span.offset
        if not self.repeats:
            low = max(low, span.fresh)
        moved = self.shifts and first <= span.start <= final and self._gap_holds_a_slot(span)
        # A slot at the gap's end and those moved to it are one fire.
        return Stretch(span, low + moved, high, moved)

    def _gap_holds_a_slot(self, span: Span) -> bool:
        begin = span.start + span.offset
        return 0 < begin - span.fresh <= LONGEST_SHIFT_SECONDS and self.times.count(span.fresh, begin, 1) > 0


def seconds(at: datetime) -> int:
    return (at - EPOCH) // SECOND


def slots(beat: Every | Once, closed: tuple[int, ...], first: int, final: int) -> list[range]:
    """Return the instants of an interval or a single instant in [first, final], one range between closed days."""
    if isinstance(beat, Once):
        at = seconds(beat.at)
        return [range(at, at + (first <= at <= final))]
    return [beats(beat, *part) for part in _stretches(closed, first, final)]


def beats(beat: Every, first: int, final: int) -> range:
    """Return the instants of an interval in [first, final]; slot 0 is its anchor (S-06)."""
    anchor, every = seconds(beat.anchor), beat.every // SECOND
    passed = max(-((anchor - first) // every), 0)
    return range(anchor + passed * every, final + 1, every)


def _stretches(closed: Sequence[int], first: int, final: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of the seconds [first, final] between closed days, ascending."""
    at = first
    for day in closed[bisect_left(closed, first // DAY_SECONDS) :]:
        if day * DAY_SECONDS > final:
            break
        if at < day * DAY_SECONDS:
            yield at, day * DAY_SECONDS - 1
        at = (day + 1) * DAY_SECONDS
    if at <= final:
        yield at, final


_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


def number(day: date) -> int:
    return day.toordinal() - _EPOCH_ORDINAL


def numbers(closed: Closed) -> tuple[int, ...]:
    """Return all closed days, ascending."""
    return tuple(sorted({number(day) for _, days in closed for day in days}))


def reasons(closed: Closed) -> list[tuple[str, tuple[int, ...]]]:
    """Return the days closed under each name; a day closed under several names is listed under the first."""
    found: list[tuple[str, tuple[int, ...]]] = []
    seen: set[int] = set()
    for name, days in closed:
        new = {number(day) for day in days} - seen
        found.append((name, tuple(sorted(new))))
        seen |= new
    return found


@dataclass(frozen=True, slots=True)
class OpenDays:
    """Days of a rule without the closed ones."""

    rule: DayRule
    closed: tuple[int, ...]

    @property
    def daily(self) -> bool:
        return False

    def on_or_after(self, day: int) -> int | None:
        on = self.rule.on_or_after(day)
        while on is not None and _holds(self.closed, on):
            on = self.rule.on_or_after(on + 1)
        return on

    def on_or_before(self, day: int) -> int | None:
        on = self.rule.on_or_before(day)
        while on is not None and _holds(self.closed, on):
            on = self.rule.on_or_before(on - 1)
        return on


@dataclass(frozen=True, slots=True)
class ClosedDays:
    """Closed days of a rule: days on which fires are suppressed."""

    rule: DayRule
    closed: tuple[int, ...]

    @property
    def daily(self) -> bool:
        return False

    def on_or_after(self, day: int) -> int | None:
        later = self.closed[bisect_left(self.closed, day) :]
        return next((on for on in later if self.rule.on_or_after(on) == on), None)

    def on_or_before(self, day: int) -> int | None:
        earlier = self.closed[: bisect_right(self.closed, day)]
        return next((on for on in reversed(earlier) if self.rule.on_or_before(on) == on), None)


def _holds(closed: Sequence[int], day: int) -> bool:
    at = bisect_left(closed, day)
    return at < len(closed) and closed[at] == day
