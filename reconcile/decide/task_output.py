"""The next fire that a run asks for in its output (S-08)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from revisions.history.chain import canonical
from revisions.spec.notation import ScheduleError, instant, shown

NEXT_FIRE_KEY: Final = "next_fire_at"
SOONEST: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class RequestedFire:
    """When the trigger is to fire next, None where that cannot be done; `note` is what people should know of it."""

    at: datetime | None
    note: str = ""


def requested_fire(output: Mapping[str, Any] | None, now: datetime) -> RequestedFire | None:
    """What an output asks for, None when it asks for nothing; an instant that is not ahead becomes a second ahead."""
    if output is None or output.get(NEXT_FIRE_KEY) is None:
        return None
    try:
        at = instant(output[NEXT_FIRE_KEY])
    except ScheduleError as error:
        return RequestedFire(None, f"{NEXT_FIRE_KEY}: {error.message}; {error.hint}")
    if at <= now:
        return RequestedFire(
            now + SOONEST, f"{NEXT_FIRE_KEY}: {shown(output[NEXT_FIRE_KEY])} was not ahead, so it fires a second later"
        )
    return RequestedFire(at)


STATE_KEY: Final = "state"
"""The output that is kept for a trigger's next run, and what a task finds it under."""
LARGEST: Final = 64 * 1024
"""Bytes of its canonical text; what is larger belongs into a store of its own, with a reference in the state."""


@dataclass(frozen=True, slots=True)
class ProducedState:
    """A state as canonical JSON, and what is wrong with it: None for one that can be kept."""

    text: str
    fault: str | None


def state_of(value: Any) -> ProducedState:
    """Any JSON value as a state."""
    text = canonical(value)
    size = len(text.encode())
    too_large = f"is {size:,} bytes as canonical JSON, at most {LARGEST:,} are kept"
    return ProducedState(text, too_large if size > LARGEST else None)


def produced_state(output: Mapping[str, Any] | None) -> ProducedState | None:
    """The state in an output, null being one too; None for an output without."""
    return state_of(output[STATE_KEY]) if output is not None and STATE_KEY in output else None
