"""What a schedule means, one rule at a time (S-01 to S-06, S-09, S-11, S-15)."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from croniter import croniter

from reconcile.schedule.fires import (
    Cron,
    Every,
    LeftOut,
    Once,
    Schedule,
    ScheduleError,
    count,
    fires,
    instant,
    last,
    left_out,
    never_fires,
)
from revisions.spec.trigger import Fold, Gap
from tests.blocks import parse

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
SPRING = instant("2026-03-28T12:00:00Z")  # Berlin goes from 02:00 to 03:00 on the 29th
AUTUMN = instant("2026-10-24T12:00:00Z")  # and from 03:00 back to 02:00 on October 25th


def berlin(expression: str, **more: str) -> Schedule:
    return parse({"cron": expression, "timezone": "Europe/Berlin", **more})


def walls(due: Schedule, after: datetime, limit: int) -> list[str]:
    return [fire.local.isoformat() for fire in fires(due, after, None, limit)]


def ids(due: Schedule, after: datetime, limit: int) -> list[str]:
    return [fire.id for fire in fires(due, after, None, limit)]


def test_each_kind_of_block_makes_its_schedule() -> None:
    """S-01: cron with UTC, skip and auto by default; every with the epoch as anchor; at; in."""
    assert parse({"cron": "0 8 * * 1-5"}) == Cron("0 8 * * 1-5", "UTC", Gap.SKIP, Fold.AUTO)
    assert parse({"every": "15m"}) == Every(timedelta(minutes=15), datetime(1970, 1, 1, tzinfo=UTC))
    assert parse({"at": "2026-01-01T01:00:00+01:00"}) == Once(NEW_YEAR)
    assert parse({"in": "48h"}, at=NEW_YEAR) == Once(NEW_YEAR)
    assert parse({"every": "1s", "count": 3}) == Every(timedelta(seconds=1))


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({}, ""),
        ({"timezone": "UTC"}, ""),
        ({"cron": None}, "cron"),
        ({"cron": "@daily", "every": "1h"}, "every"),
        ({"at": "2026-01-01T00:00:00Z", "in": "1h"}, "in"),
        ({"cron": 5}, "cron"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "@daily", "timezone": "Europe/Atlantis"}, "timezone"),
        ({"cron": "@daily", "timezone": ["UTC"]}, "timezone"),
        ({"cron": "@daily", "gap": "jump"}, "gap"),
        ({"cron": "@daily", "gap": []}, "gap"),
        ({"cron": "@daily", "fold": "second"}, "fold"),
        ({"cron": "@daily", "anchor": "2026-01-01T00:00:00Z"}, "anchor"),
        ({"every": "1h", "timezone": "UTC"}, "timezone"),
        ({"every": "1h", "gap": "skip"}, "gap"),
        ({"at": "2026-01-01T00:00:00Z", "fold": "auto"}, "fold"),
        ({"every": "0s"}, "every"),
        ({"every": "0.5s"}, "every"),
        ({"every": "1.5s"}, "every"),
        ({"every": 900}, "every"),
        ({"every": "1h", "anchor": "2026-01-01"}, "anchor"),
        ({"every": "1h", "anchor": "2026-01-01T00:00:00.5Z"}, "anchor"),
        ({"at": "tomorrow"}, "at"),
        ({"at": "2026-01-01T00:00:00.5Z"}, "at"),
        ({"in": "0s"}, "in"),
        ({"in": "P1M"}, "in"),
        ({"in": "48h"}, "in"),
    ],
)
def test_what_is_wrong_with_a_block_is_named(block: dict[str, Any], path: str) -> None:
    """S-02: a wrong block is refused at the key that is wrong; the smallest `every` is a second (S-01)."""
    with pytest.raises(ScheduleError) as caught:
        parse(block)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 25 * * *", "hour: 25 is not in 0-23"),
        ("60 * * * *", "minute: 60 is not in 0-59"),
        ("99 * * * * *", "second: 99 is not in 0-59"),
        ("0 0 32 * *", "day of month: 32 is not in 1-31"),
        ("0 0 * FOO *", "month: 'FOO' is not a name or a number"),
        ("0 0 * * 8", "day of week: 8 is not in 0-7"),
        ("0 22-2 * * *", "hour: 22-2 runs backwards"),
        ("*/0 * * * *", "minute: '0' is not a step"),
        ("0 0 LW * *", "day of month: 'LW' is not a nearest weekday"),
        ("0 0 L, * *", "day of month: an item is empty"),
        ("0 0 1,15W * *", "day of month: '15W' is not a nearest weekday"),
        ("0 0 * * L", "day of week: L needs a day"),
        ("0 0 * * FRI#6", "day of week: 'FRI#6' is not an nth weekday"),
        ("0 0 * * * * 2026", "the expression has 7 fields"),
        ("@reboot", "'@reboot' is not an alias"),
        ("*" * 2000, "the expression is longer than 1000 characters"),
        ("0 0 * * ſun", "'0 0 * * ſun' holds characters that are not ASCII"),
    ],
)
def test_the_part_of_an_expression_that_is_wrong_is_named(expression: str, message: str) -> None:
    """S-02: an invalid expression is refused, saying which field, why, and how to write it."""
    with pytest.raises(ScheduleError) as caught:
        parse({"cron": expression})
    assert caught.value.message == message
    assert caught.value.hint


def test_what_never_fires_is_known() -> None:
    """S-02: no fire within 50 years: February 30th, an instant that has passed; a leap day is not among them."""
    assert never_fires(parse({"cron": "0 0 30 2 *"}), NEW_YEAR)
    assert never_fires(parse({"cron": "0 0 31W 2,4 *"}), NEW_YEAR)
    assert never_fires(parse({"at": "2026-01-01T00:00:00Z"}), NEW_YEAR)
    assert not never_fires(parse({"cron": "0 0 29 2 *"}), NEW_YEAR)
    assert not never_fires(parse({"cron": "0 0 * 2 MON#5"}), NEW_YEAR)
    assert not never_fires(parse({"every": "40y"}), NEW_YEAR)


def test_aliases_are_the_expressions_they_stand_for() -> None:
    """S-01: @hourly-style aliases, in any case."""
    expected = {"@hourly": 1, "@Daily": 24, "@midnight": 24, "@WEEKLY": 72, "@monthly": 744, "@yearly": 8760}
    for alias, hours in expected.items():
        assert fires(parse({"cron": alias}), NEW_YEAR, None, 1)[0].at == NEW_YEAR + timedelta(hours=hours), alias
    assert parse({"cron": "@annually"}) == Cron("@annually")


def test_six_fields_begin_with_the_second() -> None:
    """S-01: six fields mean seconds first."""
    assert walls(parse({"cron": "*/20 59 23 * * *"}), NEW_YEAR, 4) == [
        "2026-01-01T23:59:00+00:00",
        "2026-01-01T23:59:20+00:00",
        "2026-01-01T23:59:40+00:00",
        "2026-01-02T23:59:00+00:00",
    ]


def test_two_restricted_day_fields_are_a_union() -> None:
    """S-01: with day of month and day of week both restricted, either may match, `*/2` being restricted."""
    found = fires(parse({"cron": "0 0 13 * FRI"}), NEW_YEAR, instant("2026-01-20T00:00:00Z"), 10)
    assert [fire.at.day for fire in found] == [2, 9, 13, 16]
    assert count(parse({"cron": "0 0 */2 * SUN-SAT"}), NEW_YEAR, NEW_YEAR + timedelta(days=30), 100) == 30


def test_a_wall_time_that_does_not_exist_does_not_fire() -> None:
    """S-03: in spring the skipped hour does not fire under `gap: skip`, the default."""
    assert walls(berlin("30 2 * * *"), SPRING, 1) == ["2026-03-30T02:30:00+02:00"]


def test_a_wall_time_that_does_not_exist_can_fire_after_the_gap() -> None:
    """S-03: under `gap: shift` it fires at the first instant after the gap, several slots as one fire."""
    due = berlin("0,30 2,3 * * *", gap="shift")
    assert ids(due, SPRING, 3) == [
        "cron/2026-03-29T03:00:00/Europe/Berlin",
        "cron/2026-03-29T03:30:00/Europe/Berlin",
        "cron/2026-03-30T02:00:00/Europe/Berlin",
    ]
    assert left_out(due, SPRING, SPRING + timedelta(days=1), 9) == []


def test_an_hour_that_begins_with_a_star_is_never_moved() -> None:
    """S-03: `30 */2` follows real time; under `gap: shift` 02:30 still does not become 03:00."""
    assert walls(berlin("30 */2 * * *", gap="shift"), instant("2026-03-29T00:00:00Z"), 1) == [
        "2026-03-29T04:30:00+02:00"
    ]


def test_a_gap_of_a_day_is_not_shifted_over() -> None:
    """S-03: Apia skipped December 30th, 2011; only gaps of up to three hours move what they hold."""
    due = parse({"cron": "0 12 30 12 *", "timezone": "Pacific/Apia", "gap": "shift"})
    after = instant("2011-12-29T00:00:00Z")
    assert walls(due, after, 1) == ["2012-12-30T12:00:00+14:00"]
    assert [item.local for item in left_out(due, after, after + timedelta(days=5), 9)] == ["2011-12-30T12:00:00"]


def test_a_fixed_hour_that_happens_twice_fires_once() -> None:
    """S-04: a wall time that happens twice fires once, at its first instant, for a fixed hour."""
    assert walls(berlin("30 2 * * *"), AUTUMN, 2) == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]


def test_an_hour_that_begins_with_a_star_fires_in_both_passes() -> None:
    """S-04: `*/30 * * * *` keeps firing every half hour of real time; the second pass is marked in the id (S-05)."""
    found = fires(berlin("*/30 * * * *"), instant("2026-10-24T23:45:00Z"), None, 6)
    assert {later.at - fire.at for fire, later in pairwise(found)} == {timedelta(minutes=30)}
    assert [fire.id for fire in found] == [
        "cron/2026-10-25T02:00:00/Europe/Berlin",
        "cron/2026-10-25T02:30:00/Europe/Berlin",
        "cron/2026-10-25T02:00:00/Europe/Berlin/2",
        "cron/2026-10-25T02:30:00/Europe/Berlin/2",
        "cron/2026-10-25T03:00:00/Europe/Berlin",
        "cron/2026-10-25T03:30:00/Europe/Berlin",
    ]


def test_first_and_both_can_be_asked_for() -> None:
    """S-04: `fold: first` fires everything in the first pass only, `fold: both` in both."""
    day = AUTUMN + timedelta(days=1)
    assert count(berlin("0 2 * * *", fold="both"), AUTUMN, day, 9) == 2
    assert count(berlin("0 * * * *", fold="first"), AUTUMN, day, 99) == 23
    assert count(berlin("0 * * * *"), AUTUMN, day, 99) == 24


def test_an_answer_lies_after_what_was_asked_also_in_the_second_pass() -> None:
    """S-04: asked in the second pass, a fixed hour that fired in the first waits for the next day."""
    assert walls(berlin("30 2 * * *"), instant("2026-10-25T01:10:00Z"), 1) == ["2026-10-26T02:30:00+01:00"]


def test_ids_are_derived_from_the_schedule_alone() -> None:
    """S-05: cron ids carry the wall time and the zone, every and at ids the instant; any window gives the same."""
    assert ids(parse({"cron": "30 1 * * *", "timezone": "Europe/Berlin"}), AUTUMN, 1) == [
        "cron/2026-10-25T01:30:00/Europe/Berlin"
    ]
    assert ids(parse({"every": "15m"}), NEW_YEAR, 1) == ["every/2026-01-01T00:15:00Z"]
    assert ids(parse({"at": "2026-06-01T02:00:00+02:00"}), NEW_YEAR, 1) == ["at/2026-06-01T00:00:00Z"]
    due = berlin("* * * * *")
    minute = fires(due, AUTUMN, AUTUMN + timedelta(seconds=60), 9)
    assert minute == fires(due, AUTUMN + timedelta(seconds=59.5), AUTUMN + timedelta(hours=2), 1)
    assert minute == [last(due, AUTUMN - timedelta(days=9), AUTUMN + timedelta(seconds=119))]


def test_an_id_in_the_second_pass_is_marked_although_the_first_did_not_fire() -> None:
    """S-05: `/2` stands whenever it fires in the second pass, also when the window begins between the two."""
    due = berlin("30 2 * * *", fold="both")
    assert ids(due, instant("2026-10-25T00:45:00Z"), 1) == ["cron/2026-10-25T02:30:00/Europe/Berlin/2"]


def test_an_interval_is_anchored_and_never_drifts() -> None:
    """S-06: slots are anchor + k·every in elapsed time, wherever one looks from; none lies before the anchor."""
    due = parse({"every": "7h", "anchor": "2026-01-01T00:07:00Z"})
    for hours in (0, 5, 1000, 99_999):
        at = fires(due, NEW_YEAR + timedelta(hours=hours), None, 1)[0].at
        assert (at - instant("2026-01-01T00:07:00Z")) % timedelta(hours=7) == timedelta()
    assert fires(due, NEW_YEAR - timedelta(days=9), None, 1)[0].at == instant("2026-01-01T00:07:00Z")


def test_what_a_night_leaves_out_is_listed_with_its_reason() -> None:
    """S-09: the wall times that a gap or a fold keeps from firing, with the reason."""
    assert left_out(berlin("*/30 2 * * *"), SPRING, SPRING + timedelta(days=300), 9) == [
        LeftOut("2026-03-29T02:00:00", "gap"),
        LeftOut("2026-03-29T02:30:00", "gap"),
        LeftOut("2026-10-25T02:00:00", "fold"),
        LeftOut("2026-10-25T02:30:00", "fold"),
    ]
    assert len(left_out(berlin("* * * * *"), SPRING, None, 7)) == 7
    assert left_out(parse({"every": "1h"}), SPRING, None, 7) == []


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 15 * FRI#2", [9, 15]),
        ("0 0 2-2 * *", [2]),
        ("0 0 2-31,L * *", list(range(2, 32))),
        ("0 0 * * MON-MON", [5, 12, 19, 26]),
        ("0 0 * * THU-TUE/2", [1, 3, 5, 8, 10, 12, 15, 17, 19, 22, 24, 26, 29, 31]),
        ("0 0 * * 5,6#3", [2, 9, 16, 17, 23, 30]),
        ("0 0 16,18 * WED#3", [16, 18, 21]),
    ],
)
def test_what_croniter_alone_gets_wrong(expression: str, days: list[int]) -> None:
    """S-11: expressions that croniter refuses, fails on or answers wrongly are answered rightly."""
    before, end = datetime(2025, 12, 31, 12, tzinfo=UTC), datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert [fire.at.day for fire in fires(parse({"cron": expression}), before, end, 99)] == days
    assert croniter_days(expression, before, end) != days, "croniter has learnt it: the rule may be simpler now"


def croniter_days(expression: str, after: datetime, until: datetime) -> list[int]:
    days = []
    try:
        walk = croniter(expression, after, ret_type=datetime)
        while (at := walk.get_next(datetime)) <= until:
            days.append(at.day)
    except ValueError:
        return []
    return days


def test_in_is_what_its_deploy_resolved_it_to() -> None:
    """S-15: `in` is an instant once resolved; the resolved instant is a whole second with a zone."""
    assert parse({"in": "1h"}, at=NEW_YEAR + timedelta(hours=1)) == Once(NEW_YEAR + timedelta(hours=1))
    for bad in (NEW_YEAR.replace(microsecond=1), NEW_YEAR.replace(tzinfo=None)):
        with pytest.raises(ScheduleError, match="whole second"):
            parse({"in": "1h"}, at=bad)


def test_a_single_instant_fires_once() -> None:
    """S-01: `at` lies in a window that ends with it and not in one that begins with it."""
    due = Once(NEW_YEAR)
    hour = timedelta(hours=1)
    assert last(due, NEW_YEAR - hour, NEW_YEAR) == fires(due, NEW_YEAR - hour, NEW_YEAR, 5)[0]
    assert fires(due, NEW_YEAR, None, 5) == []
    assert count(due, NEW_YEAR - hour, NEW_YEAR, 5) == 1
    assert count(due, NEW_YEAR - hour, NEW_YEAR, 0) == 0


@pytest.mark.parametrize("block", [{"cron": "* * * * *"}, {"every": "1m"}, {"at": "2026-01-01T00:00:00Z"}])
def test_a_window_that_holds_nothing_is_empty(block: dict[str, str]) -> None:
    """S-10: an empty or reversed window has no fires, no newest and the count 0."""
    due, hour = parse(block), timedelta(hours=1)
    for after, until in ((NEW_YEAR, NEW_YEAR), (NEW_YEAR, NEW_YEAR - hour), (NEW_YEAR, NEW_YEAR.replace(second=30))):
        assert fires(due, after, until, 9) == []
        assert last(due, after, until) is None
        assert count(due, after, until, 9) == 0
    assert fires(due, NEW_YEAR - hour, None, 0) == []


def test_the_ends_of_the_calendar_are_not_crossed() -> None:
    """S-10: windows as wide as a datetime can say are answered, not failed on."""
    first, final = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    due = berlin("0 0 29 2 *")
    newest = last(due, first, final)
    assert newest is not None
    assert newest.at > datetime(9000, 1, 1, tzinfo=UTC)
    assert len(fires(due, first, None, 1)) == 1
    assert fires(due, final, None, 1) == []
    assert never_fires(due, final)


def test_a_year_of_missed_minutes_costs_what_one_does() -> None:
    """L-08: the newest of a year of minutes is found from its end, and the year is counted by days."""
    due, year = berlin("* * * * *"), timedelta(days=365)
    begun = time.thread_time()  # what it costs, not how long the machine lets it wait
    for _ in range(200):
        newest = last(due, NEW_YEAR - year, NEW_YEAR)
        assert newest is not None
        assert newest.at == NEW_YEAR
        assert count(due, NEW_YEAR - year, NEW_YEAR, 10**9) == 525_600
    # Walked minute by minute, one of the 200 would take longer than this.
    assert time.thread_time() - begun < 1
