"""State that a trigger's runs store for the next: one JSON value per trigger (X-03).

It has a table of its own, because trigger_status is locked often. Writers hold the lock of the status row, so that the
end of a run and a change by a person cannot cross.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from revisions.store.tables import trigger_states


@dataclass(frozen=True, slots=True)
class StoredState:
    """State of a trigger as canonical JSON, None once it was removed.

    `actor` wrote it; for a run that is the system, and `run_id` the run.
    """

    trigger_id: str
    state: str | None
    at: datetime
    actor: str
    run_id: str | None


def get(connection: Connection, trigger_id: str) -> StoredState | None:
    """Return a trigger's state; None when it never had one."""
    row = connection.execute(select(trigger_states).where(trigger_states.c.trigger_id == trigger_id)).one_or_none()
    return StoredState(**row._mapping) if row else None


def put(connection: Connection, new: StoredState) -> None:
    """Store a state in place of the one before."""
    values = {name: getattr(new, name) for name in StoredState.__slots__}
    this = update(trigger_states).where(trigger_states.c.trigger_id == new.trigger_id)
    if connection.execute(this.values(values)).rowcount == 0:
        connection.execute(insert(trigger_states).values(values))
