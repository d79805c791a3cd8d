"""Stored specs: parsed completely, or as far as this release can read them."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from revisions.history.chain import canonical
from revisions.spec import stored
from revisions.spec.stored import Unreadable
from revisions.spec.trigger import CatchupPolicy, CatchupSpec, ScheduleSpec


def trigger(**written: Any) -> str:
    return canonical({"task_version": "v1", "schedule": {"every": "1m"}} | written)


def test_a_trigger_spec_has_typed_values_and_defaults() -> None:
    """R-10: durations, instants and days are parsed; missing fields have their defaults."""
    schedule = {"every": "90s", "start": "2026-03-01T01:00:00+01:00", "exclude": ["2026-03-02/2026-03-03"]}
    spec = stored.trigger_spec(trigger(schedule=schedule, start_within="PT1H", expect={"success_by": "09:30"}))
    assert spec.schedule.every == timedelta(seconds=90)
    assert spec.schedule.start == datetime(2026, 3, 1, tzinfo=UTC)
    assert spec.schedule.exclude == {date(2026, 3, 2), date(2026, 3, 3)}
    assert spec.start_within == timedelta(hours=1)
    assert spec.expect is not None
    assert (spec.expect.success_by, spec.expect.within) == (time(9, 30), None)
    assert (spec.catchup, spec.retry.max_attempts, spec.deactivate_after) == (CatchupSpec(), 3, 5)


def test_a_text_is_parsed_once() -> None:
    """L-04: a pass reads thousands of specs per second, so parsed specs are cached and share their defaults."""
    text = trigger(description="cached")
    assert stored.trigger_spec(text) is stored.trigger_spec(text)
    assert stored.trigger_spec(text).retry is stored.trigger_spec(trigger()).retry


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (trigger(schedule={"every": "1 fortnight"}), "spec.schedule.every: '1 fortnight' is not a span of time"),
        (trigger(later=1), "spec.later: is not a known field"),
        (trigger(schedule={"every": "1m", "exclude": ["x"]}), "spec.schedule.exclude[0]: 'x' is not a date"),
        (trigger(catchup={"policy": "some"}), "spec.catchup.policy: 'some' is not known"),
        ('{"schedule":{"every":"1m"}}', "spec.task_version: is missing"),
        ("[]", "is no mapping"),
        ("{", "is no JSON"),
    ],
)
def test_the_error_of_an_unreadable_spec_names_the_field(text: str, message: str) -> None:
    """L-13: with its path and the fault."""
    with pytest.raises(Unreadable) as refused:
        stored.trigger_spec(text)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("wrong", "schedule"),
    [
        ({"schedule": {"every": "1 fortnight", "count": 3}}, ScheduleSpec(count=3)),
        ({"schedule": {"every": "1m", "later": {"a": 1}}}, ScheduleSpec(every="1m")),  # type: ignore[arg-type]
        ({"schedule": {"calendars": ["a", 1], "every": "1m"}}, ScheduleSpec(every="1m")),  # type: ignore[arg-type]
        ({"schedule": "daily"}, ScheduleSpec()),
    ],
    ids=["a value", "a field", "an entry of a list", "a block"],
)
def test_unreadable_fields_are_left_out(wrong: dict[str, Any], schedule: ScheduleSpec) -> None:
    """L-13: so that a trigger with such a field can be paused or replaced."""
    spec = stored.readable_trigger(trigger(catchup={"policy": "all", "inactive": True}, later=2, **wrong))
    assert spec.schedule == schedule
    assert spec.catchup == CatchupSpec(policy=CatchupPolicy.ALL, inactive=True)


def test_a_spec_without_a_task_version_is_unreadable() -> None:
    """L-13: the task that the trigger is bound to is unknown."""
    for text in ("{}", "[]", "7", '{"task_version":1}'):
        with pytest.raises(Unreadable):
            stored.readable_trigger(text)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"every": "60s"}, {"every": "60s", "kickoff_time_input": "at"}, True),
        ({"every": "60s"}, {"every": "1m"}, False),
        ({"every": "1m"}, {"every": "1m", "count": 3}, False),
        ({"cron": "@daily"}, {"cron": "@daily", "gap": "skip"}, False),
        ({"every": "1m"}, {"every": "1m", "exclude": []}, False),
    ],
)
def test_schedules_with_equal_text_have_the_same_timing(
    first: dict[str, Any], second: dict[str, Any], same: bool
) -> None:
    """R-21: other blocks of the spec do not matter; a rewritten block is a new schedule."""
    assert stored.same_timing(trigger(schedule=first), trigger(schedule=second, description="other")) is same


def test_a_task_spec_has_its_launchers_block() -> None:
    """X-10, X-12, X-04: the block is kept as written, and parsed by the launcher."""
    written = {"launcher": "process", "process": {"command": ["a"]}, "timeout": "5m", "secrets": ["A"]}
    spec = stored.task_spec(canonical(written | {"concurrency": {"limit": 2}}))
    assert (spec.launcher, spec.block, spec.timeout) == ("process", {"command": ["a"]}, timedelta(minutes=5))
    assert (spec.secrets, spec.concurrency_limit, spec.inputs) == (("A",), 2, {})
    with pytest.raises(Unreadable, match=r"spec\.timeout: 'soon' is not a span of time"):
        stored.task_spec(canonical(written | {"timeout": "soon"}))
    assert stored.readable_task(canonical(written | {"timeout": "soon"})).timeout == timedelta(hours=1)


def test_a_calendar_closes_no_day_after_its_end() -> None:
    """S-13: the day of `until` is still closed."""
    spec = stored.calendar_spec(
        canonical({"owner": "ann", "dates": ["2026-12-24/2026-12-26"], "until": "2026-12-25T12:00:00Z"})
    )
    assert spec.days == {date(2026, 12, 24), date(2026, 12, 25)}
    with pytest.raises(Unreadable, match=r"spec\.dates\[0\]: 'x' is not a date"):
        stored.calendar_spec('{"dates":["x"],"owner":"ann"}')


def test_the_instant_resolved_from_in_is_read() -> None:
    """S-15: None for any other kind of schedule."""
    assert stored.resolved_at("{}") is None
    assert stored.resolved_at('{"at":"2026-03-02T08:00:00Z"}') == datetime(2026, 3, 2, 8, tzinfo=UTC)
