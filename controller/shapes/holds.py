"""Freezes and blackouts, and what holds a trigger just now."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from typing_extensions import TypedDict

from controller.shapes.common import Since, Time, time_text
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import HoldKind
from revisions.store.holds import Hold


class HeldShape(TypedDict):
    """The freeze or the blackout that keeps a trigger from starting; without `until` it lasts until it is lifted."""

    id: str
    kind: Literal["freeze", "blackout"]
    mode: str | None
    until: Time | None
    owner: str
    reason: str


class HoldShape(Since):
    """A freeze or a blackout as it stands: for whom, where a null narrows nothing, from when and until when, and why.

    `mode` is a blackout's. What was ended early says so by its `until`.
    """

    until: Time | None
    id: str
    kind: Literal["freeze", "blackout"]
    state: Literal["to_come", "in_force", "over"]
    project: str | None
    tag: str | None
    trigger: str | None
    mode: str | None
    owner: str
    reason: str
    revision: int
    changed_at: Time
    changed_by: str


def held_shape(by: Hold) -> HeldShape:
    return {
        "id": by.hold_id,
        "kind": "freeze" if by.kind == HoldKind.FREEZE else "blackout",
        "mode": by.mode or None,
        "until": time_text(by.until_at),
        "owner": by.owner,
        "reason": by.reason,
    }


def hold_shape(made: Hold, now: datetime, triggers: Mapping[str, TriggerKey]) -> HoldShape:
    """`triggers` names the triggers by their ids."""
    is_over = made.until_at is not None and (made.until_at <= now or made.until_at <= made.from_at)
    return {
        "id": made.hold_id,
        "kind": "freeze" if made.kind == HoldKind.FREEZE else "blackout",
        "state": "over" if is_over else "in_force" if made.from_at <= now else "to_come",
        "project": made.project,
        "tag": made.tag,
        "trigger": str(triggers[made.trigger_id]) if made.trigger_id else None,
        "from": utc_text(made.from_at),
        "until": time_text(made.until_at),
        "mode": made.mode or None,
        "owner": made.owner,
        "reason": made.reason,
        "revision": made.revision,
        "changed_at": utc_text(made.at),
        "changed_by": made.actor,
    }
