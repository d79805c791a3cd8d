"""What is left to catch up: missed ranges of triggers, worked off oldest first (L-06)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, insert, select, true, update

from revisions.store.batches import in_list
from revisions.store.pipeline import Write
from revisions.store.run_tables import catchup_backlogs, quarantines
from revisions.store.tables import triggers


@dataclass(frozen=True, slots=True)
class Backlog:
    """Missed occurrences in (cursor_at, until_at] that are being caught up, oldest first."""

    trigger_id: str
    cursor_at: datetime
    until_at: datetime
    created_at: datetime
    served_at: datetime


_DROP = delete(catchup_backlogs).where(catchup_backlogs.c.trigger_id == bindparam("of_trigger"))


def delete_write(trigger_id: str) -> Write:
    """Removes what a trigger has to catch up; the status row is locked."""
    return _DROP, {"of_trigger": trigger_id}


def delete_all(connection: Connection, trigger_id: str) -> None:
    """Removes what a trigger has to catch up; the status row is locked."""
    connection.execute(*delete_write(trigger_id))


def count_triggers(connection: Connection) -> int:
    """How many triggers have something to catch up."""
    distinct = func.count(catchup_backlogs.c.trigger_id.distinct())
    number: int = connection.execute(select(distinct)).scalar_one()
    return number


def any_open(connection: Connection) -> bool:
    """Whether anything missed waits to be caught up."""
    return bool(connection.execute(select(exists(select(catchup_backlogs.c.trigger_id)))).scalar())


def trigger_ids(connection: Connection) -> list[str]:
    """The triggers that have something to catch up."""
    distinct = select(catchup_backlogs.c.trigger_id).distinct().order_by(catchup_backlogs.c.trigger_id)
    return list(connection.execute(distinct).scalars())


def get(connection: Connection, ids: Sequence[str]) -> list[Backlog]:
    """The backlogs of these triggers, oldest first."""
    statement = (
        select(catchup_backlogs)
        .where(in_list(connection, catchup_backlogs.c.trigger_id, ids))
        .order_by(catchup_backlogs.c.trigger_id, catchup_backlogs.c.until_at)
    )
    return [Backlog(**row._mapping) for row in connection.execute(statement)]


def least_recently_served(connection: Connection, now: datetime, limit: int, frozen: Collection[str] = ()) -> list[str]:
    """Triggers with a backlog, the one that waited longest first (L-06).

    Without those in quarantine and those of frozen projects, which would take the others' places.
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
    """Stores missed ranges to be caught up."""
    if opened:
        connection.execute(insert(catchup_backlogs), [_columns(backlog) for backlog in opened])


def serve(connection: Connection, backlog: Backlog, cursor_at: datetime, now: datetime) -> None:
    """Moves a backlog's cursor, or removes the backlog when all of it is decided."""
    one = and_(catchup_backlogs.c.trigger_id == backlog.trigger_id, catchup_backlogs.c.until_at == backlog.until_at)
    if cursor_at >= backlog.until_at:
        connection.execute(delete(catchup_backlogs).where(one))
    else:
        connection.execute(update(catchup_backlogs).where(one).values(cursor_at=cursor_at, served_at=now))


def _columns(backlog: Backlog) -> dict[str, Any]:
    return {column.name: getattr(backlog, column.name) for column in catchup_backlogs.c}
