"""The next fire that a run asks for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconcile.decide.attempt_ends import RequestedFire, requested_fire

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
IN_A_SECOND = NOW + timedelta(seconds=1)


def not_ahead(text: str) -> RequestedFire:
    return RequestedFire(IN_A_SECOND, f"next_fire_at: '{text}' was not ahead, so it fires a second later")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(None, None, id="no output"),
        pytest.param({"cost": 1}, None, id="an output without"),
        pytest.param({"next_fire_at": None}, None, id="null"),
        pytest.param(
            {"next_fire_at": "2026-03-02T10:00:00+01:00"},
            RequestedFire(NOW + timedelta(hours=1)),
            id="an instant ahead",
        ),
        pytest.param(
            {"next_fire_at": "2026-03-02T08:00:00.25Z"},
            RequestedFire(NOW + timedelta(seconds=0.25)),
            id="a fraction of a second ahead",
        ),
        pytest.param({"next_fire_at": "2026-03-02T08:00:00Z"}, not_ahead("2026-03-02T08:00:00Z"), id="now"),
        pytest.param({"next_fire_at": "2020-01-01T00:00:00Z"}, not_ahead("2020-01-01T00:00:00Z"), id="past"),
    ],
)
def test_an_output_asks_for_the_next_fire(output: dict[str, Any] | None, expected: RequestedFire | None) -> None:
    """S-08: one that is not ahead becomes a second ahead, and people are told."""
    assert requested_fire(output, NOW) == expected


@pytest.mark.parametrize(
    "value",
    [pytest.param("soon", id="a word"), pytest.param(17, id="a number"), pytest.param("2026-03-02", id="a day")],
)
def test_what_is_no_instant_is_told(value: object) -> None:
    """S-08: nothing is asked for then, and the note says how it is written."""
    found = requested_fire({"next_fire_at": value}, NOW)
    assert found is not None
    assert found.at is None
    assert found.note.startswith(f"next_fire_at: {value!r} is not an instant; write RFC 3339")
