"""What a trigger may spend in a period."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconcile.decide.budget import (
    Budget,
    Spending,
    affordable,
    budget_of,
    cost_of,
    expected,
    is_used_up,
    used,
    warning,
)
from reconcile.schedule.zones import zone
from revisions.spec.fields import LARGEST_COST
from revisions.spec.trigger import BudgetPeriod
from tests.blocks import trigger_spec


def budget(most: float = 1.0, estimate: float | None = None, period: str = "month", tz: str = "UTC") -> Budget:
    return Budget(most, BudgetPeriod(period), estimate, zone(tz))


def spending(spent: float = 0.0, reserved: float = 0.0, live: int = 0, dearest: float | None = None) -> Spending:
    return Spending(spent, reserved, live, dearest)


@pytest.mark.parametrize(
    ("period", "tz", "since", "until"),
    [
        ("day", "UTC", "2026-03-29T00:00Z", "2026-03-30T00:00Z"),
        ("day", "Europe/Berlin", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),  # clocks go forward: 23 hours
        ("week", "Europe/Berlin", "2026-03-22T23:00Z", "2026-03-29T22:00Z"),
        ("month", "Europe/Berlin", "2026-02-28T23:00Z", "2026-03-31T22:00Z"),
        ("year", "UTC", "2026-01-01T00:00Z", "2027-01-01T00:00Z"),
    ],
)
def test_a_period_is_the_calendars_in_the_schedules_zone(period: str, tz: str, since: str, until: str) -> None:
    """X-08: from midnight to midnight as the zone's clocks show it, also where a day has 23 hours."""
    now = datetime(2026, 3, 29, 12, tzinfo=UTC)
    one = budget(period=period, tz=tz)
    assert (one.since(now), one.until(now)) == (datetime.fromisoformat(since), datetime.fromisoformat(until))
    assert one.since(one.until(now)) == one.until(now)


def test_a_spec_says_its_budget() -> None:
    """X-08: a calendar month unless it says otherwise; none without `max_cost`."""
    assert budget_of(trigger_spec(limits={"max_runs": 3})) is None
    assert budget_of(trigger_spec(limits={"max_cost": 5})) == budget(5)
    written = {"limits": {"max_cost": 5, "estimate": 1, "budget_period": "day"}, "schedule": {"timezone": "Asia/Tokyo"}}
    assert budget_of(trigger_spec(**written)) == budget(5, 1, "day", "Asia/Tokyo")


def test_what_is_spent_and_set_aside_is_no_longer_there() -> None:
    """X-08: concurrent starts cannot overspend."""
    assert affordable(budget(estimate=0.3), spending()) == 3
    assert affordable(budget(estimate=0.3), spending(reserved=0.6, live=2)) == 1
    assert affordable(budget(estimate=0.3), spending(spent=0.4, reserved=0.3, live=1)) == 1
    assert affordable(budget(estimate=0.1), spending(spent=0.7)) == 3  # 0.1 · 3 is more than 0.3 in floating point
    assert affordable(budget(estimate=0), spending(spent=0.5)) is None
    assert affordable(budget(), spending(dearest=5e-324)) is None
    assert affordable(budget(), spending(dearest=1e-320, spent=0.5)) is None


def test_the_dearest_of_the_last_runs_is_the_estimate() -> None:
    """X-08: where the trigger names none; and while none has ended they go one at a time."""
    assert expected(budget(), spending(dearest=0.4)) == 0.4
    assert expected(budget(estimate=0.1), spending(dearest=0.4)) == 0.1
    assert affordable(budget(), spending(dearest=0.4)) == 2
    assert affordable(budget(), spending()) == 1
    assert affordable(budget(), spending(live=1)) == 0


def test_one_may_cross_the_budget_where_nothing_is_spent() -> None:
    """X-08: else a trigger whose runs once cost more than its budget would never start again."""
    assert affordable(budget(), spending(dearest=1.2)) == 1
    assert affordable(budget(), spending(spent=0.1, dearest=1.2)) == 0


def test_a_budget_is_used_up_when_nothing_can_start_any_more() -> None:
    """X-08: while runs go on that may cost less than was set aside, it is not."""
    assert is_used_up(budget(), spending(spent=1.0, live=3))
    assert is_used_up(budget(estimate=0.5), spending(spent=0.6))
    assert is_used_up(budget(estimate=0.4), spending(spent=0.4, reserved=0.8, live=2))
    assert not is_used_up(budget(), spending(reserved=1.2, live=1, dearest=1.2))
    assert not is_used_up(budget(estimate=0.5), spending(spent=0.4, reserved=0.5, live=1))
    assert not is_used_up(budget(estimate=0.5), spending(spent=0.4))


