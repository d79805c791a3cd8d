"""The state that a trigger's runs hand on: read, seeded, removed (X-03)."""

from typing import Any

from fastapi import APIRouter

from controller.api.bodies import Sent
from controller.api.context import Asking, Here, Named
from controller.api.triggers import ONE
from controller.shapes.states import ChangedStateShape, StateShape, state_shape
from reconcile.runs.manual.state import clear_state, read_state, seed_state

router = APIRouter(prefix="/triggers", tags=["state"])
PATH = f"{ONE}/state"

_ANY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "any JSON value of at most 64 KiB",
        "content": {kind: {"schema": {}} for kind in ("application/json", "application/yaml")},
    }
}


@router.get(PATH)
def show(key: Named, here: Here) -> StateShape:
    """What its next run finds as `state`; of a deleted trigger what it had."""
    return state_shape(key, read_state(here.database, key))


@router.put(PATH, openapi_extra=_ANY)
def seed(key: Named, body: Sent, caller: Asking, here: Here) -> ChangedStateShape:
    """Sets the state to the value in the body; the next run that answers one puts its own in its place."""
    made = seed_state(here.database, here.observations, key, body.document(), caller)
    return {**state_shape(key, made.state), "changed": made.changed}


@router.delete(PATH)
def clear(key: Named, caller: Asking, here: Here) -> ChangedStateShape:
    """Removes the state: the next run finds null."""
    made = clear_state(here.database, here.observations, key, caller)
    return {**state_shape(key, made.state), "changed": made.changed}
