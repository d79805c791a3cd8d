"""How long an occurrence counts as live."""

from datetime import timedelta

import pytest

from reconcile.decide.admission import Pace


@pytest.mark.parametrize(
    ("live_grace", "resync_interval", "grace"),
    [
        pytest.param(60, 10, 60, id="as set"),
        pytest.param(60, 30, 60, id="two resync intervals long"),
        pytest.param(60, 45, 90, id="never less than two resync intervals"),
    ],
)
def test_an_occurrence_is_live_for_two_resync_intervals_at_least(
    live_grace: int, resync_interval: int, grace: int
) -> None:
    """L-06: else one that a resync finds would be missed already."""
    pace = Pace(resync_interval=timedelta(seconds=resync_interval), live_grace=timedelta(seconds=live_grace))
    assert pace.grace == timedelta(seconds=grace)
