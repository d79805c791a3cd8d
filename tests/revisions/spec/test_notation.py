"""Parsing of spans and instants (S-01, S-15)."""

from datetime import UTC, datetime, timedelta

import pytest

from revisions.spec.notation import ScheduleError, duration, instant


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("1s", timedelta(seconds=1)),
        ("15m", timedelta(minutes=15)),
        ("48h", timedelta(hours=48)),
        ("2d", timedelta(days=2)),
        ("3w", timedelta(weeks=3)),
        ("1y", timedelta(days=365)),
        ("1.5h", timedelta(minutes=90)),
        ("0s", timedelta()),
        ("PT15M", timedelta(minutes=15)),
        ("P1DT2H", timedelta(hours=26)),
        ("P1W", timedelta(weeks=1)),
        ("P1Y", timedelta(days=365)),
        ("P2DT3H4M5.5S", timedelta(days=2, hours=3, minutes=4, seconds=5.5)),
        ("PT1,5H", timedelta(minutes=90)),
        ("1000y", timedelta(days=365_000)),
    ],
)
def test_valid_spans_are_parsed(text: str, span: timedelta) -> None:
    """S-01: a span is a number with one of the units s m h d w y, or an ISO 8601 duration; a year is 365 days."""
    assert duration(text) == span


@pytest.mark.parametrize(
    "text",
    ["", "15", "m", "15 m", "15M", "-5m", "+5m", "1h30m", "1mo", "P", "PT", "P1DT", "P1M", "P1.5DT2H", "PT1M2H",
     "pt5m", "1e3s", "8000y", "P365001D", "9999999999y", "99999999999s", "١m", "5m\n", 900, 1.5, True, None],
)  # fmt: skip
def test_invalid_spans_are_refused(text: object) -> None:
    """S-01: months have no fixed length; ambiguous texts and spans longer than the calendar are refused."""
    with pytest.raises(ScheduleError) as caught:
        duration(text, "every")
    assert caught.value.path == "every"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-01T08:00:00Z", datetime(2026, 1, 1, 8, tzinfo=UTC)),
        ("2026-01-01t08:00:00z", datetime(2026, 1, 1, 8, tzinfo=UTC)),
        ("2026-01-01T09:00:00+01:00", datetime(2026, 1, 1, 8, tzinfo=UTC)),
        ("2025-12-31T18:30:00-13:30", datetime(2026, 1, 1, 8, tzinfo=UTC)),
        ("2026-01-01T08:00:00.25Z", datetime(2026, 1, 1, 8, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-01-01T08:00:00.1234567Z", datetime(2026, 1, 1, 8, 0, 0, 123_456, tzinfo=UTC)),
        ("0001-01-02T00:00:00Z", datetime(1, 1, 2, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_valid_instants_are_parsed(text: str, at: datetime) -> None:
    """S-01: an instant is RFC 3339 with a zone, and is converted to UTC."""
    assert instant(text) == at
    assert instant(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-01", "2026-01-01T08:00:00", "2026-01-01 08:00:00Z", "2026-01-01T08:00Z", "2026-02-30T08:00:00Z",
     "2026-01-01T24:00:00Z", "2026-01-01T08:00:60Z", "2026-01-01T08:00:00+24:00", "0001-01-01T00:00:00+01:00",
     "0001-01-01T00:00:00Z", "0001-01-01T23:59:59.999999Z", "9999-12-31T23:59:59.000001Z",
     "9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59-00:01", "2026-01-01T08:00:00Z\n", 1767254400, None],
)  # fmt: skip
def test_invalid_instants_are_refused(text: object) -> None:
    """S-02: also instants without a zone, and those at either end of the calendar."""
    with pytest.raises(ScheduleError) as caught:
        instant(text, "at")
    assert caught.value.path == "at"
    assert caught.value.hint


def test_whole_seconds_refuse_a_fraction() -> None:
    """S-15: `at` and `anchor` are whole seconds; a zero fraction and the first instant of the calendar are allowed."""
    assert instant("0001-01-01T00:00:00Z", whole=True) == datetime.min.replace(tzinfo=UTC)
    assert instant("2026-01-01T08:00:00.000Z", whole=True) == datetime(2026, 1, 1, 8, tzinfo=UTC)
    with pytest.raises(ScheduleError, match="whole second"):
        instant("2026-01-01T08:00:00.0000001Z", "at", whole=True)
