"""What did not become a run, with the reason; and the ledger that people see, runs and skips in one list (E-05)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from revisions.store.database import insert_if_absent
from revisions.store.tables import occurrences


@dataclass(frozen=True, slots=True)
class Skip:
    """One occurrence, or a range of them, that was decided without a run.

    A range bears its first occurrence's id; `count` is exact up to 1,000 and None beyond.
    """

    trigger_id: str
    occurrence_id: str
    scheduled_at: datetime
    scheduled_until: datetime
    decided_at: datetime
    outcome: str
    reason: str
    revision: int
    count: int | None


def record(connection: Connection, skips: Sequence[Skip]) -> None:
    """Stores skips; one that is recorded already stays as it was first decided."""
    if skips:
        insert_if_absent(connection, occurrences, *({c: getattr(skip, c) for c in _COLUMNS} for skip in skips))


_COLUMNS = [column.name for column in occurrences.c]


def skips_of(connection: Connection, trigger_id: str) -> list[Skip]:
    """All that was skipped of a trigger, oldest first."""
    statement = select(occurrences).where(occurrences.c.trigger_id == trigger_id).order_by(occurrences.c.scheduled_at)
    return [Skip(**row._mapping) for row in connection.execute(statement)]
