"""Change feed: revisions since a position, each at least once, also those that commit late (R-17).

Positions in `trigger_changes` are assigned before commits, so a smaller one can appear after a larger one. A reader
therefore keeps the oldest transaction that was open at its last read (`pg_snapshot_xmin`) and reads every row written
by that or a later transaction. A transaction that stays open repeats rows and delays none. SQLite writes one
transaction at a time, so there the position is enough.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, cast, func, select, update
from sqlalchemy.types import Text

from revisions.errors import Invalid
from revisions.ids import TriggerKey
from revisions.store.columns import TransactionId
from revisions.store.tables import trigger_changes, trigger_revisions

_TOKEN = re.compile(r"(\d{1,20})\.(\d{1,19})\.(\d{1,20})", re.ASCII)
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a reader: transactions before `transaction` are read, and of the current page rows up to `row`.

    `then` is the transaction to continue from after the last page.
    """

    transaction: int
    row: int
    then: int

    def __str__(self) -> str:
        return f"{self.transaction}.{self.row}.{self.then}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read a position's text. Raises Invalid for a text that the feed never returned."""
        parts = _TOKEN.fullmatch(text)
        position = cls(*map(int, parts.groups())) if parts else None
        if position is None or position.row > _LARGEST:
            raise Invalid.at("after", f"{text!r} is not a position of this feed", "send the one you were given")
        return position


BEGINNING = Position(0, 0, 0)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A revision in the feed, with the trigger's name as of that revision."""

    trigger_id: str
    key: TriggerKey
    revision: int
    at: datetime


@dataclass(frozen=True, slots=True)
class FeedPage:
    """A page of the feed, the position after it, and whether more can be read at once."""

    items: Sequence[FeedEntry]
    position: Position
    more: bool


def read(connection: Connection, after: Position, limit: int, *, projects: Collection[str] | None = None) -> FeedPage:
    """Return up to `limit` entries after a position, within `projects` (None: all).

    A position that lies ahead of the database, for example after a restore, starts from the beginning.
    """
    if connection.dialect.name != "postgresql":
        if after.row > end(connection).row:
            after = BEGINNING  # an older copy of the database was put in its place
        rows = _rows(connection, trigger_changes.c.position > after.row, limit, projects)
        last = rows[-1].position if rows else after.row
        return FeedPage([_change(row) for row in rows], Position(0, last, 0), len(rows) == limit)
    oldest, newest = connection.execute(_SNAPSHOT).one()
    if max(after.transaction, after.then) > int(newest):
        after = BEGINNING  # the database was restored to a server that has not come so far yet
    then = after.then if after.row else int(oldest)
    since = trigger_changes.c.transaction_id >= cast(cast(str(after.transaction), Text), TransactionId)
    rows = _rows(connection, since & (trigger_changes.c.position > after.row), limit, projects)
    if len(rows) == limit:
        return FeedPage([_change(row) for row in rows], Position(after.transaction, rows[-1].position, then), True)
    return FeedPage([_change(row) for row in rows], Position(then, 0, then), False)


def renumber(connection: Connection) -> None:
    """Assign the current transaction to rows whose transaction this server has not reached.

    A dump brings the transaction ids of another server; rows that seem to lie ahead would repeat at every read.
    """
    if connection.dialect.name == "postgresql":
        this = func.pg_current_xact_id()
        of = trigger_changes.c.transaction_id
        connection.execute(update(trigger_changes).where(of > this).values(transaction_id=this))


def end(connection: Connection) -> Position:
    """Return the position that follows every change visible now."""
    if connection.dialect.name != "postgresql":
        last = connection.execute(select(func.coalesce(func.max(trigger_changes.c.position), 0))).scalar_one()
        return Position(0, last, 0)
    oldest = int(connection.execute(_SNAPSHOT).one()[0])
    return Position(oldest, 0, oldest)


def newest_change(connection: Connection) -> int:
    """Return the feed's highest position; every change raises it."""
    newest: int = connection.execute(select(func.coalesce(func.max(trigger_changes.c.position), 0))).scalar_one()
    return newest


_SNAPSHOT = select(
    cast(func.pg_snapshot_xmin(func.pg_current_snapshot()), Text),
    cast(func.pg_snapshot_xmax(func.pg_current_snapshot()), Text),
)


def _rows(connection: Connection, condition: Any, limit: int, projects: Collection[str] | None) -> list[Any]:
    made = trigger_revisions.c
    statement = (
        select(trigger_changes, *(made[name] for name in TriggerKey._fields), made.at)
        .join(
            trigger_revisions,
            and_(made.trigger_id == trigger_changes.c.trigger_id, made.revision == trigger_changes.c.revision),
        )
        .where(condition)
        .order_by(trigger_changes.c.position)
        .limit(limit)
    )
    if projects is not None:
        statement = statement.where(made.project.in_(sorted(projects)))
    return list(connection.execute(statement))


def _change(row: Any) -> FeedEntry:
    key = TriggerKey(row.project, row.domain, row.task, row.name)
    return FeedEntry(row.trigger_id, key, row.revision, row.at)
