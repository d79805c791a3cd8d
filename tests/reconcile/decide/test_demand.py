"""How many starts a second schedules ask for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconcile.decide.admission import Demanded, is_too_much, per_second
from tests.blocks import parse

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("block", "a_day"),
    [
        pytest.param({"every": "1m"}, 1440, id="an interval"),
        pytest.param({"every": "2d"}, 0.5, id="an interval longer than a day"),
        pytest.param({"cron": "0 * * * *"}, 24, id="an expression"),
        pytest.param({"cron": "0 7 * * 1"}, 0, id="an expression that is over for the day"),
        pytest.param({"cron": "* * * * * *"}, 86_400, id="each second"),
        pytest.param({"at": "2026-03-02T09:00:00Z"}, 0, id="a single instant"),
        pytest.param({"every": "1m", "until": "2026-03-02T09:00:00Z"}, 60, id="an interval that ends"),
        pytest.param({"cron": "0 * * * *", "exclude": ["2026-03-03"]}, 15, id="a closed day"),
    ],
)
def test_a_schedule_asks_for_the_mean_of_the_day_ahead(block: dict[str, Any], a_day: float) -> None:
    """L-18: bounds and closed days are respected."""
    assert per_second(parse(block), NOW) == pytest.approx(a_day / 86_400)


@pytest.mark.parametrize(
    ("asked", "allowed", "expected"),
    [
        pytest.param(7, 10, False, id="70 percent"),
        pytest.param(7.01, 10, True, id="more"),
        pytest.param(0.5, 0.5, True, id="below one a second"),
        pytest.param(900, 0, False, id="no limit"),
        pytest.param(0, 10, False, id="nothing"),
    ],
)
def test_more_than_70_percent_of_the_rate_is_too_much(asked: float, allowed: float, expected: bool) -> None:
    """L-18."""
    assert is_too_much(asked, allowed) is expected
    assert Demanded(asked, allowed).is_too_much is expected
