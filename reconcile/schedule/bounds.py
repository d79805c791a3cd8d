"""What narrows a trigger: its ends, days off, how often it starts, how far it is spread, how long a start may wait.

S-07, S-12, S-13, X-08, X-18.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

from reconcile.schedule.notation import ScheduleError, duration, instant, shown

LONGEST_SPREAD: Final = timedelta(days=1)
LONGEST_WAIT: Final = timedelta(days=365)
MOST_DAYS: Final = 4_000
"""Days that one list may close: more than ten years of them."""

_DAYS = re.compile(r"(\d{4}-\d{2}-\d{2})(?:/(\d{4}-\d{2}-\d{2}))?", re.ASCII)
_DAYS_HINT = 'write a date such as "2026-12-25", or a range such as "2026-12-24/2026-12-26"'


def ends(given: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """`start` and `until`, whole seconds, in this order. Raises ScheduleError at the one that is wrong."""
    start = instant(given["start"], "start", whole=True) if "start" in given else None
    until = instant(given["until"], "until", whole=True) if "until" in given else None
    if start and until and until < start:
        raise ScheduleError("until", f"{given['until']} lies before start, {given['start']}", "swap them")
    return start, until


def excluded(given: Mapping[str, Any]) -> frozenset[date]:
    """The days of `exclude`. Raises ScheduleError at the entry that is wrong."""
    return days(given.get("exclude", []), "exclude")


def days(listed: object, path: str) -> frozenset[date]:
    """The days of a list of dates and ranges of dates, both ends included. Raises ScheduleError at the entry."""
    if not isinstance(listed, list):
        raise ScheduleError(path, f"{shown(listed)} is not a list of dates", _DAYS_HINT)
    found: set[date] = set()
    for place, text in enumerate(listed):
        first, final = _range(text, f"{path}[{place}]")
        found.update(first + timedelta(days=day) for day in range((final - first).days + 1))
        if len(found) > MOST_DAYS:
            raise ScheduleError(path, f"closes more than {MOST_DAYS} days", "list fewer, or bound it with until")
    return frozenset(found)


def count(given: Mapping[str, Any]) -> int | None:
    """How many occurrences may start. Raises ScheduleError."""
    number = given.get("count")
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        raise ScheduleError("count", f"{shown(number)} is not a number of starts", "write a whole number from 1 on")
    return number


def spread(given: Mapping[str, Any]) -> timedelta:
    """The window over which triggers are spread, nothing without one. Raises ScheduleError."""
    if "spread" not in given:
        return timedelta(0)
    window = duration(given["spread"], "spread")
    if not timedelta(seconds=1) <= window <= LONGEST_SPREAD:
        raise ScheduleError("spread", f"{shown(given['spread'])} is not between 1s and 1d", "write a span such as 10m")
    return window


def start_within(text: str | None) -> timedelta | None:
    """How long a run may wait for its start, None for ever (X-18). Raises ScheduleError."""
    if text is None:
        return None
    span = duration(text, "start_within")
    if not timedelta(seconds=1) <= span <= LONGEST_WAIT:
        raise ScheduleError("start_within", f"{shown(text)} is not between 1s and 1y", "write a span such as 10m")
    return span


def expires_at(spec: Mapping[str, Any]) -> datetime | None:
    """When a trigger ends, None for never (X-08). Raises ScheduleError."""
    text = spec.get("limits", {}).get("expires_at")
    return None if text is None else instant(text, "expires_at", whole=True)


def offset(window: timedelta, trigger: str) -> timedelta:
    """How much later than its nominal times a trigger fires: the same for ever, whole seconds below `window` (S-12)."""
    seconds = int(window.total_seconds())
    if seconds == 0:
        return window
    return timedelta(seconds=int.from_bytes(hashlib.sha256(trigger.encode()).digest()[:8]) % seconds)


def _range(text: object, path: str) -> tuple[date, date]:
    found = _DAYS.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ScheduleError(path, f"{shown(text)} is not a date", _DAYS_HINT)
    try:
        first = date.fromisoformat(found[1])
        final = date.fromisoformat(found[2]) if found[2] else first
    except ValueError as error:
        raise ScheduleError(path, f"{shown(text)} is not a date: {error}", _DAYS_HINT) from None
    if final < first:
        raise ScheduleError(path, f"{shown(text)} runs backwards", "swap its ends")
    if (final - first).days >= MOST_DAYS:
        raise ScheduleError(path, f"{shown(text)} is longer than {MOST_DAYS} days", "bound the schedule with until")
    return first, final
