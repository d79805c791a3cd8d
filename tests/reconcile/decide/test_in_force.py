"""Which revision of a trigger was in force when, and which of that time has occurrences."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide.in_force import (
    AT_FIRST,
    AT_ONCE,
    RevisionPeriod,
    following,
    named,
    newest,
    observing,
    period_at,
    periods,
    size,
)
from revisions.errors import Invalid
from revisions.history.chain import canonical
from revisions.history.triggers import SYSTEM, Action, Revision
from revisions.ids import TriggerKey

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
KEY = TriggerKey("acme", "production", "report", "tick")
HOURLY: dict[str, Any] = {"schedule": {"every": "1h"}}
HALF_HOURLY: dict[str, Any] = {"schedule": {"every": "30m"}}
COUNTING: dict[str, Any] = {**HOURLY, "catchup": {"inactive": True}}
DEPLOY, ACTIVATE, DEACTIVATE, DELETE = Action.DEPLOY, Action.ACTIVATE, Action.DEACTIVATE, Action.DELETE


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def hour_of(instant: datetime) -> float:
    return (instant - START) / timedelta(hours=1)


def revision(
    hour: float, action: Action, spec: dict[str, Any], actor: str = "ann", until: float | None = None
) -> Revision:
    """A change at an hour; a deploy leaves the trigger active unless its spec says `active: false`."""
    written = {field: value for field, value in spec.items() if field != "active"}
    return Revision(
        trigger_id="T",
        key=KEY,
        revision=1 + int(2 * hour),
        action=action,
        actor=actor,
        reason="",
        at=at(hour),
        active=spec.get("active", action in (DEPLOY, ACTIVATE)),
        tags=(),
        until=None if until is None else at(until),
        origin=None,
        idempotency_key=None,
        resolved="{}",
        scopes="[]",
        spec=canonical({"task_version": "v1", **written}),
        previous_hash="",
        hash="",
    )


def lived(found: list[RevisionPeriod]) -> list[tuple[float, float | None, float, bool, bool]]:
    """(after, until, baseline, counts, is_closed) of each era."""
    return [
        (
            hour_of(era.after),
            None if era.until is None else hour_of(era.until),
            hour_of(era.baseline),
            era.counts,
            era.is_closed,
        )
        for era in found
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param([], [], id="no revision"),
        pytest.param([revision(0, DEPLOY, HOURLY)], [(0, None, 0, True, False)], id="one deploy"),
        pytest.param(
            [revision(0, DEPLOY, HOURLY), revision(2, DEPLOY, {**HOURLY, "description": "x"})],
            [(0, 2, 0, True, False), (2, None, 0, True, False)],
            id="another description keeps the baseline",
        ),
        pytest.param(
            [revision(0, DEPLOY, HOURLY), revision(2, DEPLOY, HALF_HOURLY)],
            [(0, 2, 0, True, True), (2, None, 2, True, False)],
            id="another schedule closes what was before",
        ),
        pytest.param(
            [revision(0, DEPLOY, HOURLY), revision(2, DEACTIVATE, HOURLY), revision(4, ACTIVATE, HOURLY)],
            [(0, 2, 0, True, True), (2, 4, 2, False, True), (4, None, 4, True, False)],
            id="a pause does not count",
        ),
        pytest.param(
            [revision(0, DEPLOY, COUNTING), revision(2, DEACTIVATE, COUNTING), revision(4, ACTIVATE, COUNTING)],
            [(0, 2, 0, True, False), (2, 4, 0, True, False), (4, None, 0, True, False)],
            id="a pause under catchup.inactive counts",
        ),
        pytest.param(
            [
                revision(0, DEPLOY, HOURLY),
                revision(2, DEACTIVATE, HOURLY, until=3),
                revision(5, ACTIVATE, HOURLY, SYSTEM),
            ],
            [(0, 2, 0, True, True), (2, 3, 2, False, True), (3, None, 3, True, False)],
            id="a pause ends when it was to, however late that was seen",
        ),
        pytest.param(
            [
                revision(0, DEPLOY, HOURLY),
                revision(2, DEACTIVATE, HOURLY, until=3),
                revision(5, ACTIVATE, HOURLY, "ann"),
            ],
            [(0, 2, 0, True, True), (2, 5, 2, False, True), (5, None, 5, True, False)],
            id="a person ends a pause when he does",
        ),
        pytest.param(
            [
                revision(0, DEPLOY, HOURLY),
                revision(2, DEACTIVATE, HOURLY, until=3),
                revision(4, DEPLOY, {**HALF_HOURLY, "active": False}, until=3),
                revision(5, ACTIVATE, HALF_HOURLY, SYSTEM),
            ],
            [(0, 2, 0, True, True), (2, 4, 2, False, True), (4, None, 4, True, False)],
            id="a pause does not end before the schedule that came meanwhile",
        ),
        pytest.param(
            [
                revision(0, DEPLOY, HOURLY),
                revision(2, DEACTIVATE, HOURLY),
                revision(3, DEPLOY, {**COUNTING, "active": False}),
                revision(4, ACTIVATE, COUNTING),
            ],
            [(0, 2, 0, True, True), (2, 3, 2, False, True), (3, 4, 3, True, False), (4, None, 3, True, False)],
            id="a pause counts from where its spec said so",
        ),
        pytest.param(
            [revision(0, DEPLOY, HOURLY), revision(2, DELETE, HOURLY), revision(4, DEPLOY, HOURLY)],
            [(0, 2, 0, True, True), (2, 4, 2, False, True), (4, None, 4, True, False)],
            id="deleted time does not count",
        ),
        pytest.param(
            [revision(0, DEPLOY, HOURLY), revision(2, DEPLOY, HALF_HOURLY), revision(2, DEACTIVATE, HALF_HOURLY)],
            [(0, 2, 0, True, True), (2, None, 2, False, False)],
            id="what lasted no time is left out",
        ),
        pytest.param(
            [revision(0, DEPLOY, {**HOURLY, "active": False}), revision(2, ACTIVATE, HOURLY)],
            [(0, 2, 0, False, True), (2, None, 2, True, False)],
            id="deployed inactive",
        ),
    ],
)
def test_each_revision_has_its_time(
    changes: list[Revision], expected: list[tuple[float, float | None, float, bool, bool]]
) -> None:
    """R-20, R-21, L-05: (after, until], since when occurrences count, whether they do, and whether all is decided."""
    assert lived(periods(changes)) == expected


def test_an_era_has_its_beginning_outside_and_its_end_inside() -> None:
    """R-20: the change at an instant is in force only after it."""
    first, second = periods([revision(0, DEPLOY, HOURLY), revision(2, DEPLOY, HALF_HOURLY)])
    assert [first.holds(at(hour)) for hour in (0, 1, 2, 3)] == [False, True, True, False]
    assert [second.holds(at(hour)) for hour in (2, 3, 9_999)] == [False, True, True]
    assert first.within(at(-1), at(9)) == (at(0), at(2))
    assert first.within(at(1), at(1.5)) == (at(1), at(1.5))
    assert second.within(at(1), at(9)) == (at(2), at(9))
    assert [period_at([first, second], at(hour)) for hour in (0, 1, 2, 3)] == [None, first, first, second]


LIFE = periods(
    [
        revision(0, DEPLOY, HOURLY),
        revision(3, DEPLOY, HALF_HOURLY),
        revision(5, DEACTIVATE, HALF_HOURLY),
        revision(7, ACTIVATE, HALF_HOURLY),
    ]
)
"""Hourly for three hours, half-hourly for two, inactive for two, then active again."""


@pytest.mark.parametrize(
    ("after", "until", "hours"),
    [
        pytest.param(0, 4, [1, 2, 3, 3.5, 4], id="through a change"),
        pytest.param(2, 3, [3], id="the end is inside"),
        pytest.param(4.5, 6, [5, 5.5, 6], id="inactive time is named too"),
        pytest.param(-5, 1, [1], id="nothing before the first"),
        pytest.param(3.1, 3.4, [], id="nothing between two"),
        pytest.param(4, 4, [], id="no time"),
    ],
)
def test_each_time_is_named_by_the_revision_then_in_force(after: float, until: float, hours: list[float]) -> None:
    """R-20, U-07: `size` counts the same without working it out."""
    found = list(named(LIFE, at(after), at(until)))
    assert [hour_of(one.at) for one in found] == hours
    assert all(one.period.holds(one.at) for one in found)
    assert size(LIFE, at(after), at(until), 99) == len(hours)
    assert size(LIFE, at(after), at(until), 2) == min(2, len(hours))


def test_long_times_are_named_in_parts() -> None:
    """L-08: a few at first, more later, each occurrence once."""
    life = periods([revision(0, DEPLOY, {"schedule": {"every": "1s"}})])
    number = AT_FIRST + 8 * AT_FIRST + 2 * AT_ONCE
    found = [one.at for one in named(life, at(0), at(0) + timedelta(seconds=number))]
    assert found == [at(0) + timedelta(seconds=second) for second in range(1, number + 1)]
    first = next(named(life, at(0), datetime(9000, 1, 1, tzinfo=UTC)))
    assert first.at == at(0) + timedelta(seconds=1)
    assert size(life, at(0), datetime(9000, 1, 1, tzinfo=UTC), 3) == 3


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        pytest.param(2.5, 2, id="in the first era"),
        pytest.param(3, 3, id="at the end of an era"),
        pytest.param(3.2, 3, id="before the first of an era"),
        pytest.param(5, 5, id="at the beginning of a pause"),
        pytest.param(6.9, None, id="in a pause"),
        pytest.param(7.2, None, id="nothing yet since a pause"),
        pytest.param(7.5, 7.5, id="since a pause"),
        pytest.param(0.5, None, id="before the first"),
    ],
)
def test_the_newest_is_not_looked_for_beyond_inactive_time(until: float, expected: float | None) -> None:
    """U-03: what a pause followed is another story."""
    found = newest(LIFE, at(until))
    assert (None if found is None else hour_of(found.at)) == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(-5, 1, id="before the first"),
        pytest.param(1, 2, id="after an occurrence"),
        pytest.param(2.5, 3, id="the end of an era is inside"),
        pytest.param(3, 3.5, id="at the end of an era"),
        pytest.param(5, 7.5, id="over a pause"),
        pytest.param(6, 7.5, id="in a pause"),
        pytest.param(8, 8.5, id="in the last era"),
    ],
)
def test_the_following_one_lies_in_time_that_counts(after: float, expected: float) -> None:
    """U-03, R-20: inactive time has none."""
    found = following(LIFE, at(after))
    assert found is not None
    assert hour_of(found.at) == expected
    assert found.period.holds(found.at)


def test_after_the_last_fire_nothing_follows() -> None:
    """S-15: a single instant fires once."""
    life = periods([revision(0, DEPLOY, {"schedule": {"at": "2026-03-02T09:00:00Z"}})])
    assert following(life, at(0)) is not None
    assert following(life, at(1)) is None
    assert newest(life, at(9)) is not None
    assert following([], at(0)) is None
    assert newest([], at(0)) is None


def test_an_era_observes_calendars_as_they_then_stood() -> None:
    """S-13: it is cut where one of those it names changed; the revision in force at an instant decides."""
    spec = {"schedule": {"cron": "0 9 * * *", "calendars": ["bank"]}}
    monday, tuesday = date(2026, 3, 9), date(2026, 3, 10)
    calendars = {
        "bank": [(at(-24), frozenset({monday})), (at(24), frozenset({tuesday}))],
        "other": [(at(5), frozenset({monday}))],
    }
    found = list(observing(periods([revision(0, DEPLOY, spec)]), calendars))
    assert [(hour_of(era.after), era.until, era.days_off) for era in found] == [
        (0, at(24), (("bank", frozenset({monday})),)),
        (24, None, (("bank", frozenset({tuesday})),)),
    ]
    assert [fire.at.day for fire in (one.fire for one in named(found, at(24 * 6), at(24 * 9 + 2)))] == [8, 9, 11]


@pytest.mark.parametrize(
    "changed",
    [pytest.param(0, id="at its beginning"), pytest.param(-1, id="before it"), pytest.param(24, id="at its end")],
)
def test_a_change_of_a_calendar_at_the_edge_of_an_era_cuts_nothing(changed: float) -> None:
    """S-13: a calendar that changed at the very beginning is already in force."""
    spec = {"schedule": {"cron": "0 9 * * *", "calendars": ["bank"]}}
    life = periods([revision(0, DEPLOY, spec), revision(24, DEACTIVATE, spec)])
    closed = frozenset({date(2026, 3, 9)})
    found = list(observing(life, {"bank": [(at(changed), closed)]}))
    assert len(found) == 2
    assert found[0].days_off == (("bank", closed if changed <= 0 else frozenset()),)
    assert found[1].days_off == (("bank", closed),)


def test_a_trigger_without_calendars_is_cut_by_none() -> None:
    """S-13: nor by one that nobody has written."""
    plain = periods([revision(0, DEPLOY, HOURLY)])
    assert list(observing(plain, {"bank": [(at(1), frozenset())]})) == plain
    spec = {"schedule": {"every": "1h", "calendars": ["nobody"]}}
    [era] = observing(periods([revision(0, DEPLOY, spec)]), {})
    assert era.days_off == (("nobody", frozenset()),)


def test_a_spec_that_cannot_be_read_names_its_revision() -> None:
    """L-13: an era made by a release that knew more."""
    [era] = periods([revision(0, DEPLOY, {"schedule": {"sometimes": True}})])
    with pytest.raises(Invalid, match="cannot be read by this release") as refused:
        _ = era.schedule
    assert refused.value.errors[0].path == "revision 1"


def test_a_spread_trigger_fires_later_than_its_nominal_times() -> None:
    """S-12: by its own delay, the same for ever."""
    [era] = periods([revision(0, DEPLOY, {"schedule": {"every": "1h", "spread": "10m"}})])
    assert era.delay == timedelta(seconds=526)
    assert periods([revision(0, DEPLOY, HOURLY)])[0].delay == timedelta(0)
