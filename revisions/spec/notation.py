"""Notation of spans, instants, days and times of day, and the error for text that is none (S-01, S-13, S-15, X-16)."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}

# Ten digits reach past any span and keep int() from being fed a megabyte.
_NUMBER = r"\d{1,10}(?:[.,]\d{1,9})?"
_SHORT = re.compile(r"(\d{1,10}(?:\.\d{1,9})?)([smhdwy])", re.ASCII)
_ISO = re.compile(
    rf"P(?:({_NUMBER})Y)?(?:({_NUMBER})M)?(?:({_NUMBER})W)?(?:({_NUMBER})D)?"
    rf"(T(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?",
    re.ASCII,
)
_INSTANT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d+))?(?:[Zz]|([+-]\d{2}:\d{2}))",
    re.ASCII,
)

_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The calendar with an edge left on either side: what is asked about an instant is asked just before and after it."""

LONGEST = timedelta(days=1000 * 365)
"""Every instant of these times lies in the calendar, so far from now on either side."""

_SPAN_HINT = "write <number><unit> with one of s m h d w y, such as 15m, or ISO 8601, such as PT15M"
_INSTANT_HINT = "write RFC 3339 with a zone, such as 2026-01-01T08:00:00Z or 2026-01-01T09:00:00+01:00"

MOST_DAYS: Final = 4_000
"""Days that one list may close: more than ten years of them."""
_DAYS = re.compile(r"(\d{4}-\d{2}-\d{2})(?:/(\d{4}-\d{2}-\d{2}))?", re.ASCII)
_DAYS_HINT = 'write a date such as "2026-12-25", or a range such as "2026-12-24/2026-12-26"'
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)


class ScheduleError(ValueError):
    """Something wrong in a schedule: where (`cron`, `timezone`, …; empty for the whole), what, and how to write it."""

    def __init__(self, path: str, message: str, hint: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message
        self.hint = hint


def shown(value: object) -> str:
    """A value as an error quotes it, cut to a length people can read."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}…"


def duration(text: object, path: str = "") -> timedelta:
    """The elapsed time that `15m`, `1.5h`, `PT15M` or `P1DT2H` stand for; a day is 24 h and a year 365 days (S-01).

    Zero is a span, a negative one cannot be written, nor one beyond `LONGEST`. Months have no length and are refused.
    Raises ScheduleError at `path`.
    """
    if not isinstance(text, str):
        raise ScheduleError(path, f"{shown(text)} is not a span of time", _SPAN_HINT)
    if short := _SHORT.fullmatch(text):
        seconds = Decimal(short[1]) * UNIT_SECONDS[short[2]]
    elif iso := _ISO.fullmatch(text):
        seconds = _iso_seconds(text, iso, path)
    else:
        raise ScheduleError(path, f"{shown(text)} is not a span of time", _SPAN_HINT)
    if seconds > LONGEST.total_seconds():
        raise ScheduleError(path, f"{shown(text)} is longer than any span that can be kept", "write 1000y or less")
    return timedelta(microseconds=int((seconds * 1_000_000).to_integral_value()))


def _iso_seconds(text: str, parts: re.Match[str], path: str) -> Decimal:
    years, months, weeks, days, clock, hours, minutes, seconds = parts.groups()
    if months is not None:
        raise ScheduleError(path, f"{shown(text)} counts months, which have no fixed length", "write days or weeks")
    units = zip((years, weeks, days, hours, minutes, seconds), "ywdhms", strict=True)
    written = [(Decimal(number.replace(",", ".")), unit, number) for number, unit in units if number is not None]
    if not written or clock == "T":
        raise ScheduleError(path, f"{shown(text)} names no span", _SPAN_HINT)
    if any(not number.isdigit() for _, _, number in written[:-1]):
        raise ScheduleError(path, f"{shown(text)} has a fraction before its last part", "only the last part may")
    return sum((number * UNIT_SECONDS[unit] for number, unit, _ in written), Decimal(0))


def instant(text: object, path: str = "", *, whole: bool = False) -> datetime:
    """The aware UTC instant of an RFC 3339 text with its zone; with `whole` a fraction of a second is refused (S-15),
    without it the very ends of the calendar.

    Fractions finer than a microsecond are cut off. Raises ScheduleError at `path`.
    """
    found = _INSTANT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ScheduleError(path, f"{shown(text)} is not an instant", _INSTANT_HINT)
    date, time, fraction, offset = found.groups()
    micros = ((fraction or "") + "000000")[:6]
    try:
        at = datetime.fromisoformat(f"{date}T{time}.{micros}{offset or '+00:00'}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ScheduleError(path, f"{shown(text)} is not an instant: {error}", _INSTANT_HINT) from None
    if whole and (fraction or "").strip("0"):
        raise ScheduleError(path, f"{shown(text)} is not a whole second", "leave the fraction out")
    if not whole and not _FIRST <= at <= _LAST:
        raise ScheduleError(path, f"{shown(text)} lies at the end of the calendar", "name an instant within it")
    return at


def days(listed: Sequence[object], path: str = "") -> frozenset[date]:
    """Return the days of a list of dates and ranges of dates, both ends included (S-13).

    Raises ScheduleError at the entry that is wrong.
    """
    found: set[date] = set()
    for place, text in enumerate(listed):
        first, final = _range(text, f"{path}[{place}]")
        found.update(first + timedelta(days=day) for day in range((final - first).days + 1))
        if len(found) > MOST_DAYS:
            raise ScheduleError(path, f"closes more than {MOST_DAYS} days", "list fewer, or bound it with until")
    return frozenset(found)


def time_of_day(text: str, path: str = "") -> time:
    """Return the time of day that `09:30` stands for (X-16). Raises ScheduleError."""
    if not _TIME.fullmatch(text):
        raise ScheduleError(path, f"{shown(text)} is not a time of day", 'write "09:30"')
    return time.fromisoformat(text)


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
