"""What people are told of a trigger's limits."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconcile.decide.automatic_stops import beyond_limits, limit_warnings
from reconcile.decide.budget import Spending
from revisions.spec.trigger import TriggerSpec
from tests.blocks import trigger_spec

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
REACHED = "3 of its runs have succeeded, and limits.max_runs is 3: "


def spec_of(**limits: Any) -> TriggerSpec:
    return trigger_spec(limits=limits)


@pytest.mark.parametrize(
    ("spec", "successes", "expected"),
    [
        pytest.param(trigger_spec(), 9, [], id="no limits"),
        pytest.param(spec_of(max_runs=3), 2, [], id="one may still succeed"),
        pytest.param(
            spec_of(max_runs=3),
            3,
            [f"{REACHED}it is deactivated before anything more fires, unless limits.max_runs is raised"],
            id="as many succeeded as may",
        ),
        pytest.param(spec_of(expires_at="2026-03-09T08:00:01Z"), 0, [], id="expires in more than a week"),
        pytest.param(
            spec_of(expires_at="2026-03-09T08:00:00Z"),
            0,
            ["it expires at 2026-03-09T08:00:00Z: nothing fires from then on, unless limits.expires_at is moved"],
            id="expires in a week",
        ),
    ],
)
def test_whoever_deploys_is_told_of_limits_that_are_near(
    spec: TriggerSpec, successes: int, expected: list[str]
) -> None:
    """X-08."""
    assert list(limit_warnings(spec, successes, None, NOW)) == expected


def test_a_budget_is_told_of_where_its_spending_is_known() -> None:
    """X-08: and only where the spec has one."""
    spent = Spending(5, 0, 0, None)
    [told] = limit_warnings(spec_of(max_cost=5.0), 0, spent, NOW)
    assert told.startswith("its budget is used up, 5 of 5")
    assert list(limit_warnings(spec_of(max_cost=5.0), 0, None, NOW)) == []
    assert list(limit_warnings(spec_of(max_cost=5.0), 0, Spending(0, 0, 0, None), NOW)) == []
    assert list(limit_warnings(spec_of(), 0, spent, NOW)) == []


@pytest.mark.parametrize(
    ("spec", "successes", "expected"),
    [
        pytest.param(spec_of(max_runs=3), 3, [f"{REACHED}runs by hand go beyond it"], id="reached"),
        pytest.param(spec_of(max_runs=3), 2, [], id="not reached"),
        pytest.param(spec_of(), 2, [], id="none"),
    ],
)
def test_runs_by_hand_go_beyond_max_runs(spec: TriggerSpec, successes: int, expected: list[str]) -> None:
    """X-08: and whoever starts them is told."""
    assert list(beyond_limits(spec, successes)) == expected
