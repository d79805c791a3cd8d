"""Calendars: named days off, append-only; the newest revision is in force (S-13)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select, tuple_

from revisions.history.triggers import Trigger
from revisions.ids import CalendarKey
from revisions.store.columns import insert_if_absent
from revisions.store.tables import calendars, triggers
from revisions.store.triggers import from_row


@dataclass(frozen=True, slots=True)
class CalendarRow:
    """One revision of a calendar; `spec` is canonical JSON."""

    project: str
    name: str
    revision: int
    deleted: bool
    actor: str
    at: datetime
    spec: str

    @property
    def key(self) -> CalendarKey:
        return CalendarKey(self.project, self.name)

    @property
    def changed_by(self) -> str:
        return self.actor

    @property
    def changed_at(self) -> datetime:
        return self.at


def append(connection: Connection, row: CalendarRow) -> bool:
    """Insert a revision; return False when another transaction inserted this number first."""
    return insert_if_absent(connection, calendars, {name: getattr(row, name) for name in CalendarRow.__slots__}) == 1


def get(connection: Connection, key: CalendarKey) -> CalendarRow | None:
    """Return the newest revision, deleted calendars included."""
    found = in_force(connection, key.project, [key.name])
    return found[0] if found else None


def in_force(connection: Connection, project: str, names: Collection[str]) -> list[CalendarRow]:
    """Return the newest revisions of calendars, by name; deleted ones too, because their past days off still count."""
    statement = _newest().where(calendars.c.project == project, calendars.c.name.in_(sorted(names)))
    return [CalendarRow(**row._mapping) for row in connection.execute(statement)]


def page(
    connection: Connection,
    after: CalendarKey | None,
    limit: int,
    project: str | None = None,
    *,
    projects: Collection[str] | None = None,
) -> list[CalendarRow]:
    """Return calendars that are not deleted, in key order after a key, within `projects` (None: all)."""
    statement = _newest().where(~calendars.c.deleted).limit(limit)
    if project is not None:
        statement = statement.where(calendars.c.project == project)
    if projects is not None:
        statement = statement.where(calendars.c.project.in_(sorted(projects)))
    if after:
        statement = statement.where(tuple_(calendars.c.project, calendars.c.name) > tuple(after))
    return [CalendarRow(**row._mapping) for row in connection.execute(statement)]


def history(
    connection: Connection, key: CalendarKey, before: int | None = None, limit: int | None = None
) -> list[CalendarRow]:
    """Return revisions below a number, newest first; without a number all."""
    statement = (
        select(calendars)
        .where(calendars.c.project == key.project, calendars.c.name == key.name)
        .order_by(calendars.c.revision.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(calendars.c.revision < before)
    return [CalendarRow(**row._mapping) for row in connection.execute(statement)]


def _newest() -> Select[Any]:
    newest = (
        select(calendars.c.project, calendars.c.name, func.max(calendars.c.revision).label("revision"))
        .group_by(calendars.c.project, calendars.c.name)
        .subquery()
    )
    same = and_(*(calendars.c[name] == newest.c[name] for name in ("project", "name", "revision")))
    return select(calendars).join(newest, same).order_by(calendars.c.project, calendars.c.name)


def mentioning_calendars(connection: Connection, project: str) -> list[Trigger]:
    """Return triggers of a project that may name calendars, deleted ones included; the caller reads the spec."""
    statement = select(triggers).where(
        triggers.c.project == project,
        triggers.c.spec.contains('"calendars":', autoescape=True),
    )
    return [from_row(row) for row in connection.execute(statement)]
