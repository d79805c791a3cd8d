"""Closed days, and what they leave of the days that a rule names."""

from dataclasses import dataclass
from datetime import date

import pytest

from reconcile.schedule.times import ClosedDays, OpenDays, number, numbers, reasons


@dataclass(frozen=True)
class Fives:
    """Names each fifth day from 0 to 50."""

    daily: bool = False

    def on_or_after(self, day: int) -> int | None:
        on = max(-(-day // 5) * 5, 0)
        return on if on <= 50 else None

    def on_or_before(self, day: int) -> int | None:
        on = min(day // 5 * 5, 50)
        return on if on >= 0 else None


EVE, CHRISTMAS = date(1970, 12, 24), date(1970, 12, 25)


def test_days_are_counted_from_1970() -> None:
    """S-13."""
    assert [number(day) for day in (date(1969, 12, 31), date(1970, 1, 1), date(1970, 1, 2))] == [-1, 0, 1]


def test_closed_days_are_gathered_in_order() -> None:
    """S-13: each once, whatever closes it."""
    closed = (("exclude", frozenset({CHRISTMAS})), ("bank", frozenset({CHRISTMAS, EVE})))
    assert numbers(closed) == (357, 358)
    assert numbers(()) == ()


def test_a_day_that_several_close_belongs_to_the_first() -> None:
    """S-09, S-13: so that one reason is told of it."""
    closed = (("exclude", frozenset({CHRISTMAS})), ("bank", frozenset({CHRISTMAS, EVE})), ("firm", frozenset({EVE})))
    assert reasons(closed) == [("exclude", (358,)), ("bank", (357,)), ("firm", ())]


@pytest.mark.parametrize(
    ("day", "after", "before"),
    [
        pytest.param(0, 0, 0, id="the first is open"),
        pytest.param(1, 5, 0, id="between open ones"),
        pytest.param(5, 5, 5, id="open"),
        pytest.param(10, 20, 5, id="the first of two closed ones"),
        pytest.param(15, 20, 5, id="the second of two closed ones"),
        pytest.param(12, 20, 5, id="between two closed ones"),
        pytest.param(46, None, 45, id="the last is closed"),
        pytest.param(60, None, 45, id="beyond the last"),
        pytest.param(-1, 0, None, id="before the first"),
    ],
)
def test_open_days_are_those_named_and_not_closed(day: int, after: int | None, before: int | None) -> None:
    """S-07, S-13: the nearest on or after, and on or before."""
    rule = OpenDays(Fives(), (10, 15, 17, 50))
    assert (rule.on_or_after(day), rule.on_or_before(day)) == (after, before)
    assert not rule.daily


@pytest.mark.parametrize(
    ("day", "after", "before"),
    [
        pytest.param(0, 10, None, id="before the first closed one"),
        pytest.param(10, 10, 10, id="named and closed"),
        pytest.param(11, 15, 10, id="between"),
        pytest.param(15, 15, 15, id="named and closed too"),
        pytest.param(17, 50, 15, id="closed, and not named"),
        pytest.param(51, None, 50, id="after the last"),
    ],
)
def test_shut_days_are_those_named_and_closed(day: int, after: int | None, before: int | None) -> None:
    """S-09: on which something would fire, were they open."""
    rule = ClosedDays(Fives(), (10, 15, 17, 50))
    assert (rule.on_or_after(day), rule.on_or_before(day)) == (after, before)
    assert not rule.daily
