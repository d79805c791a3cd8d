"""Which blackout rules a piece of time, and until when blackouts hold a trigger."""

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.decide.blackouts import Blackout, held_until, over_at, piece
from revisions.outcomes import HoldMode

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def blackout(begins: float, ends: float, mode: HoldMode = HoldMode.DROP) -> Blackout:
    return Blackout(at(begins), at(ends), mode)


@pytest.mark.parametrize(
    ("blackouts", "end"),
    [
        pytest.param([], None, id="none"),
        pytest.param([blackout(-2, -1)], None, id="over"),
        pytest.param([blackout(1, 2)], None, id="to come"),
        pytest.param([blackout(-1, 0)], None, id="ends now"),
        pytest.param([blackout(0, 1)], 1, id="begins now"),
        pytest.param([blackout(-1, 2), blackout(-2, 1)], 2, id="the later end of two"),
        pytest.param([blackout(-2, 1), blackout(-1, 2)], 2, id="the later end, named last"),
        pytest.param([blackout(-1, 1), blackout(1, 2)], 1, id="one that follows is not in force yet"),
    ],
)
def test_a_trigger_is_held_until_the_last_blackout_in_force_ends(blackouts: list[Blackout], end: float | None) -> None:
    """S-13: from the beginning on, before the end."""
    assert held_until(blackouts, START) == (None if end is None else at(end))


@pytest.mark.parametrize(
    ("others", "end"),
    [
        pytest.param([], 1, id="alone"),
        pytest.param([blackout(1, 2), blackout(1.5, 3)], 3, id="a chain"),
        pytest.param([blackout(1.5, 2)], 1, id="a pause between"),
        pytest.param([blackout(-1, 0.5)], 1, id="one that ended within"),
    ],
)
def test_a_blackout_is_over_when_those_that_follow_on_it_are(others: list[Blackout], end: float) -> None:
    """S-13: until then nothing could start."""
    first = blackout(0, 1)
    assert over_at([first, *others], first) == at(end)


@pytest.mark.parametrize(
    ("blackouts", "until", "mode"),
    [
        pytest.param([], at(4), None, id="none"),
        pytest.param([blackout(1, 2)], at(1) - MOMENT, None, id="up to the beginning of the first"),
        pytest.param([blackout(0, 2)], at(2) - MOMENT, HoldMode.DROP, id="up to the end of the one in force"),
        pytest.param([blackout(0, 2), blackout(1, 3)], at(1) - MOMENT, HoldMode.DROP, id="up to where another begins"),
        pytest.param([blackout(-1, 9)], at(4), HoldMode.DROP, id="no further than now"),
        pytest.param([blackout(-1, 0)], at(4), None, id="one that has just ended"),
        pytest.param([blackout(4, 5)], at(4) - MOMENT, None, id="one that begins now"),
        pytest.param(
            [blackout(0, 2, HoldMode.ONE), blackout(0, 2, HoldMode.DROP)],
            at(2) - MOMENT,
            HoldMode.DROP,
            id="drop before one",
        ),
        pytest.param(
            [blackout(0, 2, HoldMode.DEFER), blackout(0, 2, HoldMode.ONE)],
            at(2) - MOMENT,
            HoldMode.ONE,
            id="one before defer",
        ),
        pytest.param(
            [blackout(0, 2, HoldMode.DEFER), blackout(0, 2, HoldMode.DROP)],
            at(2) - MOMENT,
            HoldMode.DROP,
            id="drop before defer",
        ),
    ],
)
def test_time_after_a_watermark_is_cut_where_another_rule_begins(
    blackouts: list[Blackout], until: datetime, mode: HoldMode | None
) -> None:
    """S-13: where two meet, the stricter mode rules."""
    found = piece(blackouts, START, at(4))
    assert found.until == until
    assert (found.blackout.mode if found.blackout else None) == mode


def test_a_piece_begins_right_after_the_watermark() -> None:
    """S-13: a blackout that begins with the moment after it rules, one that ends then does not."""
    begins = Blackout(START + MOMENT, at(1), HoldMode.ONE)
    assert piece([begins], START, at(4)).blackout is begins
    assert piece([Blackout(at(-1), START + MOMENT, HoldMode.ONE)], START, at(4)).blackout is None


def test_a_spread_trigger_sees_blackouts_as_much_earlier_as_it_fires_later() -> None:
    """S-12, S-13: in its nominal time."""
    assert blackout(1, 2, HoldMode.ONE).earlier(timedelta(hours=1)) == blackout(0, 1, HoldMode.ONE)
