"""What a trigger's runs hand on to the next: one JSON value each, apart from the status, whose locks are many (X-03).

Whoever writes one holds the lock of the trigger's status row, so that a run's end and a seed do not cross.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from revisions.store.tables import trigger_states


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state of one trigger, as canonical JSON; None once somebody removed it.

    `actor` wrote it: the system for a run, which `run_id` names then.
    """

    trigger_id: str
    state: str | None
    at: datetime
    actor: str
    run_id: str | None


def get(connection: Connection, trigger_id: str) -> StoredState | None:
    """The newest there was, None for a trigger that never had one."""
    found = connection.execute(select(trigger_states).where(trigger_states.c.trigger_id == trigger_id)).one_or_none()
    return StoredState(**found._mapping) if found else None


def put(connection: Connection, new: StoredState) -> None:
    """Takes the place of the one before."""
    values = {name: getattr(new, name) for name in StoredState.__slots__}
    this = update(trigger_states).where(trigger_states.c.trigger_id == new.trigger_id)
    if connection.execute(this.values(values)).rowcount == 0:
        connection.execute(insert(trigger_states).values(values))
