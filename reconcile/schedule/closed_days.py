"""Closed days, as day numbers from 1970-01-01, and their effect on the days of a schedule (S-07, S-13)."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from reconcile.schedule.definition import Closed
from reconcile.schedule.times import DayRule

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
