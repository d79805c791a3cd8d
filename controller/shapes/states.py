"""The state that a trigger's runs hand on."""

import json
from typing import Any

from typing_extensions import TypedDict

from controller.shapes.common import Time, time_text
from revisions.ids import TriggerKey
from revisions.store.states import StoredState


class StateShape(TypedDict):
    """The state of a trigger, null where there is none; since when, and by whom or by which run.

    `changed_at` is null where there never was one.
    """

    trigger: str
    state: Any
    changed_at: Time | None
    changed_by: str | None
    run_id: str | None


class ChangedStateShape(StateShape):
    """The state after a request; `changed` is false when it stood so already."""

    changed: bool


def state_shape(key: TriggerKey, kept: StoredState | None) -> StateShape:
    return {
        "trigger": str(key),
        "state": json.loads(kept.state) if kept and kept.state is not None else None,
        "changed_at": time_text(kept.at if kept else None),
        "changed_by": kept.actor if kept else None,
        "run_id": kept.run_id if kept else None,
    }
