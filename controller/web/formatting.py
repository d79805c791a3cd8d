"""Formatting of API answers as text on the pages: times, durations, schedules, states. Pure."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from controller.api.triggers import TriggerOut
from reconcile.report import wording

MINUTE, HOUR, DAY = 60, 3600, 86_400
OVERDUE_SECONDS = 10
"""Age from which an undecided fire is marked as overdue."""

TONES: Mapping[str, str] = {
    "succeeded": "good",
    "active": "good",
    "failed": "bad",
    "timed_out": "bad",
    "running": "busy",
    "pending": "busy",
    "waiting": "busy",
    "parked": "busy",
    "started": "busy",
    "missed": "odd",
    "expired": "odd",
    "paused": "odd",
    "quarantined": "bad",
    "frozen": "odd",
    "blackout": "odd",
}
"""CSS class of the badge of a state or outcome, `idle` for all others."""

_CONTROL_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}
_INVISIBLE = (*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Further control characters, and those that reverse the text after them, so that it reads as other text."""
_VISIBLE_FORMS: dict[int, int | str] = {**_CONTROL_PICTURES, **{code: f"\\u{code:04x}" for code in _INVISIBLE}}


class DisplayState(NamedTuple):
    """State of a trigger in one word, the reason for it, and its end if that is known."""

    word: str
    reason: str
    until: str | None = None


def display_state(trigger: TriggerOut, deletion_reason: str = "") -> DisplayState:
    """Return the state of a trigger (R-08, R-20), and what keeps an active one from starting (L-13, S-13)."""
    status = trigger.status
    if trigger.deleted:
        return DisplayState("deleted", deletion_reason)
    if not trigger.active:
        reason = wording.SHORT_DEACTIVATIONS.get(status.stopped_for or "", status.deactivated_reason or "")
        word = "paused" if status.paused_until else "inactive"
        return DisplayState(word, reason, status.paused_until)
    if quarantine := status.quarantined:
        return DisplayState("quarantined", f"it cannot be decided: {quarantine.error}", quarantine.until)
    if hold := status.held:
        word = "frozen" if hold.kind == "freeze" else "blackout"
        return DisplayState(word, f"by {hold.owner}: {hold.reason}", hold.until)
    return DisplayState("active", "")


def skipped(outcome: str, reason: str) -> str:
    """Why an occurrence became no run: the recorded reason, explained where it is one of the product's own."""
    return wording.SHORT_SKIPS.get(reason or outcome, reason)


def tone(word: str) -> str:
    """Return the CSS class of a state or outcome."""
    return TONES.get(word, "idle")


def label(word: str) -> str:
    """Return a word of the API as people write it: `timed out` for `timed_out`."""
    return word.replace("_", " ")


def readable(text: str) -> str:
    """Return an instant in UTC to the second: `2026-03-02 08:00:05 UTC`."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def local_time(text: str) -> str:
    """Return a local time with its weekday and offset: `Mon 2026-03-02 09:00:00 +01:00`."""
    local = datetime.fromisoformat(text)
    offset = local.strftime("%z")
    return local.strftime("%a %Y-%m-%d %H:%M:%S ") + f"{offset[:3]}:{offset[3:5]}"


def relative(text: str, now: datetime) -> str:
    """Return the distance of an instant from now: `in 12 s`, `3 min ago`."""
    seconds = round((datetime.fromisoformat(text) - now).total_seconds())
    if seconds == 0:
        return "now"
    distance = _rounded(abs(seconds))
    return f"in {distance}" if seconds > 0 else f"{distance} ago"


def left_out(reason: str) -> str:
    """Why a wall time that the schedule names does not fire."""
    return wording.LEFT_OUT.get(reason, f"calendar {reason} closes its day")


def is_overdue(text: str, now: datetime) -> bool:
    """Return whether a fire should have been decided by now: no loop runs, or it waits for a rate token."""
    return (now - datetime.fromisoformat(text)).total_seconds() > OVERDUE_SECONDS


def _rounded(seconds: int) -> str:
    """Return a duration in one unit: `119 s`, `2 min`, `25 h`, `7 days`."""
    if seconds < 2 * MINUTE:
        return f"{seconds} s"
    if seconds < 2 * HOUR:
        return f"{seconds // MINUTE} min"
    if seconds < 2 * DAY:
        return f"{seconds // HOUR} h"
    return f"{seconds // DAY} days"


def duration(started: str, ended: str | datetime) -> str:
    """Return the time between two instants: `0.4 s`, `2 min 5 s`, `3 h 20 min`."""
    end = ended if isinstance(ended, datetime) else datetime.fromisoformat(ended)
    seconds = max(0.0, (end - datetime.fromisoformat(started)).total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"


def schedule(spec: Mapping[str, Any]) -> str:
    """Return the schedule of a spec on one line: `cron 0 8 * * 1-5 Europe/Berlin`, `every 15m`."""
    block = spec.get("schedule")
    if not isinstance(block, dict):
        return next((kind for kind in ("event", "webhook", "file", "table", "action") if kind in spec), "")
    kind = next((name for name in ("cron", "every", "at", "in") if name in block), "")
    zone = f" {block.get('timezone', 'UTC')}" if kind == "cron" else ""
    return f"{kind} {block.get(kind, '')}{zone}".strip()


def link(path: str, query: Mapping[str, str | None]) -> str:
    """Return an address with the parameters that have a value."""
    parameters = urlencode({name: text for name, text in query.items() if text})
    return f"{path}?{parameters}" if parameters else path


def pretty(value: Any) -> str:
    """Return a JSON value over several lines."""
    return plain(json.dumps(value, indent=2, ensure_ascii=False))


def plain(text: str) -> str:
    """Return a text of users with visible forms of its control characters, also of those that reverse text."""
    return text.replace("\r\n", "\n").translate(_VISIBLE_FORMS)
