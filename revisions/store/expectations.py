"""Deadlines of triggers: until when they are judged, when the next one is due, and which were missed (X-16).

Deadlines are judged under the lock of the trigger's status row, so that no run ends meanwhile.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Text, bindparam, delete, func, insert, literal, select, tuple_, update

from revisions.history.triggers import Revision, Trigger
from revisions.outcomes import DeadlineKind
from revisions.spec.stored import readable_trigger
from revisions.store.columns import Instant, insert_if_absent
from revisions.store.run_tables import expectations, missed_deadlines
from revisions.store.sessions import Write

_ARM = insert(expectations)
_DISARM = delete(expectations).where(expectations.c.trigger_id == bindparam("where_trigger"))
_LOOK = update(expectations).where(expectations.c.trigger_id == bindparam("where_trigger"))


@dataclass(frozen=True, slots=True)
class DeadlineWatch:
    """Progress of a trigger's deadlines: judged up to `judged_until`, next to be judged at `look_at` (None: never)."""

    trigger_id: str
    judged_until: datetime
    look_at: datetime | None


@dataclass(frozen=True, slots=True)
class MissedDeadline:
    """Deadline at which no run scheduled at `scheduled_at` or later had succeeded."""

    trigger_id: str
    kind: DeadlineKind
    due_at: datetime
    scheduled_at: datetime
    occurrence_id: str
    revision: int
    noticed_at: datetime


def change_writes(previous: Trigger | None, revision: Revision) -> Iterator[Write]:
    """Yield the writes of a trigger's change: its deadlines are computed anew, pending ones included."""
    was = previous is not None and readable_trigger(previous.spec).expect is not None
    now = readable_trigger(revision.spec).expect is not None
    if was:
        yield _LOOK, {"where_trigger": revision.trigger_id, "look_at": revision.at}
    elif now:
        yield _DISARM, {"where_trigger": revision.trigger_id}
        yield _ARM, {"trigger_id": revision.trigger_id, "judged_until": revision.at, "look_at": revision.at}


def recompute(connection: Connection, trigger_id: str, at: datetime) -> None:
    """Have a trigger's deadlines computed anew at `at`, if it has any."""
    connection.execute(_LOOK, {"where_trigger": trigger_id, "look_at": at})


def due(connection: Connection, now: datetime, limit: int) -> list[str]:
    """Return triggers whose deadlines are due for judging, longest waiting first."""
    at = expectations.c.look_at
    return list(
        connection.execute(
            select(expectations.c.trigger_id).where(at <= now).order_by(at, expectations.c.trigger_id).limit(limit)
        ).scalars()
    )


def get(connection: Connection, trigger_id: str) -> DeadlineWatch | None:
    row = connection.execute(select(expectations).where(expectations.c.trigger_id == trigger_id)).one_or_none()
    return DeadlineWatch(**row._mapping) if row else None


def move(connection: Connection, watch: DeadlineWatch) -> None:
    """Store the progress of a trigger's deadlines."""
    moved = {"judged_until": watch.judged_until, "look_at": watch.look_at}
    connection.execute(_LOOK, moved | {"where_trigger": watch.trigger_id})


def record(connection: Connection, missed: Sequence[MissedDeadline]) -> int:
    """Store missed deadlines, each once, and return the number of new ones."""
    rows = ({name: getattr(deadline, name) for name in MissedDeadline.__slots__} for deadline in missed)
    return insert_if_absent(connection, missed_deadlines, *rows) if missed else 0


def missed_since(connection: Connection, since: datetime) -> list[tuple[str, datetime]]:
    """Return (trigger id, latest deadline) of deadlines found missed since an instant, newest first."""
    latest = func.max(missed_deadlines.c.due_at, type_=missed_deadlines.c.due_at.type)
    statement = select(missed_deadlines.c.trigger_id, latest).where(missed_deadlines.c.noticed_at >= since)
    grouped = statement.group_by(missed_deadlines.c.trigger_id)
    return [
        (row[0], row[1]) for row in connection.execute(grouped.order_by(latest.desc(), missed_deadlines.c.trigger_id))
    ]


def page(
    connection: Connection, trigger_id: str, before: tuple[datetime, str] | None, limit: int
) -> list[MissedDeadline]:
    """Return a trigger's missed deadlines before (due_at, kind), newest first."""
    place = tuple_(missed_deadlines.c.due_at, missed_deadlines.c.kind)
    statement = select(missed_deadlines).where(missed_deadlines.c.trigger_id == trigger_id)
    if before is not None:
        statement = statement.where(place < tuple_(literal(before[0], Instant), literal(before[1], Text)))
    order = (missed_deadlines.c.due_at.desc(), missed_deadlines.c.kind.desc())
    return [MissedDeadline(**row._mapping) for row in connection.execute(statement.order_by(*order).limit(limit))]
