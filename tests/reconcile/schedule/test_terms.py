"""What a stored spec means for deciding."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from reconcile.schedule.terms import (
    TaskTerms,
    Terms,
    calendars_of,
    ends_by_expiry,
    resolve,
    start_by,
    task_terms,
    terms,
    timing,
)

from reconcile.schedule.definition import Bounded, Every, Once
from revisions.history.chain import canonical

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
EXPIRES = {"limits": {"expires_at": "2026-04-01T00:00:00Z"}}
AT_EXPIRY = datetime(2026, 4, 1, tzinfo=UTC)


def terms_of(resolved: str = "{}", **fields: Any) -> Terms:
    return terms(canonical({"task_version": "v1", "schedule": {"every": "1h"}, **fields}), resolved)


@pytest.mark.parametrize(
    ("spec", "field", "expected"),
    [
        pytest.param({}, "schedule", Every(timedelta(hours=1)), id="the schedule"),
        pytest.param({}, "count", None, id="no count"),
        pytest.param({"schedule": {"every": "1h", "count": 3}}, "count", 3, id="a count"),
        pytest.param({}, "spread", timedelta(0), id="no spread"),
        pytest.param({"schedule": {"every": "1h", "spread": "5m"}}, "spread", timedelta(minutes=5), id="a spread"),
        pytest.param({}, "policy", "latest", id="latest by default"),
        pytest.param({"catchup": {"policy": "none"}}, "policy", "none", id="a policy"),
        pytest.param({}, "window", None, id="no window"),
        pytest.param({"catchup": {"window": "2h"}}, "window", timedelta(hours=2), id="a window"),
        pytest.param({}, "overlap", "skip", id="skip by default"),
        pytest.param({"catchup": {"policy": "all"}}, "overlap", "queue_all", id="queue_all by default under all"),
        pytest.param({"catchup": {"policy": "all"}, "overlap": "skip"}, "overlap", "skip", id="an overlap"),
        pytest.param({"retry": {"max_attempts": 4}}, "max_attempts", 4, id="attempts"),
        pytest.param({}, "start_within", None, id="it may wait for its start"),
        pytest.param({"start_within": "5m"}, "start_within", timedelta(minutes=5), id="it may wait so long"),
        pytest.param({}, "deactivate_after", 5, id="failures by default"),
        pytest.param({"deactivate_after": 2}, "deactivate_after", 2, id="failures"),
        pytest.param({"input": {"b": 1, "a": 2}}, "input", '{"a":2,"b":1}', id="the input, canonical"),
        pytest.param({}, "budget", None, id="no budget"),
        pytest.param({}, "expires_at", None, id="no expiry"),
        pytest.param(EXPIRES, "expires_at", AT_EXPIRY, id="an expiry that ends the schedule"),
        pytest.param(
            {**EXPIRES, "schedule": {"at": "2026-03-05T00:00:00Z"}}, "expires_at", None, id="one that does not"
        ),
        pytest.param({}, "max_runs", None, id="no max_runs"),
        pytest.param({"limits": {"max_runs": 3}}, "max_runs", 3, id="max_runs"),
        pytest.param({}, "requires_approval", False, id="no approval"),
        pytest.param({"requires_approval": True}, "requires_approval", True, id="an approval"),
        pytest.param({}, "scopes", ("run.start",), id="scopes by default"),
    ],
)
def test_defaults_are_filled_in(spec: dict[str, Any], field: str, expected: object) -> None:
    """R-10: they never change within an apiVersion."""
    assert getattr(terms_of(**spec), field) == expected


def test_a_budget_is_read() -> None:
    """X-08."""
    budget = terms_of(limits={"max_cost": 5}).budget
    assert budget is not None
    assert budget.max_cost == 5


def test_a_schedule_ends_before_its_expiry_and_keeps_closed_days() -> None:
    """S-13, S-15, X-08."""
    closed = (("bank", frozenset({date(2026, 3, 3)})),)
    spec = canonical({"task_version": "v1", "schedule": {"every": "1h", "calendars": ["bank"]}, **EXPIRES})
    expected = Bounded(Every(timedelta(hours=1)), None, AT_EXPIRY - timedelta(seconds=1), closed)
    assert terms(spec, "{}", closed).schedule == expected
    assert terms_of('{"at":"2026-03-02T10:00:00Z"}', schedule={"in": "2h"}).schedule == Once(NOW + timedelta(hours=2))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"schedule": {"sometimes": True}}, id="an unknown schedule"),
        pytest.param({"schedule": {"every": "1h"}, "later": 1}, id="an unknown field"),
    ],
)
def test_what_this_release_cannot_read_is_a_value_error(spec: dict[str, Any]) -> None:
    """L-13."""
    with pytest.raises(ValueError):  # noqa: PT011  # whatever its words
        terms_of(**spec)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, TaskTerms(), id="nothing"),
        pytest.param({"concurrency": {"limit": 2}}, TaskTerms(limit=2), id="a limit"),
        pytest.param({"inputs": {"a": {}}}, TaskTerms(inputs=frozenset({"a"})), id="inputs"),
        pytest.param({"inputs": {}}, TaskTerms(), id="no inputs: any"),
        pytest.param({"requires_approval": True}, TaskTerms(requires_approval=True), id="an approval"),
    ],
)
def test_a_task_version_has_terms_too(spec: dict[str, Any], expected: TaskTerms) -> None:
    """X-04, R-12, X-14."""
    assert task_terms(canonical(spec)) == expected


def test_a_run_may_wait_for_its_start_as_long_as_the_spec_says() -> None:
    """X-18: for ever without one."""
    assert start_by(terms_of(start_within="5m"), NOW) == NOW + timedelta(minutes=5)
    assert start_by(terms_of(), NOW) is None


@pytest.mark.parametrize(
    ("schedule", "input", "expected"),
    [
        pytest.param({"every": "1h"}, {}, (), id="none"),
        pytest.param({"every": "1h", "calendars": ["b", "a"]}, {}, ("b", "a"), id="as written"),
        pytest.param({"every": "1h"}, {"calendars": ["x"]}, (), id="an input of that name"),
    ],
)
def test_a_spec_names_its_calendars(schedule: dict[str, Any], input: dict[str, Any], expected: tuple[str, ...]) -> None:
    """S-13."""
    assert calendars_of(canonical({"schedule": schedule, "input": input})) == expected


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        pytest.param({"every": "1h"}, True, id="an interval"),
        pytest.param({"cron": "@daily"}, True, id="an expression"),
        pytest.param({"at": "2026-03-02T08:00:00Z"}, False, id="a single instant"),
        pytest.param({"every": "1h", "until": "2026-04-01T00:00:00Z"}, True, id="until at the same instant"),
        pytest.param({"every": "1h", "until": "2026-03-31T00:00:00Z"}, False, id="until before"),
        pytest.param({"every": "1h", "until": "2026-04-02T00:00:00Z"}, True, id="until after"),
    ],
)
def test_an_expiry_may_be_what_ends_a_schedule(schedule: dict[str, Any], expected: bool) -> None:
    """X-08."""
    assert ends_by_expiry({"schedule": schedule, **EXPIRES}) is expected
    assert not ends_by_expiry({"schedule": schedule})


@pytest.mark.parametrize(
    ("block", "now", "expected"),
    [
        pytest.param({"every": "1h"}, NOW, "{}", id="nothing to work out"),
        pytest.param({"in": "2h"}, NOW, '{"at":"2026-03-02T10:00:00Z"}', id="a whole second"),
        pytest.param(
            {"in": "2h"}, NOW + timedelta(microseconds=1), '{"at":"2026-03-02T10:00:01Z"}', id="the next whole second"
        ),
    ],
)
def test_an_in_is_worked_out_at_its_deploy(block: dict[str, str], now: datetime, expected: str) -> None:
    """S-15: never earlier than asked for."""
    assert resolve(block, now) == expected


def test_the_input_that_gets_the_time_is_no_timing() -> None:
    """R-21: all else of the block is."""
    assert timing({"every": "1h", "kickoff_time_input": "x", "count": 3}) == {"every": "1h", "count": 3}
