"""Revisions of triggers, read one by one and as the change feed; `triggers.append` alone writes them.

The feed gives each revision since a position at least once, also those that commit late (R-17). Positions in
`trigger_changes` are assigned before commits, so a smaller one can appear after a larger one. A reader therefore keeps
the oldest transaction that was open at its last read (`pg_snapshot_xmin`) and reads every row written by that or a
later transaction. A transaction that stays open repeats rows and delays none. SQLite writes one transaction at a time,
so there the position is enough.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, cast, func, or_, select, true, update
from sqlalchemy.types import Text

from revisions.errors import Invalid
from revisions.history.chain import texts
from revisions.history.triggers import Action, Revision, Trigger, fold
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


def get(connection: Connection, trigger_id: str, number: int) -> Revision | None:
    """Return a revision."""
    statement = select(trigger_revisions).where(
        trigger_revisions.c.trigger_id == trigger_id, trigger_revisions.c.revision == number
    )
    row = connection.execute(statement).one_or_none()
    return _revision(row) if row else None


def by_idempotency_key(connection: Connection, trigger_id: str, key: str) -> Revision | None:
    """Return the revision that an earlier request with this key made (R-04)."""
    statement = select(trigger_revisions).where(
        trigger_revisions.c.trigger_id == trigger_id, trigger_revisions.c.idempotency_key == key
    )
    row = connection.execute(statement).one_or_none()
    return _revision(row) if row else None


def page(connection: Connection, trigger_id: str, before: int | None, limit: int) -> list[Revision]:
    """Return revisions below a number, newest first (R-09)."""
    statement = (
        select(trigger_revisions)
        .where(trigger_revisions.c.trigger_id == trigger_id)
        .order_by(trigger_revisions.c.revision.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(trigger_revisions.c.revision < before)
    return [_revision(row) for row in connection.execute(statement)]


def whole(connection: Connection, trigger_id: str) -> list[Revision]:
    """Return all revisions, oldest first."""
    statement = select(trigger_revisions).where(trigger_revisions.c.trigger_id == trigger_id)
    return [_revision(row) for row in connection.execute(statement.order_by(trigger_revisions.c.revision))]


def since(connection: Connection, trigger_id: str, at: datetime) -> list[Revision]:
    """Return the revision in force at an instant and all later ones, oldest first; all when none was in force."""
    of = trigger_revisions.c
    then = select(func.max(of.revision)).where(of.trigger_id == trigger_id, of.at <= at).scalar_subquery()
    statement = select(trigger_revisions).where(of.trigger_id == trigger_id, of.revision >= func.coalesce(then, 0))
    return [_revision(row) for row in connection.execute(statement.order_by(of.revision))]


def as_of(connection: Connection, trigger_id: str, at: datetime) -> Trigger | None:
    """Return the current row as it was at an instant; None before the first revision (R-09).

    The fold begins at the newest revision before it that needs no earlier one (`stands_alone`).
    """
    made = trigger_revisions.c
    until_then = and_(made.trigger_id == trigger_id, made.at <= at)
    whole = or_(made.active == true(), made.action != Action.DEPLOY.value)
    newest = select(made.revision).where(until_then, whole).order_by(made.revision.desc()).limit(1).scalar_subquery()
    statement = (
        select(trigger_revisions).where(until_then, made.revision >= func.coalesce(newest, 0)).order_by(made.revision)
    )
    return fold(_revision(row) for row in connection.execute(statement))


def columns(revision: Revision) -> dict[str, Any]:
    """Return a revision's row."""
    return {
        "trigger_id": revision.trigger_id,
        **revision.key._asdict(),
        "revision": revision.revision,
        "action": revision.action.value,
        "actor": revision.actor,
        "reason": revision.reason,
        "at": revision.at,
        "active": revision.active,
        "tags": texts(revision.tags),
        "until": revision.until,
        "origin": revision.origin,
        "idempotency_key": revision.idempotency_key,
        "resolved": revision.resolved,
        "scopes": revision.scopes,
        "spec": revision.spec,
        "previous_hash": revision.previous_hash,
        "hash": revision.hash,
    }


def _revision(row: Row[Any]) -> Revision:
    return Revision(
        trigger_id=row.trigger_id,
        key=TriggerKey(row.project, row.domain, row.task, row.name),
        revision=row.revision,
        action=Action(row.action),
        actor=row.actor,
        reason=row.reason,
        at=row.at,
        active=row.active,
        tags=tuple(json.loads(row.tags)),
        until=row.until,
        origin=row.origin,
        idempotency_key=row.idempotency_key,
        resolved=row.resolved,
        scopes=row.scopes,
        spec=row.spec,
        previous_hash=row.previous_hash,
        hash=row.hash,
    )
