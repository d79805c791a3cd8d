"""Parsers of spans, instants, days and times of day, and their error (S-01, S-13, S-15, X-16)."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}

# Ten digits exceed every allowed span, and the limit keeps huge numbers from being parsed.
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
"""First and last instant allowed: schedules also compute with the moments just before and after an instant."""

LONGEST = timedelta(days=1000 * 365)
"""Longest span: from the present time it stays within the calendar in both directions."""

_SPAN_HINT = "write <number><unit> with one of s m h d w y, such as 15m, or ISO 8601, such as PT15M"
_INSTANT_HINT = "write RFC 3339 with a zone, such as 2026-01-01T08:00:00Z or 2026-01-01T09:00:00+01:00"

MOST_DAYS: Final = 4_000
"""Most days of one list, more than ten years."""
_DAYS = re.compile(r"(\d{4}-\d{2}-\d{2})(?:/(\d{4}-\d{2}-\d{2}))?", re.ASCII)
_DAYS_HINT = 'write a date such as "2026-12-25", or a range such as "2026-12-24/2026-12-26"'
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)


class ScheduleError(ValueError):
    """Fault of a schedule: its path (`cron`, `timezone`, …; empty for the whole schedule), a message and a hint."""

    def __init__(self, path: str, message: str, hint: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message
        self.hint = hint


def shown(value: object) -> str:
    """Return a value as error messages quote it, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}…"


def duration(text: object, path: str = "") -> timedelta:
    """Parse a span such as `15m`, `1.5h`, `PT15M` or `P1DT2H`; a day is 24 hours, a year 365 days (S-01).

    Zero is allowed. Raises ScheduleError at `path`, also for negative spans, spans beyond `LONGEST`, and months, which
    have no fixed length.
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
    """Parse an RFC 3339 text with a zone into an aware UTC instant (S-15).

    `whole` refuses fractions of a second. Without it digits finer than a microsecond are dropped, and the first day of
    the calendar and its last fraction of a second are refused. Raises ScheduleError at `path`.
    """
    match = _INSTANT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ScheduleError(path, f"{shown(text)} is not an instant", _INSTANT_HINT)
    date, time, fraction, offset = match.groups()
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
    """Parse a list of dates and ranges of dates, both ends included (S-13).

    Raises ScheduleError at the entry that is wrong.
    """
    closed: set[date] = set()
    for place, text in enumerate(listed):
        first, final = _range(text, f"{path}[{place}]")
        closed.update(first + timedelta(days=day) for day in range((final - first).days + 1))
        if len(closed) > MOST_DAYS:
            raise ScheduleError(path, f"closes more than {MOST_DAYS} days", "list fewer, or bound it with until")
    return frozenset(closed)


def time_of_day(text: str, path: str = "") -> time:
    """Parse a time of day such as `09:30` (X-16). Raises ScheduleError."""
    if not _TIME.fullmatch(text):
        raise ScheduleError(path, f"{shown(text)} is not a time of day", 'write "09:30"')
    return time.fromisoformat(text)


def _range(text: object, path: str) -> tuple[date, date]:
    match = _DAYS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ScheduleError(path, f"{shown(text)} is not a date", _DAYS_HINT)
    try:
        first = date.fromisoformat(match[1])
        final = date.fromisoformat(match[2]) if match[2] else first
    except ValueError as error:
        raise ScheduleError(path, f"{shown(text)} is not a date: {error}", _DAYS_HINT) from None
    if final < first:
        raise ScheduleError(path, f"{shown(text)} runs backwards", "swap its ends")
    if (final - first).days >= MOST_DAYS:
        raise ScheduleError(path, f"{shown(text)} is longer than {MOST_DAYS} days", "bound the schedule with until")
    return first, final
