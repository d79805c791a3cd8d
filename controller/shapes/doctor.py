"""How an installation is, and how much its schedules ask for."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from typing_extensions import TypedDict

from controller.shapes.common import Time
from reconcile.decide.admission import is_too_much
from reconcile.report.installation_checks import Check
from revisions.ids import TriggerKey, utc_text


class CheckShape(TypedDict):
    """One thing that was looked at; `ok` is false for a fault only, `hint` says what to do where it is not well."""

    name: str
    ok: bool
    level: Literal["ok", "warning", "fault"]
    detail: str
    hint: str


class DoctorShape(TypedDict):
    """All that was looked at, as a list; `ok` when there is no fault among it."""

    ok: bool
    items: list[CheckShape]
    next_cursor: None


class AskedShape(TypedDict):
    """How many starts a second a trigger asks for."""

    trigger: str
    rate: float


class DemandShape(TypedDict):
    """Starts a second that the active schedules ask for, as the mean of the day after `at`, against what is allowed.

    `execution_qps` 0 allows any. `most` are the triggers that ask for most.
    """

    at: Time
    asked_rate: float
    execution_qps: float
    is_too_much: bool
    most: list[AskedShape]


def doctor_shape(checks: Sequence[Check]) -> DoctorShape:
    return {
        "ok": all(check.ok for check in checks),
        "items": [_check(check) for check in checks],
        "next_cursor": None,
    }


def _check(made: Check) -> CheckShape:
    return {
        "name": made.name,
        "ok": made.ok,
        "level": made.level.value,
        "detail": made.detail,
        "hint": made.hint,
    }


def demand_shape(at: datetime, asked: Mapping[TriggerKey | str, float], allowed: float, most: int) -> DemandShape:
    total = sum(asked.values())
    hungry = [(trigger, rate) for trigger, rate in asked.items() if rate]
    hungriest = sorted(hungry, key=lambda one: (-one[1], str(one[0])))[:most]
    return {
        "at": utc_text(at),
        "asked_rate": total,
        "execution_qps": allowed,
        "is_too_much": is_too_much(total, allowed),
        "most": [{"trigger": str(trigger), "rate": rate} for trigger, rate in hungriest],
    }
