"""State that a trigger's runs hand on to each other: read, set and removed by people (X-03)."""

from dataclasses import dataclass
from typing import Any

from reconcile.decide import task_output
from reconcile.observations.observation import Observations
from reconcile.observations.specs import StateChanged
from reconcile.triggers.caller import Caller
from revisions.errors import Invalid, NotFound
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey
from revisions.spec import documents
from revisions.store import states as store
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.states import StoredState


@dataclass(frozen=True, slots=True)
class Seeded:
    """State after a request, None when there never was one; `changed` is False when it had this value already."""

    state: StoredState | None
    changed: bool


def read_state(database: Database, key: TriggerKey) -> StoredState | None:
    """Return the state, also of a deleted trigger. Raises NotFound."""
    with database.read() as connection:
        return store.get(connection, _trigger(connection, key).trigger_id)


def seed_state(database: Database, observations: Observations, key: TriggerKey, value: Any, caller: Caller) -> Seeded:
    """Set the state that the next run reads; a run under way may still replace it when it ends.

    Raises NotFound, also for a deleted trigger, and Invalid for a value that is no JSON or is too large.
    """
    documents.check(value, task_output.STATE_KEY)
    new = task_output.state_of(value)
    if new.fault:
        raise Invalid.at(task_output.STATE_KEY, new.fault, "store what is large elsewhere, and keep a reference to it")
    return _replace(database, observations, key, new.text, caller)


def clear_state(database: Database, observations: Observations, key: TriggerKey, caller: Caller) -> Seeded:
    """Remove the state. Raises NotFound, also for a deleted trigger."""
    return _replace(database, observations, key, None, caller)


def _replace(
    database: Database, observations: Observations, key: TriggerKey, text: str | None, caller: Caller
) -> Seeded:
    """Store the state with its author, under the status row's lock that settling takes as well."""
    with database.write() as connection:
        trigger = _trigger(connection, key)
        status_store.lock(connection, [trigger.trigger_id])
        trigger = _trigger(connection, key)  # it may have been deleted while waiting for the lock
        if trigger.deleted:
            raise NotFound.deleted(key, trigger.revision)
        before = store.get(connection, trigger.trigger_id)
        if (before.state if before else None) == text:
            return Seeded(before, changed=False)
        now = database.clock.now(connection)
        state = StoredState(trigger.trigger_id, text, now, caller.actor, run_id=None)
        store.put(connection, state)
    size = len(text.encode()) if text is not None else None
    observations.emit(StateChanged(key, caller.actor, size))
    return Seeded(state, changed=True)


def _trigger(connection: Connection, key: TriggerKey) -> Trigger:
    trigger = trigger_store.get(connection, key)
    if trigger is None:
        raise NotFound.trigger(key)
    return trigger
