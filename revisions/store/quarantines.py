"""Quarantine: triggers that raised an error when decided, each retried after a growing wait (L-13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, and_, delete, select, true

from revisions.store.columns import in_list, insert_if_absent, storable
from revisions.store.run_tables import quarantines
from revisions.store.tables import triggers

FIRST_SECONDS = 30
LONGEST_SECONDS = 3_600
LONGEST_ERROR = 1_000


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A trigger's quarantine: since when, until when it is not decided, and the last error."""

    trigger_id: str
    since: datetime
    until_at: datetime
    attempts: int
    error: str


def put(connection: Connection, trigger_id: str, error: str, now: datetime) -> Quarantine:
    """Quarantine a trigger; each further time lasts twice as long."""
    before = get(connection, [trigger_id]).get(trigger_id)
    attempts = before.attempts + 1 if before else 1
    seconds = min(FIRST_SECONDS * 2 ** min(attempts - 1, 20), LONGEST_SECONDS)
    made = Quarantine(
        trigger_id,
        before.since if before else now,
        now + timedelta(seconds=seconds),
        attempts,
        storable(error, LONGEST_ERROR),
    )
    lift(connection, [trigger_id])
    insert_if_absent(connection, quarantines, {name: getattr(made, name) for name in Quarantine.__slots__})
    return made


def lift(connection: Connection, ids: Sequence[str]) -> None:
    """End the quarantine of triggers that were decided."""
    connection.execute(delete(quarantines).where(in_list(connection, quarantines.c.trigger_id, ids)))


def get(connection: Connection, ids: Sequence[str]) -> dict[str, Quarantine]:
    """Return the quarantines of triggers, by id."""
    statement = select(quarantines).where(in_list(connection, quarantines.c.trigger_id, ids))
    return {row.trigger_id: Quarantine(**row._mapping) for row in connection.execute(statement)}


def every(connection: Connection) -> list[Quarantine]:
    """Return the quarantines of active triggers, longest first."""
    statement = (
        select(quarantines)
        .join(triggers, and_(triggers.c.trigger_id == quarantines.c.trigger_id, triggers.c.active == true()))
        .order_by(quarantines.c.since, quarantines.c.trigger_id)
    )
    return [Quarantine(**row._mapping) for row in connection.execute(statement)]
