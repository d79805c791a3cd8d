"""What narrows a trigger."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from reconcile.schedule.notation import ScheduleError

from reconcile.schedule import bounds


def days(*of_december: int) -> frozenset[date]:
    return frozenset(date(2026, 12, day) for day in of_december)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, (None, None), id="none"),
        pytest.param({"start": "2026-03-02T08:00:00Z"}, (8, None), id="start"),
        pytest.param({"until": "2026-03-02T10:00:00+01:00"}, (None, 9), id="until, in another zone"),
        pytest.param({"start": "2026-03-02T08:00:00Z", "until": "2026-03-02T08:00:00Z"}, (8, 8), id="one instant"),
    ],
)
def test_a_schedule_has_ends(given: dict[str, Any], expected: tuple[int | None, int | None]) -> None:
    """S-07."""
    found = bounds.ends(given)
    assert found == tuple(None if hour is None else datetime(2026, 3, 2, hour, tzinfo=UTC) for hour in expected)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        pytest.param([], days(), id="none"),
        pytest.param(["2026-12-25"], days(25), id="a date"),
        pytest.param(["2026-12-24/2026-12-26", "2026-12-26"], days(24, 25, 26), id="a range, both ends inside"),
        pytest.param(["2026-12-24/2026-12-24"], days(24), id="a range of one day"),
    ],
)
def test_days_are_dates_and_ranges(listed: list[str], expected: frozenset[date]) -> None:
    """S-07, S-13."""
    assert bounds.days(listed, "exclude") == expected
    assert bounds.excluded({"exclude": listed}) == expected
    assert bounds.excluded({}) == frozenset()


def test_a_list_may_close_four_thousand_days() -> None:
    """S-13: in one range or in several."""
    first = date(2026, 1, 1)
    ends = [(first + timedelta(days=number)).isoformat() for number in (1_999, 2_000, 3_999, 4_000)]
    assert len(bounds.days([f"2026-01-01/{ends[2]}"], "exclude")) == 4_000
    assert len(bounds.days([f"2026-01-01/{ends[0]}", f"{ends[1]}/{ends[2]}"], "exclude")) == 4_000
    for listed, path in (
        ([f"2026-01-01/{ends[3]}"], "exclude[0]"),
        ([f"2026-01-01/{ends[0]}", f"{ends[1]}/{ends[3]}"], "exclude"),
    ):
        with pytest.raises(ScheduleError, match="than 4000 days") as refused:
            bounds.days(listed, "exclude")
        assert (refused.value.path, bool(refused.value.hint)) == (path, True)


@pytest.mark.parametrize(
    ("read", "path", "message"),
    [
        pytest.param(lambda: bounds.ends({"start": "soon"}), "start", "is not an instant", id="start"),
        pytest.param(lambda: bounds.ends({"until": "2026-03-02T08:00:00.5Z"}), "until", "whole second", id="until"),
        pytest.param(
            lambda: bounds.ends({"start": "2026-03-02T08:00:01Z", "until": "2026-03-02T08:00:00Z"}),
            "until",
            "lies before start",
            id="ends the wrong way round",
        ),
        pytest.param(lambda: bounds.days("2026-12-25", "x"), "x", "is not a list of dates", id="no list"),
        pytest.param(lambda: bounds.days(["2026-12-25", 7], "x"), "x[1]", "is not a date", id="no text"),
        pytest.param(lambda: bounds.days(["Christmas"], "x"), "x[0]", "is not a date", id="no date"),
        pytest.param(lambda: bounds.days(["2026-02-30"], "x"), "x[0]", "is not a date: ", id="a date there is not"),
        pytest.param(lambda: bounds.days(["2026-12-26/2026-12-25"], "x"), "x[0]", "runs backwards", id="backwards"),
        pytest.param(lambda: bounds.count({"count": 0}), "count", "is not a number of starts", id="count zero"),
        pytest.param(lambda: bounds.count({"count": True}), "count", "is not a number of starts", id="count true"),
        pytest.param(lambda: bounds.count({"count": "3"}), "count", "is not a number of starts", id="count text"),
        pytest.param(lambda: bounds.spread({"spread": "0s"}), "spread", "is not between 1s and 1d", id="no spread"),
        pytest.param(lambda: bounds.spread({"spread": "25h"}), "spread", "is not between 1s and 1d", id="wide spread"),
        pytest.param(lambda: bounds.spread({"spread": "x"}), "spread", "is not a span of time", id="no span"),
        pytest.param(lambda: bounds.start_within("0s"), "start_within", "is not between 1s and 1y", id="no wait"),
        pytest.param(lambda: bounds.start_within("366d"), "start_within", "is not between 1s and 1y", id="long wait"),
        pytest.param(lambda: bounds.start_within("x"), "start_within", "is not a span of time", id="no span to wait"),
        pytest.param(
            lambda: bounds.expires_at({"limits": {"expires_at": "x"}}), "expires_at", "is not an instant", id="expiry"
        ),
        pytest.param(
            lambda: bounds.expires_at({"limits": {"expires_at": "2026-03-02T08:00:00.5Z"}}),
            "expires_at",
            "is not a whole second",
            id="a fraction of an expiry",
        ),
    ],
)
def test_what_is_no_bound_is_refused_where_it_stands(read: Callable[[], object], path: str, message: str) -> None:
    """S-02: with how it is written."""
    with pytest.raises(ScheduleError) as refused:
        read()
    assert refused.value.path == path
    assert message in refused.value.message
    assert refused.value.hint


def test_bounds_that_are_not_there_bound_nothing() -> None:
    """S-07, S-12, X-08, X-18."""
    assert bounds.count({}) is None
    assert bounds.spread({}) == timedelta(0)
    assert bounds.start_within(None) is None
    assert bounds.expires_at({}) is None
    assert bounds.expires_at({"limits": {"max_runs": 1}}) is None


def test_bounds_are_read_up_to_their_ends() -> None:
    """S-07, S-12, X-08, X-18."""
    assert [bounds.count({"count": number}) for number in (1, 5)] == [1, 5]
    assert bounds.spread({"spread": "1s"}) == timedelta(seconds=1)
    assert bounds.spread({"spread": "1d"}) == timedelta(days=1)
    assert bounds.start_within("1s") == timedelta(seconds=1)
    assert bounds.start_within("1y") == timedelta(days=365)
    assert bounds.expires_at({"limits": {"expires_at": "2026-03-02T08:00:00Z"}}) == datetime(2026, 3, 2, 8, tzinfo=UTC)


def test_each_trigger_has_its_place_in_the_spread() -> None:
    """S-12: the same for ever, in whole seconds below the window."""
    names = [f"acme/production/report/t{number}" for number in range(500)]
    offsets = [bounds.offset(timedelta(seconds=10), name) for name in names]
    assert {offset.total_seconds() for offset in offsets} == set(range(10))
    assert offsets == [bounds.offset(timedelta(seconds=10), name) for name in names]
    assert bounds.offset(timedelta(minutes=10), "acme/production/report/tick") == timedelta(seconds=526)
    assert bounds.offset(timedelta(0), names[0]) == timedelta(0)
    assert bounds.offset(timedelta(seconds=1), names[0]) == timedelta(0)
