"""The instants of intervals and of single instants, in whole seconds."""

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.schedule.definition import Every, Once
from reconcile.schedule.times import beats, seconds, slots

DAY = 86_400


def every(second: int, anchor: int = 0) -> Every:
    return Every(timedelta(seconds=second), datetime.fromtimestamp(anchor, UTC))


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param(datetime(1970, 1, 1, tzinfo=UTC), 0, id="the epoch"),
        pytest.param(datetime(1970, 1, 1, 0, 0, 1, 999_999, tzinfo=UTC), 1, id="fractions are cut off"),
        pytest.param(datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), -1, id="downwards, before it too"),
    ],
)
def test_instants_are_whole_seconds(at: datetime, expected: int) -> None:
    """S-06."""
    assert seconds(at) == expected


@pytest.mark.parametrize(
    ("beat", "first", "final", "expected"),
    [
        pytest.param(every(10), 20, 40, [20, 30, 40], id="both ends are inside"),
        pytest.param(every(10), 21, 39, [30], id="between"),
        pytest.param(every(10), 21, 29, [], id="none"),
        pytest.param(every(10, anchor=25), 0, 50, [25, 35, 45], id="none before its anchor"),
        pytest.param(every(10, anchor=25), 30, 50, [35, 45], id="counted from its anchor"),
        pytest.param(every(10, anchor=25), 0, 24, [], id="over before its anchor"),
        pytest.param(every(10, anchor=-25), -30, 0, [-25, -15, -5], id="before the epoch"),
    ],
)
def test_an_interval_counts_from_its_anchor(beat: Every, first: int, final: int, expected: list[int]) -> None:
    """S-06: in elapsed time."""
    assert list(beats(beat, first, final)) == expected
    assert [at for part in slots(beat, (), first, final) for at in part] == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [(19, []), (20, [20]), (30, [30]), (40, [40]), (41, [])],
    ids=["before", "at the beginning", "within", "at the end", "after"],
)
def test_a_single_instant_is_in_the_window_or_not(at: int, expected: list[int]) -> None:
    """S-15."""
    [part] = slots(Once(datetime.fromtimestamp(at, UTC)), (), 20, 40)
    assert list(part) == expected


HALF_DAILY = every(DAY // 2)


@pytest.mark.parametrize(
    ("closed", "first", "final", "expected"),
    [
        pytest.param((), 0, 2 * DAY, [0, 0.5, 1, 1.5, 2], id="none"),
        pytest.param((1,), 0, 3 * DAY, [0, 0.5, 2, 2.5, 3], id="one in the middle"),
        pytest.param((0,), 0, 2 * DAY, [1, 1.5, 2], id="the first"),
        pytest.param((0,), DAY // 4, 2 * DAY, [1, 1.5, 2], id="the first, begun"),
        pytest.param((1, 2), 0, 3 * DAY, [0, 0.5, 3], id="two in a row"),
        pytest.param((2,), 0, 2 * DAY, [0, 0.5, 1, 1.5], id="the last second begins a closed day"),
        pytest.param((2,), 0, 2 * DAY - 1, [0, 0.5, 1, 1.5], id="one after the end"),
        pytest.param((0,), DAY, 2 * DAY, [1, 1.5, 2], id="one before the beginning"),
        pytest.param((0, 1), 0, 2 * DAY - 1, [], id="all of it"),
    ],
)
def test_closed_days_cut_an_interval(closed: tuple[int, ...], first: int, final: int, expected: list[float]) -> None:
    """S-07, S-13: its phase goes on through them."""
    assert [at / DAY for part in slots(HALF_DAILY, closed, first, final) for at in part] == expected
