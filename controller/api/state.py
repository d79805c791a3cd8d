"""State that a trigger's runs hand on to the next: read, seed, clear (X-03)."""

import json
from typing import Any

from fastapi import APIRouter

from controller.api.answers import Answer, Time, time_text
from controller.api.bodies import RawBodyDep
from controller.api.parameters import CallerDep, ServicesDep, TriggerPath
from controller.api.triggers import ONE
from controller.auth.requirements import Projects, require
from reconcile.decide.authority import Role
from reconcile.runs.manual.orders import clear_state, read_state, seed_state
from revisions.ids import TriggerKey
from revisions.store.states import StoredState

router = APIRouter(prefix="/triggers", tags=["state"])
PATH = f"{ONE}/state"

_ANY_JSON: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "any JSON value of at most 64 KiB",
        "content": {kind: {"schema": {}} for kind in ("application/json", "application/yaml")},
    }
}


class StateOut(Answer):
    """State of a trigger, null if there is none; when it was set, and by which person or run.

    `changed_at` is null if there never was a state.
    """

    trigger: str
    state: Any
    changed_at: Time | None
    changed_by: str | None
    run_id: str | None


class ChangedStateOut(StateOut):
    """State after a request; `changed` is false if it already was so."""

    changed: bool


@router.get(PATH, dependencies=[require(Role.VIEWER, Projects.NAMED)])
def show(key: TriggerPath, services: ServicesDep) -> StateOut:
    """Return the `state` that the next run gets; of a deleted trigger the last one."""
    return state_out(key, read_state(services.database, key))


@router.put(PATH, openapi_extra=_ANY_JSON, dependencies=[require(Role.OPERATOR, Projects.NAMED)])
def seed(key: TriggerPath, body: RawBodyDep, caller: CallerDep, services: ServicesDep) -> ChangedStateOut:
    """Set the state to the value in the body. A later run that answers a state replaces it."""
    made = seed_state(services.database, services.observations, key, body.document(), caller)
    return ChangedStateOut(**dict(state_out(key, made.state)), changed=made.changed)


@router.delete(PATH, dependencies=[require(Role.OPERATOR, Projects.NAMED)])
def clear(key: TriggerPath, caller: CallerDep, services: ServicesDep) -> ChangedStateOut:
    """Remove the state: the next run gets null."""
    made = clear_state(services.database, services.observations, key, caller)
    return ChangedStateOut(**dict(state_out(key, made.state)), changed=made.changed)


def state_out(key: TriggerKey, row: StoredState | None) -> StateOut:
    """Return a state as the API shows it."""
    return StateOut(
        trigger=str(key),
        state=json.loads(row.state) if row and row.state is not None else None,
        changed_at=time_text(row.at if row else None),
        changed_by=row.actor if row else None,
        run_id=row.run_id if row else None,
    )
