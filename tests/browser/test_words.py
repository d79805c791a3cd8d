"""Times and spans as text on the web page."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.api.triggers import StatusOut, TriggerOut
from controller.web import words

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "hint"),
    [
        ("2026-03-02T08:00:00.4Z", "now"),
        ("2026-03-02T08:00:12Z", "in 12 s"),
        ("2026-03-02T07:57:00Z", "3 min ago"),
        ("2026-03-02T07:58:01Z", "119 s ago"),
        ("2026-03-03T09:30:00Z", "in 25 h"),
        ("2026-03-09T08:00:00Z", "in 7 days"),
    ],
    ids=str,
)
def test_a_relative_time_has_one_unit(at: str, hint: str) -> None:
    """U-04: the most informative one."""
    assert words.hint(at, NOW) == hint


@pytest.mark.parametrize(
    ("seconds", "span"),
    [("00.25", "0.2 s"), ("42", "42 s"), ("125", "2 min 5 s"), ("12000", "3 h 20 min"), ("-5", "0.0 s")],
    ids=str,
)
def test_a_duration_is_finer_the_shorter_it_is(seconds: str, span: str) -> None:
    """U-04: and never negative."""
    end = datetime.fromtimestamp(NOW.timestamp() + float(seconds), UTC)
    assert words.span("2026-03-02T08:00:00Z", end) == span


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"schedule": {"cron": "0 8 * * 1-5", "timezone": "Europe/Berlin"}}, "cron 0 8 * * 1-5 Europe/Berlin"),
        ({"schedule": {"cron": "0 8 * * *"}}, "cron 0 8 * * * UTC"),
        ({"schedule": {"every": "15m", "anchor": "2026-01-01T00:00:00Z"}}, "every 15m"),
        ({"schedule": {"at": "2026-12-24T18:00:00Z"}}, "at 2026-12-24T18:00:00Z"),
        ({"schedule": {"in": "48h"}}, "in 48h"),
        ({"webhook": {"scheme": "github"}}, "webhook"),
        ({}, ""),
    ],
    ids=str,
)
def test_a_schedule_is_described_on_one_line(spec: dict[str, Any], text: str) -> None:
    """U-04: of every kind."""
    assert words.schedule(spec) == text


def test_a_local_time_names_its_offset() -> None:
    """U-04: local time is shown beside UTC, never instead of it."""
    assert words.wall("2026-03-02T09:00:00+01:00") == "Mon 2026-03-02 09:00:00 +01:00"
    assert words.readable("2026-03-02T09:00:00.123+01:00") == "2026-03-02 08:00:00 UTC"


def test_control_characters_are_made_visible() -> None:
    """U-04: a terminal would interpret them."""
    assert words.plain("a\r\nb\tc\x1b[0m\x00") == "a\nb\tc␛[0m␀"
    assert words.plain("a\x9b0m") == "a\\u009b0m"


def test_direction_overrides_are_made_visible() -> None:
    """U-04: a command cannot read as another one; right-to-left letters stay."""
    assert words.plain("rm \u202egnp.x \u2069\u2067 שלום") == "rm \\u202egnp.x \\u2069\\u2067 שלום"


QUARANTINE = {"since": "2026-03-02T07:00:00Z", "until": "2026-03-02T09:00:00Z", "attempts": 3, "error": "no such unit"}
HOLD = {"id": "1", "kind": "freeze", "mode": None, "until": None, "owner": "ann", "reason": "stocktaking"}


@pytest.mark.parametrize(
    ("status", "standing"),
    [
        ({}, ("active", "", None)),
        ({"quarantined": QUARANTINE}, ("quarantined", "it cannot be decided: no such unit", "2026-03-02T09:00:00Z")),
        ({"held": HOLD}, ("frozen", "by ann: stocktaking", None)),
        ({"held": HOLD | {"kind": "blackout"}}, ("blackout", "by ann: stocktaking", None)),
        (
            {"held": HOLD, "quarantined": QUARANTINE},
            ("quarantined", "it cannot be decided: no such unit", QUARANTINE["until"]),
        ),
    ],
    ids=str,
)
def test_holds_and_quarantines_are_described(status: dict[str, Any], standing: tuple[Any, ...]) -> None:
    """L-13, S-13, U-04: in one word, with the reason and the end."""
    known = {"deactivated_reason": None, "stopped_for": None, "paused_until": None, "held": None, "quarantined": None}
    status_out = StatusOut.model_validate(known | status)
    fields: dict[str, Any] = {"deleted": False, "active": True, "status": status_out}
    trigger = TriggerOut.model_construct(**fields)
    assert words.standing(trigger) == standing


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("gap", "the clocks skip that hour"),
        ("freeze", "a freeze is in force"),
        ("bank", "calendar bank closes its day"),
    ],
)
def test_reasons_for_skipping_are_described(reason: str, text: str) -> None:
    """U-04, S-09: calendars by their name."""
    assert words.left_out(reason) == text