@pytest.mark.parametrize(
    ("period", "tz", "now", "since", "until"),
    [
        pytest.param(
            "day", "Atlantic/Azores", "2026-10-24T12:34:56.789Z", "2026-10-24T00:00Z", "2026-10-25T00:00Z",
            id="ends with the first of two midnights",
        ),
        pytest.param(
            "day", "Atlantic/Azores", "2026-10-25T01:30:45.5Z", "2026-10-25T00:00Z", "2026-10-26T01:00Z",
            id="begins with the first of two midnights",
        ),
        pytest.param(
            "day", "America/Santiago", "2026-09-06T12:00Z", "2026-09-06T04:00Z", "2026-09-07T03:00Z",
            id="begins at one o'clock, where there is no midnight",
        ),
        pytest.param("month", "UTC", "2026-12-31T23:59Z", "2026-12-01T00:00Z", "2027-01-01T00:00Z", id="December"),
        pytest.param("month", "UTC", "2026-01-31T00:00Z", "2026-01-01T00:00Z", "2026-02-01T00:00Z", id="January"),
        pytest.param("week", "UTC", "2026-03-02T00:00Z", "2026-03-02T00:00Z", "2026-03-09T00:00Z", id="on a Monday"),
        pytest.param("year", "UTC", "2024-02-29T12:00Z", "2024-01-01T00:00Z", "2025-01-01T00:00Z", id="a leap year"),
    ],
)  # fmt: skip
def test_periods_begin_with_the_first_second_of_a_day(period: str, tz: str, now: str, since: str, until: str) -> None:
    """X-08: whatever the clock does at midnight."""
    at, one = datetime.fromisoformat(now), budget(period=period, tz=tz)
    assert (one.since(at), one.until(at)) == (datetime.fromisoformat(since), datetime.fromisoformat(until))
    assert one.since(at).tzinfo is one.until(at).tzinfo is UTC


@pytest.mark.parametrize(
    ("output", "cost"),
    [
        pytest.param(None, None, id="no output"),
        pytest.param({}, None, id="an output without"),
        pytest.param({"cost": 2}, 2.0, id="a whole number"),
        pytest.param({"cost": 0.25}, 0.25, id="a fraction"),
        pytest.param({"cost": 0}, 0.0, id="nothing"),
        pytest.param({"cost": -1}, None, id="less than nothing"),
        pytest.param({"cost": True}, None, id="true is no number"),
        pytest.param({"cost": "2"}, None, id="a text"),
        pytest.param({"cost": 10**400}, LARGEST_COST, id="more than can be kept"),
    ],
)
def test_an_attempt_says_its_cost_in_its_output(output: dict[str, Any] | None, cost: float | None) -> None:
    """X-08: what is no cost is as if it said none."""
    assert cost_of(output) == cost


@pytest.mark.parametrize(
    ("spent", "reserved", "share"), [(0, 0, 0), (1, 0.5, 0.375), (4, 2, 1.5)], ids=["nothing", "a part", "too much"]
)
def test_the_share_used_counts_what_is_set_aside(spent: float, reserved: float, share: float) -> None:
    """X-08: above 1 where runs cost more than was expected."""
    assert used(budget(4), spent, reserved) == share


NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
ENDS = "nothing starts before 2026-04-01T00:00:00Z, unless limits.max_cost is raised"


@pytest.mark.parametrize(
    ("of", "spending", "expected"),
    [
        pytest.param(budget(), spending(), None, id="nothing spent"),
        pytest.param(budget(), spending(spent=0.5, dearest=0.5), None, id="enough left"),
        pytest.param(budget(), spending(spent=0.5, reserved=0.5, live=1), None, id="set aside for one that goes on"),
        pytest.param(
            budget(),
            spending(spent=1.5),
            f"its budget is used up, 1.5 of 1 are spent in this month: {ENDS}",
            id="spent",
        ),
        pytest.param(
            budget(estimate=0.5),
            spending(spent=0.75),
            f"its budget is used up, 0.75 of 1 are spent in this month and a run is taken to cost 0.5: {ENDS}",
            id="too little left for one more",
        ),
        pytest.param(
            budget(estimate=0.5),
            spending(spent=1),
            f"its budget is used up, 1 of 1 are spent in this month: {ENDS}",
            id="spent just so",
        ),
        pytest.param(
            budget(period="day"),
            spending(dearest=1.5),
            "the dearest of its last runs cost 1.5, more than the 1 that it may spend: a single run starts in each "
            "day, unless limits.max_cost is raised or limits.estimate says what a run costs",
            id="one run costs more than all of it",
        ),
        pytest.param(budget(), spending(dearest=1.0), None, id="one run costs all of it"),
    ],
)
def test_whoever_deploys_is_warned_of_a_budget_that_is_too_small(
    of: Budget, spending: Spending, expected: str | None
) -> None:
    """X-08: with when it ends and what to change."""
    assert warning(of, spending, NOW) == expected


@pytest.mark.parametrize(
    ("of", "spending", "number", "is_over"),
    [
        pytest.param(budget(), spending(spent=1), 0, True, id="all is spent"),
        pytest.param(budget(), spending(spent=1 - 1e-10), 0, True, id="all but what rounding loses"),
        pytest.param(budget(estimate=0.25), spending(spent=0.25, reserved=0.75, live=3), 0, False, id="all set aside"),
        pytest.param(
            budget(estimate=0.25), spending(spent=0.5, reserved=0.75, live=3), 0, True, id="more than all set aside"
        ),
        pytest.param(budget(), spending(spent=0.5), 1, False, id="nobody knows what a run costs"),
        pytest.param(budget(), spending(dearest=0.0), None, False, id="runs cost nothing"),
    ],
)
def test_what_is_left_buys_so_many_runs(of: Budget, spending: Spending, number: int | None, is_over: bool) -> None:
    """X-08."""
    assert affordable(of, spending) == number
    assert is_used_up(of, spending) is is_over


def test_a_run_of_unknown_cost_is_taken_to_cost_nothing() -> None:
    """X-08: nothing is set aside for it."""
    assert expected(budget(), spending()) == 0
