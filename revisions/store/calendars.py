"""Calendars: days off under a name, append-only; the newest revision is the one in force (S-13)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select, tuple_

from revisions.ids import CalendarKey
from revisions.store.batches import insert_if_absent
from revisions.store.tables import calendars


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
    """One more revision; False when somebody was faster."""
    return insert_if_absent(connection, calendars, {name: getattr(row, name) for name in CalendarRow.__slots__}) == 1


def get(connection: Connection, key: CalendarKey) -> CalendarRow | None:
    """The newest revision, of a deleted calendar too."""
    found = in_force(connection, key.project, [key.name])
    return found[0] if found else None


def in_force(connection: Connection, project: str, names: Collection[str]) -> list[CalendarRow]:
    """The newest revisions of these calendars, by name; deleted ones too, for what they said still stands."""
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
    """Calendars that are not deleted, in key order, those after a key, of these projects only."""
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
    """Revisions newest first, those below a number; without one all."""
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
