"""The state that a trigger's runs hand on, as people see it, seed it and remove it (X-03)."""

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
    """The state after a request, None where there never was one; `changed` is False when it stood so already."""

    state: StoredState | None
    changed: bool


class Seeding:
    """Reads, sets and removes one trigger's state; who did it stands beside it until the next run writes its own."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def show(self, key: TriggerKey) -> StoredState | None:
        """The state, of a deleted trigger too. Raises NotFound."""
        with self._database.read() as connection:
            return store.get(connection, _trigger(connection, key).trigger_id)

    def seed(self, key: TriggerKey, value: Any, caller: Caller) -> Seeded:
        """Sets the state that the next run finds; a run that goes on may still put its own in its place.

        Raises NotFound, for a deleted trigger too, and Invalid for a value that JSON cannot carry or that is too large.
        """
        documents.check(value, task_output.STATE_KEY)
        new = task_output.state_of(value)
        if new.fault:
            raise Invalid.at(
                task_output.STATE_KEY, new.fault, "store what is large elsewhere, and keep a reference to it"
            )
        return self._put(key, new.text, caller)

    def clear(self, key: TriggerKey, caller: Caller) -> Seeded:
        """Removes the state. Raises NotFound, for a deleted trigger too."""
        return self._put(key, None, caller)

    def _put(self, key: TriggerKey, text: str | None, caller: Caller) -> Seeded:
        with self._database.write() as connection:
            trigger = _trigger(connection, key)
            status_store.lock(connection, [trigger.trigger_id])
            trigger = _trigger(connection, key)  # as it is under the lock
            if trigger.deleted:
                raise NotFound.deleted(key, trigger.revision)
            before = store.get(connection, trigger.trigger_id)
            if (before.state if before else None) == text:
                return Seeded(before, changed=False)
            now = self._database.clock.now(connection)
            made = StoredState(trigger.trigger_id, text, now, caller.actor, run_id=None)
            store.put(connection, made)
        size = len(text.encode()) if text is not None else None
        self._observations.emit(StateChanged(key, caller.actor, size))
        return Seeded(made, changed=True)


def _trigger(connection: Connection, key: TriggerKey) -> Trigger:
    trigger = trigger_store.get(connection, key)
    if trigger is None:
        raise NotFound.trigger(key)
    return trigger
