"""A trigger as it stands, what it does, and what became of it in a request."""

import json
from typing import NamedTuple

from typing_extensions import TypedDict

from controller.shapes.common import Object, Time, time_text
from controller.shapes.holds import HeldShape, held_shape
from reconcile.triggers.append import Changed
from revisions.history.triggers import Trigger
from revisions.ids import utc_text
from revisions.store.holds import Hold
from revisions.store.quarantines import Quarantine
from revisions.store.status import StatusRow


class FactsShape(TypedDict):
    """What a trigger did and will do; all null in a trigger as of a time, for nobody keeps them (R-09)."""

    next_fire_at: Time | None
    last_fired_at: Time | None
    last_success_at: Time | None
    last_outcome: str | None
    last_outcome_at: Time | None
    last_run_id: str | None
    last_error: str | None
    run_count: int | None
    consecutive_failures: int | None


class QuarantinedShape(TypedDict):
    """Since when a trigger could not be decided, when that is tried again, how often it was, and what went wrong."""

    since: Time
    until: Time
    attempts: int
    error: str


class StatusShape(FactsShape):
    """What a trigger does, apart from what it is.

    `stopped_for` is why the system itself deactivated it, null where a person did, whatever the reason says.
    `held` and `quarantined` as it is now; null where nothing is in its way, and in a trigger as of a time.
    """

    deactivated_reason: str | None
    stopped_for: str | None
    paused_until: Time | None
    held: HeldShape | None
    quarantined: QuarantinedShape | None


class TriggerShape(TypedDict):
    """A trigger as it stands."""

    project: str
    domain: str
    task: str
    name: str
    revision: int
    active: bool
    deleted: bool
    tags: list[str]
    spec: Object
    hash: str
    changed_at: Time
    changed_by: str
    status: StatusShape


class ChangedTriggerShape(TriggerShape):
    """A trigger after a request; `changed` is false when nothing had to be appended.

    `warnings` are what whoever deployed or activated it is to know (E-15, X-08).
    """

    changed: bool
    warnings: list[str]


class BulkShape(TypedDict):
    """What became of one trigger of many; `changed` is false when nothing had to be appended.

    `warnings` are what whoever activated it is to know (X-08).
    """

    trigger: str
    old_revision: int
    new_revision: int
    changed: bool
    warnings: list[str]


_UNKNOWN: FactsShape = {
    "next_fire_at": None,
    "last_fired_at": None,
    "last_success_at": None,
    "last_outcome": None,
    "last_outcome_at": None,
    "last_run_id": None,
    "last_error": None,
    "run_count": None,
    "consecutive_failures": None,
}


class InItsWay(NamedTuple):
    """What keeps a trigger from starting just now: who holds it (S-13), and that it cannot be decided (L-13)."""

    hold: Hold | None = None
    quarantine: Quarantine | None = None


_NOTHING = InItsWay()


def trigger_shape(current: Trigger, row: StatusRow | None, in_its_way: InItsWay = _NOTHING) -> TriggerShape:
    """`row` is None for a trigger as of a time, of which no runtime facts are known."""
    return {
        **current.key._asdict(),  # type: ignore[typeddict-item]  # the four names
        "revision": current.revision,
        "active": current.active,
        "deleted": current.deleted,
        "tags": list(current.tags),
        "spec": json.loads(current.spec),
        "hash": current.hash,
        "changed_at": utc_text(current.changed_at),
        "changed_by": current.changed_by,
        "status": status_shape(current, row, in_its_way),
    }


def status_shape(current: Trigger, row: StatusRow | None, in_its_way: InItsWay) -> StatusShape:
    hold, quarantine = in_its_way
    return {
        **(_facts(row) if row else _UNKNOWN),
        "deactivated_reason": current.deactivated_reason,
        "stopped_for": current.stopped_for,
        "paused_until": time_text(current.until),
        "held": held_shape(hold) if hold else None,
        "quarantined": _quarantined(quarantine) if quarantine else None,
    }


def _quarantined(apart: Quarantine) -> QuarantinedShape:
    return {
        "since": utc_text(apart.since),
        "until": utc_text(apart.until_at),
        "attempts": apart.attempts,
        "error": apart.error,
    }


def _facts(row: StatusRow) -> FactsShape:
    return {
        "next_fire_at": time_text(row.next_fire_at),
        "last_fired_at": time_text(row.last_fired_at),
        "last_success_at": time_text(row.last_success_at),
        "last_outcome": row.last_outcome,
        "last_outcome_at": time_text(row.last_outcome_at),
        "last_run_id": row.last_run_id,
        "last_error": row.last_error,
        "run_count": row.run_count,
        "consecutive_failures": row.consecutive_failures,
    }


def bulk_shape(changed: Changed) -> BulkShape:
    """One of many changes; a bulk change creates nothing, so there is a revision before."""
    new = changed.trigger.revision
    old = changed.before if changed.before is not None else new
    return {
        "trigger": str(changed.trigger.key),
        "old_revision": old,
        "new_revision": new,
        "changed": changed.changed,
        "warnings": list(changed.warnings),
    }
