"""Specs compiled for deciding."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide.terms import Terms, ends_by_expiry, offset, resolve, terms
from reconcile.schedule.definition import Bounded, Every, Once
from revisions.history.chain import canonical
from revisions.spec.stored import same_timing
from tests.blocks import trigger_spec

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
        pytest.param({}, "overlap", "skip", id="skip by default"),
        pytest.param({"catchup": {"policy": "all"}}, "overlap", "queue_all", id="queue_all by default under all"),
        pytest.param({"catchup": {"policy": "all"}, "overlap": "skip"}, "overlap", "skip", id="a written overlap"),
        pytest.param({"input": {"b": 1, "a": 2}}, "input", '{"a":2,"b":1}', id="the input, canonical"),
        pytest.param({}, "budget", None, id="no budget"),
        pytest.param({}, "expires_at", None, id="no expiry"),
        pytest.param(EXPIRES, "expires_at", AT_EXPIRY, id="an expiry that ends the schedule"),
        pytest.param(
            {**EXPIRES, "schedule": {"at": "2026-03-05T00:00:00Z"}}, "expires_at", None, id="an expiry that does not"
        ),
    ],
)
def test_terms_follow_from_the_spec(spec: dict[str, Any], field: str, expected: object) -> None:
    """R-10: defaults never change within an apiVersion."""
    assert getattr(terms_of(**spec), field) == expected


def test_a_budget_is_compiled() -> None:
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
def test_a_spec_that_this_release_cannot_read_is_a_value_error(spec: dict[str, Any]) -> None:
    """L-13."""
    with pytest.raises(ValueError):  # noqa: PT011  # whatever its words
        terms_of(**spec)


def test_a_run_may_wait_for_its_start_as_long_as_the_spec_says() -> None:
    """X-18: for ever without `start_within`."""
    assert terms_of(start_within="5m").start_by(NOW) == NOW + timedelta(minutes=5)
    assert terms_of().start_by(NOW) is None


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
    assert ends_by_expiry(trigger_spec(schedule=schedule, **EXPIRES)) is expected
    assert not ends_by_expiry(trigger_spec(schedule=schedule))


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
    assert resolve(trigger_spec(schedule=block).schedule, now) == expected


@pytest.mark.parametrize(
    ("field", "same"),
    [pytest.param("kickoff_time_input", True, id="the input that gets the time"), ("count", False)],
)
def test_a_schedule_block_is_unchanged_but_for_the_input_that_gets_the_time(field: str, same: bool) -> None:
    """R-21."""
    values = {"kickoff_time_input": "x", "count": 3}
    before, after = {"every": "1h"}, {"every": "1h", field: values[field]}
    assert same_timing(canonical({"schedule": before}), canonical({"schedule": after})) is same


def test_each_trigger_has_its_place_in_the_spread() -> None:
    """S-12: the same for ever, in whole seconds below the window."""
    names = [f"acme/production/report/t{number}" for number in range(500)]
    offsets = [offset(timedelta(seconds=10), name) for name in names]
    assert {value.total_seconds() for value in offsets} == set(range(10))
    assert offsets == [offset(timedelta(seconds=10), name) for name in names]
    assert offset(timedelta(minutes=10), "acme/production/report/tick") == timedelta(seconds=526)
    assert offset(timedelta(0), names[0]) == timedelta(0)
    assert offset(timedelta(seconds=1), names[0]) == timedelta(0)
