"""What a trigger may spend in a period."""

from datetime import UTC, datetime

import pytest

from reconcile.decide.budget import Budget, Spending, affordable, budget_of, expected, is_used_up
from reconcile.schedule.zones import zone
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
