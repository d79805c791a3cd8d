"""What the page says in words: times, spans, schedules, why something rests. Pure, of the API's shapes."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from controller.shapes.triggers import TriggerShape
from reconcile.report import wording

MINUTE, HOUR, DAY = 60, 3600, 86_400
LATE_SECONDS = 10

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
"""How a word is coloured; one that is not here rests."""

_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}
_TURNING = (*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Further controls, and what turns the text after it round, so that a command reads as another one."""
_SHOWN: dict[int, int | str] = {**_PICTURES, **{code: f"\\u{code:04x}" for code in _TURNING}}


class Standing(NamedTuple):
    """Whether a trigger acts, in one word, why not, and until when, as far as that is known."""

    word: str
    why: str
    until: str | None = None


def standing(trigger: TriggerShape, deleted_because: str = "") -> Standing:
    """How a trigger stands (R-08, R-20), and what keeps an active one from starting (L-13, S-13)."""
    status = trigger["status"]
    if trigger["deleted"]:
        return Standing("deleted", deleted_because)
    if not trigger["active"]:
        why = wording.SHORT_DEACTIVATIONS.get(status["stopped_for"] or "", status["deactivated_reason"] or "")
        word = "paused" if status["paused_until"] else "inactive"
        return Standing(word, why, status["paused_until"])
    if apart := status["quarantined"]:
        return Standing("quarantined", f"it cannot be decided: {apart['error']}", apart["until"])
    if held := status["held"]:
        word = "frozen" if held["kind"] == "freeze" else "blackout"
        return Standing(word, f"by {held['owner']}: {held['reason']}", held["until"])
    return Standing("active", "")


def skipped(outcome: str, reason: str) -> str:
    """Why an occurrence became no run: the recorded reason, explained where it is one of the product's own."""
    return wording.SHORT_SKIPS.get(reason or outcome, reason)


def tone(word: str) -> str:
    return TONES.get(word, "idle")


def label(word: str) -> str:
    """`timed_out` as people write it."""
    return word.replace("_", " ")


def at(text: str) -> datetime:
    """An instant of a shape."""
    return datetime.fromisoformat(text)


def readable(text: str) -> str:
    """`2026-03-02 08:00:05 UTC`; fractions stand in the `datetime` attribute."""
    return at(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def wall(text: str) -> str:
    """A local time with its weekday and offset: `Mon 2026-03-02 09:00:00 +01:00`."""
    local = at(text)
    offset = local.strftime("%z")
    return local.strftime("%a %Y-%m-%d %H:%M:%S ") + f"{offset[:3]}:{offset[3:5]}"


def hint(text: str, now: datetime) -> str:
    """How far away an instant is: `in 12 s`, `3 min ago`."""
    seconds = round((at(text) - now).total_seconds())
    if seconds == 0:
        return "now"
    distance = coarse(abs(seconds))
    return f"in {distance}" if seconds > 0 else f"{distance} ago"


def left_out(reason: str) -> str:
    """Why a wall time that the schedule names does not fire."""
    return wording.LEFT_OUT.get(reason, f"calendar {reason} closes its day")


def late(text: str, now: datetime) -> bool:
    """Whether a fire should have been by now: nothing decides, or it waits for its turn."""
    return (now - at(text)).total_seconds() > LATE_SECONDS


def coarse(seconds: int) -> str:
    """A span in the one unit that says most."""
    if seconds < 2 * MINUTE:
        return f"{seconds} s"
    if seconds < 2 * HOUR:
        return f"{seconds // MINUTE} min"
    if seconds < 2 * DAY:
        return f"{seconds // HOUR} h"
    return f"{seconds // DAY} days"


def span(started: str, ended: str | datetime) -> str:
    """How long something took: `0.4 s`, `2 min 5 s`, `3 h 20 min`."""
    end = ended if isinstance(ended, datetime) else at(ended)
    seconds = max(0.0, (end - at(started)).total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"


def schedule(spec: Mapping[str, Any]) -> str:
    """When a trigger fires, on one line: `cron 0 8 * * 1-5 Europe/Berlin`, `every 15m`."""
    block = spec.get("schedule")
    if not isinstance(block, dict):
        return next((kind for kind in ("event", "webhook", "file", "table", "action") if kind in spec), "")
    kind = next((name for name in ("cron", "every", "at", "in") if name in block), "")
    zone = f" {block.get('timezone', 'UTC')}" if kind == "cron" else ""
    return f"{kind} {block.get(kind, '')}{zone}".strip()


def link(path: str, query: Mapping[str, str | None]) -> str:
    """An address with those parts of the query that say something."""
    said = urlencode({name: text for name, text in query.items() if text})
    return f"{path}?{said}" if said else path


def pretty(value: Any) -> str:
    """A JSON value over several lines."""
    return plain(json.dumps(value, indent=2, ensure_ascii=False))


def plain(text: str) -> str:
    """Text of strangers with its control characters made visible, those that turn it round too."""
    return text.replace("\r\n", "\n").translate(_SHOWN)
