"""Wall times, and the instants at which a zone's clock shows them."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from reconcile.schedule.times import Course, Times

DAY, HOUR = 86_400, 3_600


@dataclass(frozen=True)
class Everyday:
    """Names every day."""

    daily: bool = True

    def on_or_after(self, day: int) -> int | None:
        return day

    def on_or_before(self, day: int) -> int | None:
        return day


@dataclass(frozen=True)
class Evens:
    """Names every second day, from 0 to 20_000_000; `daily` would be wrong of it."""

    daily: bool = False

    def on_or_after(self, day: int) -> int | None:
        return max(day + day % 2, 0)

    def on_or_before(self, day: int) -> int | None:
        return day - day % 2 if day >= 0 else None


def times_of(*minutes: int, seconds: tuple[int, ...] = (0,), days: Everyday | Evens | None = None) -> Times:
    return Times(minutes, seconds, days or Everyday())


TWICE = times_of(60, 120, seconds=(0, 30))
"""One o'clock and two o'clock, and half a minute after each."""
EVEN = times_of(60, 120, seconds=(0, 30), days=Evens())


@pytest.mark.parametrize(
    ("times", "low", "high", "expected"),
    [
        pytest.param(TWICE, 0, DAY, [3600, 3630, 7200, 7230], id="a day"),
        pytest.param(TWICE, 3600, 7230, [3600, 3630, 7200], id="the beginning is inside, the end is not"),
        pytest.param(TWICE, 3601, 7201, [3630, 7200], id="between seconds"),
        pytest.param(TWICE, 7231, DAY + 3601, [DAY + 3600], id="over midnight"),
        pytest.param(TWICE, 3600, 3600, [], id="no time"),
        pytest.param(TWICE, 7200, 3600, [], id="runs backwards"),
        pytest.param(TWICE, -DAY, 0, [-82800, -82770, -79200, -79170], id="before the epoch"),
        pytest.param(EVEN, 0, 2 * DAY, [3600, 3630, 7200, 7230], id="a day named, a day not"),
        pytest.param(EVEN, 7201, 2 * DAY + 3601, [7230, 2 * DAY + 3600], id="over a day that is not named"),
        pytest.param(EVEN, DAY, 2 * DAY, [], id="a day not named"),
    ],
)
def test_wall_times_are_walked_both_ways_and_counted(times: Times, low: int, high: int, expected: list[int]) -> None:
    """S-10, L-08: of [low, high)."""
    assert list(times.ascending(low, high)) == expected
    assert list(times.descending(low, high)) == expected[::-1]
    assert times.count(low, high, 99) == len(expected)


def test_days_need_not_be_walked_to_the_end() -> None:
    """L-08: counting ends at its limit, and where every day is named it walks none."""
    assert TWICE.count(0, 10**15 * DAY, 1) == 4 * 10**15
    assert 3 <= EVEN.count(0, 10**15 * DAY, 3) <= 4
    assert next(EVEN.ascending(0, 10**15 * DAY)) == 3600
    assert next(EVEN.descending(0, 10**15 * DAY)) == (10**15 - 2) * DAY + 7230


@pytest.mark.parametrize(
    ("at", "following", "previous"),
    [
        pytest.param(0, 0, None, id="the beginning of a day named"),
        pytest.param(1, 0, DAY, id="within a day named"),
        pytest.param(DAY, 2 * DAY, DAY, id="its end"),
        pytest.param(DAY + 1, 2 * DAY, DAY, id="within a day not named"),
        pytest.param(2 * DAY, 2 * DAY, DAY, id="the beginning of the next one"),
        pytest.param(2 * DAY + 1, 2 * DAY, 3 * DAY, id="within the next one"),
    ],
)
def test_the_nearest_days_named_are_known(at: int, following: int, previous: int | None) -> None:
    """L-08: by which long quiet times are jumped."""
    assert EVEN.next_day(at) == following
    assert EVEN.previous_day(at) == previous


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def course_of(times: Times, repeats: bool = False, shifts: bool = False) -> Course:
    return Course(times, "Europe/Berlin", repeats, shifts)


HALF_PAST = times_of(90, 150, 210)
"""Half past one, two and three."""
SPRING = (instant("2026-03-28T23:00"), instant("2026-03-29T02:00"))
"""From midnight to four o'clock, while the clock goes from two to three."""
AUTUMN = (instant("2026-10-24T22:00"), instant("2026-10-25T03:00"))
"""From midnight to four o'clock, while the clock goes from three back to two."""


