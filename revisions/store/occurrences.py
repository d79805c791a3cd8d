"""Skips with their reasons, and the ledger: a trigger's runs and skips in one list (E-05)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, Text, case, literal, null, select, true, tuple_, union_all

from revisions.outcomes import OccurrenceOutcome, RunStatus
from revisions.store.columns import Instant, insert_if_absent
from revisions.store.run_tables import occurrences, runs


@dataclass(frozen=True, slots=True)
class Skip:
    """An occurrence, or a range of them, that was decided without a run.

    A range has the id of its first occurrence; `count` is exact up to 1,000 and None beyond.
    """

    trigger_id: str
    occurrence_id: str
    scheduled_at: datetime
    scheduled_until: datetime
    decided_at: datetime
    outcome: OccurrenceOutcome
    reason: str
    revision: int
    count: int | None


def record(connection: Connection, skips: Sequence[Skip]) -> None:
    """Store skips; one that is stored already stays as it was first decided."""
    if skips:
        insert_if_absent(connection, occurrences, *({c: getattr(skip, c) for c in _COLUMNS} for skip in skips))


_COLUMNS = [column.name for column in occurrences.c]


def skips_within(connection: Connection, trigger_id: str, after: datetime, until: datetime) -> list[Skip]:
    """Return a trigger's skips that overlap (after, until], oldest first."""
    columns = occurrences.c
    statement = select(occurrences).where(columns.trigger_id == trigger_id, columns.scheduled_until > after)
    statement = statement.where(columns.scheduled_at <= until).order_by(columns.scheduled_at)
    return [
        Skip(**{**row._mapping, "outcome": OccurrenceOutcome(row.outcome)}) for row in connection.execute(statement)
    ]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A line of the ledger: a skip, or a run, whose outcome is `started`, `expired` or `parked`."""

    occurrence_id: str
    scheduled_at: datetime
    scheduled_until: datetime
    decided_at: datetime
    outcome: OccurrenceOutcome
    reason: str
    revision: int
    run_id: str | None
    count: int | None

    @classmethod
    def of(cls, skip: Skip) -> Self:
        """Return a skip as a line of the ledger."""
        same = (name for name in cls.__slots__ if name != "run_id")
        return cls(**{name: getattr(skip, name) for name in same}, run_id=None)


def ledger(
    connection: Connection, trigger_id: str, before: tuple[datetime, str, bool] | None, limit: int
) -> list[Occurrence]:
    """Return a trigger's runs and skips before (scheduled_at, occurrence_id, is a skip), newest first.

    An occurrence that was skipped and later started by hand has both; the skip comes first.
    """
    parts = []
    for table, is_skip in ((runs, False), (occurrences, True)):
        place = tuple_(table.c.scheduled_at, table.c.occurrence_id)
        statement = select(*_line(is_skip)).where(table.c.trigger_id == trigger_id)
        if before is not None:
            at_cursor = tuple_(literal(before[0], Instant), literal(before[1], Text))
            both = before[2] and not is_skip
            statement = statement.where(place <= at_cursor if both else place < at_cursor)
        newest = statement.order_by(table.c.scheduled_at.desc(), table.c.occurrence_id.desc()).limit(limit)
        parts.append(select(newest.subquery()))
    merged = union_all(*parts).subquery()
    order = (merged.c.scheduled_at.desc(), merged.c.occurrence_id.desc(), merged.c.is_skip.desc())
    rows = connection.execute(select(merged).order_by(*order).limit(limit))
    lines = ({name: getattr(row, name) for name in Occurrence.__slots__} for row in rows)
    return [Occurrence(**{**line, "outcome": OccurrenceOutcome(line["outcome"])}) for line in lines]


def _line(is_skip: bool) -> list[ColumnElement[Any]]:
    """Return the columns of a line, in the same order and under the same names for both tables."""
    table = occurrences if is_skip else runs
    began = case(
        (runs.c.status == RunStatus.EXPIRED, OccurrenceOutcome.EXPIRED),
        (runs.c.parked == true(), OccurrenceOutcome.PARKED),
        else_=OccurrenceOutcome.STARTED,
    )
    return [
        table.c.occurrence_id,
        table.c.scheduled_at,
        (occurrences.c.scheduled_until if is_skip else runs.c.scheduled_at).label("scheduled_until"),
        (occurrences.c.decided_at if is_skip else runs.c.created_at).label("decided_at"),
        occurrences.c.outcome if is_skip else began.label("outcome"),
        occurrences.c.reason if is_skip else literal("").label("reason"),
        table.c.revision,
        (null() if is_skip else runs.c.id).label("run_id"),
        occurrences.c.count if is_skip else literal(1).label("count"),
        literal(int(is_skip)).label("is_skip"),
    ]
