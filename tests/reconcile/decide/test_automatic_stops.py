"""When a trigger is to be deactivated by the system."""

from typing import Any

import pytest

from reconcile.decide.automatic_stops import Stop, over, still_wanted, worn_out
from revisions.history.triggers import StopReason
from revisions.spec.trigger import TriggerSpec
from tests.blocks import trigger_spec

FAILURES, MAX_RUNS = Stop(StopReason.FAILURES), Stop(StopReason.MAX_RUNS)
EXPIRES = {"expires_at": "2026-04-01T00:00:00Z"}


def spec_of(**fields: Any) -> TriggerSpec:
    return trigger_spec(**{"schedule": {"every": "1h"}, **fields})


@pytest.mark.parametrize(
    ("spec", "failures", "successes", "expected"),
    [
        pytest.param(spec_of(), 4, 99, None, id="one failure below the default"),
        pytest.param(spec_of(), 5, 99, FAILURES, id="as many failures as the default"),
        pytest.param(spec_of(deactivate_after=2), 1, 0, None, id="one below its own limit"),
        pytest.param(spec_of(deactivate_after=2), 2, 0, FAILURES, id="at its own limit"),
        pytest.param(spec_of(deactivate_after=2), 3, 0, FAILURES, id="beyond its own limit"),
        pytest.param(spec_of(limits={"max_runs": 3}), 0, 2, None, id="one success below max_runs"),
        pytest.param(spec_of(limits={"max_runs": 3}), 0, 3, MAX_RUNS, id="as many successes as max_runs"),
        pytest.param(spec_of(limits={"max_runs": 3}), 0, 4, MAX_RUNS, id="more successes than max_runs"),
        pytest.param(spec_of(limits={"max_cost": 3}), 0, 9, None, id="another limit"),
        pytest.param(spec_of(limits={"max_runs": 3}, deactivate_after=1), 1, 3, FAILURES, id="both: the failures"),
    ],
)
def test_failures_in_a_row_and_successes_in_all_stop_a_trigger(
    spec: TriggerSpec, failures: int, successes: int, expected: Stop | None
) -> None:
    """X-07, X-08."""
    assert worn_out(spec, failures, successes) == expected


@pytest.mark.parametrize(
    ("successes", "live", "policy", "wanted"),
    [
        pytest.param(0, 0, "allow", 5, id="none yet"),
        pytest.param(2, 0, "allow", 3, id="some succeeded"),
        pytest.param(2, 1, "allow", 2, id="one goes on"),
        pytest.param(2, 9, "skip", 0, id="more go on than are wanted"),
        pytest.param(2, 1, "cancel", 3, id="what goes on is ended: cancel"),
        pytest.param(2, 1, "terminate", 3, id="what goes on is ended: terminate"),
        pytest.param(7, 0, "allow", 0, id="more succeeded than may"),
    ],
)
def test_no_more_start_than_are_to_succeed(successes: int, live: int, policy: str, wanted: int) -> None:
    """X-08: all that goes on may succeed, but for what the policy ends."""
    assert still_wanted(5, successes, live, policy) == wanted


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param(spec_of(schedule={"at": "2026-03-02T08:00:00Z"}), StopReason.COMPLETED, id="a single instant"),
        pytest.param(
            spec_of(schedule={"at": "2026-03-02T08:00:00Z"}, limits=EXPIRES),
            StopReason.COMPLETED,
            id="a single instant before its expiry",
        ),
        pytest.param(spec_of(limits=EXPIRES), StopReason.EXPIRED, id="its expiry"),
        pytest.param(
            spec_of(schedule={"cron": "@daily", "until": "2026-05-01T00:00:00Z"}, limits=EXPIRES),
            StopReason.EXPIRED,
            id="its expiry before until",
        ),
        pytest.param(
            spec_of(schedule={"cron": "@daily", "until": "2026-04-01T00:00:00Z"}, limits=EXPIRES),
            StopReason.EXPIRED,
            id="its expiry at until",
        ),
        pytest.param(
            spec_of(schedule={"cron": "@daily", "until": "2026-03-31T23:59:59Z"}, limits=EXPIRES),
            StopReason.COMPLETED,
            id="until before its expiry",
        ),
    ],
)
def test_a_trigger_without_a_fire_left_is_completed_or_expired(spec: TriggerSpec, reason: StopReason) -> None:
    """S-15, X-08: by what ended its schedule."""
    assert over(spec) == Stop(reason)
