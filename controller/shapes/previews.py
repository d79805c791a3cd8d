"""Fires ahead, what is left out between them, and what a deploy would warn of."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NotRequired

from typing_extensions import TypedDict

from controller.shapes.common import Time, time_text
from reconcile.schedule.fires import Fire, LeftOut
from revisions.history.triggers import Trigger
from revisions.ids import utc_text


class FireShape(TypedDict):
    """One fire ahead, in UTC and in the schedule's zone; `fires_at` is when it really starts, under a `spread`."""

    id: str
    utc: Time
    local: Time
    fires_at: NotRequired[Time]


class LeftOutShape(TypedDict):
    """A wall time that will not fire, and why: `gap`, `fold`, `exclude`, a calendar's name; or `freeze`, `blackout`."""

    local: str
    reason: str


class InactiveShape(TypedDict):
    """Why a trigger is not active, and when its pause ends."""

    reason: str
    paused_until: Time | None


class PreviewShape(TypedDict):
    """The next fires and what is left out between them; `inactive` stands only where none of that fires for now."""

    fires: list[FireShape]
    skipped: list[LeftOutShape]
    inactive: NotRequired[InactiveShape]


class WarningsShape(TypedDict):
    """What whoever deploys a manifest is to know (E-15, X-08)."""

    warnings: list[str]


def preview_shape(ahead: Sequence[Fire], missing: Sequence[LeftOut], late: timedelta) -> PreviewShape:
    """`late` is how much later than its nominal times the trigger fires (S-12)."""
    return {
        "fires": [fire_shape(one) | ({"fires_at": utc_text(one.at + late)} if late else {}) for one in ahead],
        "skipped": [left_out_shape(missed) for missed in missing],
    }


def inactive_shape(trigger: Trigger) -> InactiveShape:
    return {"reason": trigger.deactivated_reason or "", "paused_until": time_text(trigger.until)}


def fire_shape(named: Fire) -> FireShape:
    return {"id": named.id, "utc": utc_text(named.at), "local": _local(named)}


def left_out_shape(missed: LeftOut) -> LeftOutShape:
    return {"local": missed.local, "reason": missed.reason}


def _local(fire: Fire) -> str:
    text = fire.local.isoformat()
    return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text
