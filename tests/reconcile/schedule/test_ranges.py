"""Skipped occurrences as ranges."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from reconcile.schedule import ranges
from reconcile.schedule.fires import Fire, Schedule, fires
from reconcile.schedule.ranges import Range
from revisions.outcomes import OccurrenceOutcome
from tests.blocks import parse

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def schedule_of(every: str = "1h", **bounds: Any) -> Schedule:
    return parse({"every": every, **bounds})


HOURLY = schedule_of()


def fire(hour: float) -> Fire:
    return fires(HOURLY, at(hour - 0.5), at(hour), 1)[0]


@pytest.mark.parametrize(
    ("after", "until", "expected"),
    [
        pytest.param(0, 3, (Range(fire(1), at(3), 3, OccurrenceOutcome.MISSED, "rate"),), id="three"),
        pytest.param(0.5, 1, (Range(fire(1), at(1), 1, OccurrenceOutcome.MISSED, "rate"),), id="one"),
        pytest.param(
            0, 3.5, (Range(fire(1), at(3), 3, OccurrenceOutcome.MISSED, "rate"),), id="ends with the last occurrence"
        ),
        pytest.param(0, 0.5, (), id="no occurrence"),
        pytest.param(1, 1, (), id="no time"),
        pytest.param(2, 1, (), id="runs backwards"),
    ],
)
def test_a_span_is_named_by_its_first_occurrence(after: float, until: float, expected: tuple[Range, ...]) -> None:
    """E-05: (after, until] as one range, or none."""
    assert ranges.span(HOURLY, at(after), at(until), OccurrenceOutcome.MISSED, "rate") == expected


@pytest.mark.parametrize(
    ("hours", "count"),
    [pytest.param(1_000, 1_000, id="a thousand"), pytest.param(1_001, None, id="one more"), (5_000, None)],
)
def test_a_count_is_exact_up_to_a_thousand(hours: float, count: int | None) -> None:
    """E-05, L-08: more are not counted."""
    [found] = ranges.span(HOURLY, START, at(hours), OccurrenceOutcome.MISSED)
    assert (found.count, found.until, found.reason) == (count, at(hours), "")


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"every": "1s"}, id="an interval"),
        pytest.param({"cron": "* * * * * *"}, id="an expression"),
        pytest.param({"cron": "* * * * * *", "timezone": "Europe/Berlin"}, id="an expression in a zone"),
        pytest.param({"every": "1s", "exclude": ["2026-12-25"]}, id="an interval with a closed day"),
    ],
)
def test_a_range_is_never_counted_by_walking_it(block: dict[str, Any]) -> None:
    """L-08: 28 billion seconds, which to walk one by one would never end."""
    until = datetime(2916, 1, 1, tzinfo=UTC)
    [found] = ranges.span(parse(block), START, until, OccurrenceOutcome.MISSED)
    assert (found.first.at, found.until, found.count) == (START + timedelta(seconds=1), until, None)


def test_some_occurrences_become_one_range() -> None:
    """E-05: none of them none."""
    assert ranges.of([fire(1), fire(2), fire(5)], OccurrenceOutcome.BUDGET) == (
        Range(fire(1), at(5), 3, OccurrenceOutcome.BUDGET, ""),
    )
    assert ranges.of([], OccurrenceOutcome.BUDGET) == ()


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([(0, 0.5)], None, id="no occurrence"),
        pytest.param([(0, 2)], Range(fire(1), at(2), 2, OccurrenceOutcome.SUPERSEDED, "x"), id="one"),
        pytest.param(
            [(0, 2), (4, 6)], Range(fire(1), at(6), 4, OccurrenceOutcome.SUPERSEDED, "x"), id="two with a gap between"
        ),
        pytest.param(
            [(0, 0.5), (4, 6)], Range(fire(5), at(6), 2, OccurrenceOutcome.SUPERSEDED, "x"), id="the first is empty"
        ),
        pytest.param(
            [(0, 600), (700, 1100)], Range(fire(1), at(1100), 1_000, OccurrenceOutcome.SUPERSEDED, "x"), id="a thousand"
        ),
        pytest.param(
            [(0, 600), (700, 1101)], Range(fire(1), at(1101), None, OccurrenceOutcome.SUPERSEDED, "x"), id="one more"
        ),
        pytest.param(
            [(0, 5000), (6000, 6001)],
            Range(fire(1), at(6001), None, OccurrenceOutcome.SUPERSEDED, "x"),
            id="one uncounted",
        ),
    ],
)
def test_several_spans_are_given_up_as_one_range(spans: list[tuple[float, float]], expected: Range | None) -> None:
    """R-21: backlogs and what follows the watermark; the count is of the occurrences inside them."""
    assert ranges.joined(HOURLY, [(at(a), at(b)) for a, b in spans], OccurrenceOutcome.SUPERSEDED, "x") == expected


def test_what_a_calendar_takes_away_is_one_range() -> None:
    """S-13: what was named before and is no more, in undecided time alone."""
    day = timedelta(days=1)
    before = parse({"cron": "0 9 * * *"})
    after = parse({"cron": "0 9 * * *"}, calendars=(("bank", frozenset({date(2026, 3, 3), date(2026, 3, 5)})),))
    [gone] = ranges.taken(before, after, [(START, START + 2 * day), (START + 2 * day, START + 7 * day)])
    assert (gone.first.at, gone.until) == (datetime(2026, 3, 3, 9, tzinfo=UTC), datetime(2026, 3, 5, 9, tzinfo=UTC))
    assert (gone.count, gone.outcome, gone.reason) == (2, OccurrenceOutcome.SUPERSEDED, "calendar")
    assert ranges.taken(before, before, [(START, START + 7 * day)]) == ()
    assert ranges.taken(before, after, [(START, START + timedelta(hours=2))]) == ()


@pytest.mark.parametrize(("every", "count"), [("90s", 960), ("80s", None)])
def test_what_a_calendar_takes_away_is_counted_up_to_a_thousand(every: str, count: int | None) -> None:
    """S-13, E-05: of a closed day 960 occurrences are counted, 1,080 are not."""
    closed = (("bank", frozenset({date(2026, 3, 3)})),)
    week = [(START, START + timedelta(days=7))]
    [gone] = ranges.taken(schedule_of(every), parse({"every": every}, calendars=closed), week)
    assert gone.count == count
