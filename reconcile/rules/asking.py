"""The next fire that a run asks for in its output (S-08)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from revisions.spec.notation import ScheduleError, instant, shown

KEY: Final = "next_fire_at"
SOONEST: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """When the trigger is to fire next, None where that cannot be done; `note` is what people should know of it."""

    at: datetime | None
    note: str = ""


def asked(output: Mapping[str, Any] | None, now: datetime) -> Asked | None:
    """What an output asks for, None when it asks for nothing; an instant that is not ahead becomes a second ahead."""
    if output is None or output.get(KEY) is None:
        return None
    try:
        at = instant(output[KEY])
    except ScheduleError as error:
        return Asked(None, f"{KEY}: {error.message}; {error.hint}")
    if at <= now:
        return Asked(now + SOONEST, f"{KEY}: {shown(output[KEY])} was not ahead, so it fires a second later")
    return Asked(at)
