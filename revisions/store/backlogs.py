"""Catch-up backlogs: ranges of missed occurrences that are decided later, oldest first (L-06)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, insert, select, true, update

from revisions.store.columns import in_list
from revisions.store.run_tables import catchup_backlogs, quarantines
from revisions.store.sessions import Write
from revisions.store.tables import triggers


@dataclass(frozen=True, slots=True)
class Backlog:
    """Missed occurrences in (cursor_at, until_at] that are still to be decided, oldest first."""

    trigger_id: str
    cursor_at: datetime
    until_at: datetime
    created_at: datetime
    served_at: datetime


_DROP = delete(catchup_backlogs).where(catchup_backlogs.c.trigger_id == bindparam("where_trigger"))


def delete_write(trigger_id: str) -> Write:
    """Return the statement that deletes a trigger's backlogs; the caller holds the status row's lock."""
    return _DROP, {"where_trigger": trigger_id}


def delete_all(connection: Connection, trigger_id: str) -> None:
    """Delete a trigger's backlogs; the caller holds the status row's lock."""
    connection.execute(*delete_write(trigger_id))


def count_triggers(connection: Connection) -> int:
    """Return the number of triggers with a backlog."""
    distinct = func.count(catchup_backlogs.c.trigger_id.distinct())
    number: int = connection.execute(select(distinct)).scalar_one()
    return number


def any_open(connection: Connection) -> bool:
    """Return True when any trigger has a backlog."""
    return bool(connection.execute(select(exists(select(catchup_backlogs.c.trigger_id)))).scalar())


def trigger_ids(connection: Connection) -> list[str]:
    """Return the ids of the triggers with a backlog, in order."""
    distinct = select(catchup_backlogs.c.trigger_id).distinct().order_by(catchup_backlogs.c.trigger_id)
    return list(connection.execute(distinct).scalars())


def get(connection: Connection, ids: Sequence[str]) -> list[Backlog]:
    """Return the backlogs of triggers, oldest first."""
    statement = (
        select(catchup_backlogs)
        .where(in_list(connection, catchup_backlogs.c.trigger_id, ids))
        .order_by(catchup_backlogs.c.trigger_id, catchup_backlogs.c.until_at)
    )
    return [Backlog(**row._mapping) for row in connection.execute(statement)]


def least_recently_served(connection: Connection, now: datetime, limit: int, frozen: Collection[str] = ()) -> list[str]:
    """Return active triggers with a backlog, the one that waited longest first (L-06).

    Triggers in quarantine and those of frozen projects are left out, because they would take the places of others.
    """
    apart = exists().where(quarantines.c.trigger_id == catchup_backlogs.c.trigger_id, quarantines.c.until_at > now)
    statement = (
        select(catchup_backlogs.c.trigger_id)
        .join(triggers, and_(triggers.c.trigger_id == catchup_backlogs.c.trigger_id, triggers.c.active == true()))
        .where(~apart, triggers.c.project.not_in(frozen))
        .order_by(catchup_backlogs.c.served_at, catchup_backlogs.c.trigger_id)
        .limit(limit)
    )
    return list(dict.fromkeys(connection.execute(statement).scalars()))


def add(connection: Connection, opened: Sequence[Backlog]) -> None:
    """Store backlogs."""
    if opened:
        connection.execute(insert(catchup_backlogs), [_columns(backlog) for backlog in opened])


def serve(connection: Connection, backlog: Backlog, cursor_at: datetime, now: datetime) -> None:
    """Move a backlog's cursor, or delete the backlog when all of it is decided."""
    one = and_(catchup_backlogs.c.trigger_id == backlog.trigger_id, catchup_backlogs.c.until_at == backlog.until_at)
    if cursor_at >= backlog.until_at:
        connection.execute(delete(catchup_backlogs).where(one))
    else:
        connection.execute(update(catchup_backlogs).where(one).values(cursor_at=cursor_at, served_at=now))


def _columns(backlog: Backlog) -> dict[str, Any]:
    return {column.name: getattr(backlog, column.name) for column in catchup_backlogs.c}
