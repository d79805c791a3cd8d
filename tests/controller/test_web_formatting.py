"""Formatting of times, durations, schedules and states on the pages."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.api.triggers import StatusOut, TriggerOut
from controller.web import formatting

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "text"),
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
def test_the_distance_of_an_instant_has_one_unit(at: str, text: str) -> None:
    """U-04: the next unit begins at two of it."""
    assert formatting.relative(at, NOW) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [("00.25", "0.2 s"), ("42", "42 s"), ("125", "2 min 5 s"), ("12000", "3 h 20 min"), ("-5", "0.0 s")],
    ids=str,
)
def test_short_durations_are_more_precise(seconds: str, text: str) -> None:
    """U-04: tenths of a second below ten seconds; never negative."""
    end = datetime.fromtimestamp(NOW.timestamp() + float(seconds), UTC)
    assert formatting.duration("2026-03-02T08:00:00Z", end) == text


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
def test_a_schedule_fits_on_one_line(spec: dict[str, Any], text: str) -> None:
    """U-04: each kind of schedule; of other kinds of triggers only their name."""
    assert formatting.schedule(spec) == text


def test_a_local_time_has_its_offset() -> None:
    """U-04: times in a zone have an offset; all others are UTC."""
    assert formatting.local_time("2026-03-02T09:00:00+01:00") == "Mon 2026-03-02 09:00:00 +01:00"
    assert formatting.readable("2026-03-02T09:00:00.123+01:00") == "2026-03-02 08:00:00 UTC"


def test_control_characters_are_visible() -> None:
    """U-04: pasted into a terminal, they would be executed unseen."""
    assert formatting.plain("a\r\nb\tc\x1b[0m\x00") == "a\nb\tc␛[0m␀"
    assert formatting.plain("a\x9b0m") == "a\\u009b0m"


def test_characters_that_reverse_text_are_visible() -> None:
    """U-04: a reason or command cannot be disguised as another; letters written from right to left stay."""
    assert formatting.plain("rm \u202egnp.x \u2069\u2067 שלום") == "rm \\u202egnp.x \\u2069\\u2067 שלום"


QUARANTINE = {"since": "2026-03-02T07:00:00Z", "until": "2026-03-02T09:00:00Z", "attempts": 3, "error": "no such unit"}
FREEZE = {"id": "1", "kind": "freeze", "mode": None, "until": None, "owner": "ann", "reason": "stocktaking"}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, ("active", "", None)),
        ({"quarantined": QUARANTINE}, ("quarantined", "it cannot be decided: no such unit", "2026-03-02T09:00:00Z")),
        ({"held": FREEZE}, ("frozen", "by ann: stocktaking", None)),
        ({"held": FREEZE | {"kind": "blackout"}}, ("blackout", "by ann: stocktaking", None)),
        (
            {"held": FREEZE, "quarantined": QUARANTINE},
            ("quarantined", "it cannot be decided: no such unit", QUARANTINE["until"]),
        ),
    ],
    ids=["free", "quarantine", "freeze", "blackout", "quarantine and freeze"],
)
def test_an_active_trigger_that_cannot_start_has_another_state(status: dict[str, Any], state: tuple[Any, ...]) -> None:
    """L-13, S-13, U-04: one word, the reason, and the end; a quarantine goes before a hold."""
    unset = {"deactivated_reason": None, "stopped_for": None, "paused_until": None, "held": None, "quarantined": None}
    fields: dict[str, Any] = {"deleted": False, "active": True, "status": StatusOut.model_validate(unset | status)}
    assert formatting.display_state(TriggerOut.model_construct(**fields)) == state


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("gap", "the clocks skip that hour"),
        ("freeze", "a freeze is in force"),
        ("bank", "calendar bank closes its day"),
    ],
)
def test_a_time_that_is_left_out_has_a_reason_in_words(reason: str, text: str) -> None:
    """U-04, S-09: any other reason is the name of a calendar."""
    assert formatting.left_out(reason) == text
