"""What is ahead, as plain values."""

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.report.outlook import HoldSpan, upcoming
from tests.blocks import parse

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
HOURLY = parse({"every": "1h"})


def hold(begins: float, ends: float | None, reason: str = "blackout") -> HoldSpan:
    return HoldSpan(START + timedelta(hours=begins), None if ends is None else START + timedelta(hours=ends), reason)


@pytest.mark.parametrize(
    ("holdings", "fires", "held"),
    [
        ([], [9, 10, 11], []),
        ([hold(-5, -1)], [9, 10, 11], []),
        ([hold(-1, 2)], [10, 11, 12], [9]),
        ([hold(1, 2)], [10, 11, 12], [9]),
        ([hold(2, 2)], [9, 10, 11], []),
        ([hold(1.5, 2.5), hold(2.5, 3.5)], [9, 12, 13], [10, 11]),
        ([hold(1.5, 3.5), hold(1, 2.5)], [12, 13, 14], [9, 10, 11]),
        ([hold(9, 10)], [9, 10, 11], []),
        ([hold(1.5, None)], [9], [10, 11]),
        ([hold(-1, None)], [], [9, 10, 11]),
    ],
    ids=["none", "over", "now", "both ends", "empty", "touching", "overlapping", "later", "endless", "endless now"],
)
def test_holds_take_fires_away(holdings: list[HoldSpan], fires: list[int], held: list[int]) -> None:
    """S-09, S-13: from its beginning on and before its end; without an end what it holds is as many as are missing."""
    found = upcoming(HOURLY, START, 3, holdings, 100)
    assert [fire.at.hour for fire in found.fires] == fires
    assert [int(one.local[11:13]) for one in found.left_out] == held


def test_the_first_names_the_reason() -> None:
    """S-13: freezes are given first, so they name what both hold."""
    found = upcoming(HOURLY, START, 1, [hold(0, 1.5, "freeze"), hold(0, 2.5)], 100)
    assert [(one.local, one.reason) for one in found.left_out] == [
        ("2026-03-02T09:00:00", "freeze"),
        ("2026-03-02T10:00:00", "blackout"),
    ]


def test_no_more_than_can_be_shown() -> None:
    """S-09, L-08: a year of held minutes costs what is shown of it."""
    found = upcoming(parse({"every": "1m"}), START, 2, [hold(0, 8760)], 5)
    assert (len(found.fires), len(found.left_out)) == (2, 5)
    assert upcoming(HOURLY, START, 0, [hold(0, 2)], 5) == upcoming(HOURLY, START, -1, [], 5)


def test_gaps_and_holds_stand_in_one_order() -> None:
    """S-09: by wall time, whatever kept each from firing."""
    nightly = parse({"cron": "30 2 * * *", "timezone": "Europe/Berlin"})
    after = datetime(2026, 3, 27, 12, tzinfo=UTC)
    move = HoldSpan(after, after + timedelta(days=1), "blackout")
    found = upcoming(nightly, after, 1, [move], 10)
    assert [(one.local[:10], one.reason) for one in found.left_out] == [
        ("2026-03-28", "blackout"),
        ("2026-03-29", "gap"),
    ]


def test_a_hold_covers_its_beginning_and_not_its_end() -> None:
    """S-13: and, without an end, all that follows."""
    assert [hold(1, 2).covers(START + timedelta(hours=hour)) for hour in (0, 1, 1.5, 2)] == [False, True, True, False]
    assert hold(1, None).covers(START + timedelta(hours=9_999))
    assert not hold(1, None).covers(START)


def test_a_spread_trigger_sees_holds_as_much_earlier_as_it_fires_later() -> None:
    """S-12: in its nominal time; what has no end has none there either."""
    assert hold(2, 3, "x").earlier(timedelta(hours=1)) == hold(1, 2, "x")
    assert hold(2, None, "x").earlier(timedelta(hours=1)) == hold(1, None, "x")