@pytest.mark.parametrize(
    ("course", "window", "expected"),
    [
        pytest.param(course_of(HALF_PAST), SPRING, ["00:30", "01:30"], id="a gap is skipped"),
        pytest.param(course_of(HALF_PAST, shifts=True), SPRING, ["00:30", "01:00", "01:30"], id="a gap is shifted"),
        pytest.param(course_of(times_of(90), shifts=True), SPRING, ["00:30"], id="nothing in the gap to shift"),
        pytest.param(
            course_of(times_of(150, 180), shifts=True), SPRING, ["01:00"], id="shifted to where one fires anyway"
        ),
        pytest.param(course_of(HALF_PAST), AUTUMN, ["23:30", "00:30", "02:30"], id="a fold fires once"),
        pytest.param(
            course_of(HALF_PAST, repeats=True), AUTUMN, ["23:30", "00:30", "01:30", "02:30"], id="a fold fires twice"
        ),
    ],
)
def test_gaps_and_folds_are_what_the_schedule_says(
    course: Course, window: tuple[int, int], expected: list[str]
) -> None:
    """S-03, S-04: forwards, backwards, counted, and cut at any place."""

    def shown(first: int, final: int) -> list[int]:
        return [wall - span.offset for span, wall in course.ascending(first, final)]

    first, final = window
    found = shown(first, final)
    assert [f"{datetime.fromtimestamp(at, UTC):%H:%M}" for at in found] == expected
    assert [wall - span.offset for span, wall in course.descending(first, final)] == found[::-1]
    assert course.count(first, final, 99) == len(found)
    for cut in range(first, final, HOUR // 2):
        assert shown(first, cut) + shown(cut + 1, final) == found
        assert course.count(first, cut, 99) + course.count(cut + 1, final, 99) == len(found)


@pytest.mark.parametrize(
    ("course", "window", "expected"),
    [
        pytest.param(course_of(HALF_PAST), SPRING, [("02:30", "gap")], id="in the gap"),
        pytest.param(course_of(HALF_PAST, shifts=True), SPRING, [], id="shifted out of the gap"),
        pytest.param(course_of(HALF_PAST), AUTUMN, [("02:30", "fold")], id="in the fold"),
        pytest.param(course_of(HALF_PAST, repeats=True), AUTUMN, [], id="fires in the fold"),
        pytest.param(
            course_of(HALF_PAST), (SPRING[0], instant("2026-03-29T00:59")), [], id="the gap lies after the window"
        ),
        pytest.param(
            course_of(HALF_PAST), (instant("2026-03-29T01:01"), SPRING[1]), [], id="the gap lies before the window"
        ),
        pytest.param(
            course_of(HALF_PAST), (AUTUMN[0], instant("2026-10-25T01:29")), [], id="the fold lies after the window"
        ),
        pytest.param(
            course_of(HALF_PAST), (instant("2026-10-25T01:31"), AUTUMN[1]), [], id="the fold lies before the window"
        ),
    ],
)
def test_what_a_gap_or_a_fold_leaves_out_is_told(
    course: Course, window: tuple[int, int], expected: list[tuple[str, str]]
) -> None:
    """S-09."""
    found = [(f"{datetime.fromtimestamp(wall, UTC):%H:%M}", reason) for wall, reason in course.left_out(*window)]
    assert found == expected


def test_a_day_that_a_zone_skipped_is_too_long_to_shift() -> None:
    """S-03: Samoa's 30 December 2011; nothing of it fires, and all of it is told."""
    nightly = Course(times_of(90), "Pacific/Apia", False, True)
    window = (instant("2011-12-29T11:00"), instant("2011-12-31T11:00"))
    assert len(list(nightly.ascending(*window))) == nightly.count(*window, 99) == 2
    assert list(nightly.left_out(*window)) == [(instant("2011-12-30T01:30"), "gap")]
