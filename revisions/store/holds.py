"""Holds: freezes and blackouts, append-only; the newest revision of each counts (S-13)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, func, or_, select

from revisions.history.triggers import Trigger
from revisions.outcomes import HoldKind, HoldMode
from revisions.store.columns import insert_if_absent
from revisions.store.sessions import Query
from revisions.store.tables import holds


@dataclass(frozen=True, slots=True)
class Hold:
    """A revision of a freeze or a blackout.

    `project` None covers every project, `tag` and `trigger_id` None every trigger; `until_at` None has no end. `mode`
    is that of a blackout, None for a freeze.
    """

    hold_id: str
    revision: int
    kind: HoldKind
    project: str | None
    tag: str | None
    trigger_id: str | None
    from_at: datetime
    until_at: datetime | None
    mode: HoldMode | None
    owner: str
    reason: str
    actor: str
    at: datetime

    def is_on(self, now: datetime) -> bool:
        return self.from_at <= now and (self.until_at is None or now < self.until_at)

    def covers(self, *, project: str, trigger_id: str, tags: Sequence[str]) -> bool:
        """Return True when the hold covers a trigger."""
        return (
            self.project in (None, project)
            and self.trigger_id in (None, trigger_id)
            and (self.tag is None or self.tag in tags)
        )


def append(connection: Connection, hold: Hold) -> bool:
    """Insert a revision; return False when another transaction inserted this number first."""
    values = {name: getattr(hold, name) for name in Hold.__slots__} | {"mode": hold.mode or ""}
    return insert_if_absent(connection, holds, values) == 1


def get(connection: Connection, hold_id: str) -> Hold | None:
    """Return the newest revision."""
    row = connection.execute(_newest().where(holds.c.hold_id == hold_id)).one_or_none()
    return _from_row(row) if row else None


def not_ended(connection: Connection, since: datetime, kind: HoldKind | None = None) -> list[Hold]:
    """Return holds that end after an instant, also those that begin later, oldest first."""
    statement = _newest().where(or_(holds.c.until_at.is_(None), holds.c.until_at > since))
    if kind is not None:
        statement = statement.where(holds.c.kind == kind)
    return [_from_row(row) for row in connection.execute(statement)]


def number_of_changes(connection: Connection) -> int:
    """Return the number of all revisions; it grows with every change."""
    number: int = connection.execute(select(func.count()).select_from(holds)).scalar_one()
    return number


def frozen(connection: Connection, now: datetime) -> list[Hold]:
    """Return the freezes in force."""
    return [hold for hold in not_ended(connection, now, HoldKind.FREEZE) if hold.is_on(now)]


def frozen_projects(connection: Connection, now: datetime) -> list[str] | None:
    """Return the frozen projects, None when everything is frozen (S-13)."""
    return frozen_projects_of(frozen(connection, now), now)


def frozen_projects_of(freezes: Iterable[Any], now: datetime) -> list[str] | None:
    """Return the projects of those freezes (or their rows) that are in force, None when everything is frozen."""
    projects = [hold.project for hold in freezes if hold.from_at <= now]
    named = [project for project in projects if project is not None]
    return named if len(named) == len(projects) else None


def freezes_query(now: datetime) -> Query:
    """Return the query for freezes that have not ended, also those that begin later."""
    return _FREEZES, {"at": now}


def hold_of(candidates: Iterable[Hold], trigger: Trigger, now: datetime) -> Hold | None:
    """Return the hold that stops a trigger at an instant: a freeze before a blackout, then the one that ends last."""
    project, trigger_id, tags = trigger.key.project, trigger.trigger_id, trigger.tags
    in_force = [
        hold
        for hold in candidates
        if hold.is_on(now) and hold.covers(project=project, trigger_id=trigger_id, tags=tags)
    ]
    endless = datetime.max.replace(tzinfo=UTC)
    return max(in_force, key=lambda hold: (hold.kind == HoldKind.FREEZE, hold.until_at or endless), default=None)


def page(
    connection: Connection,
    before: str | None,
    limit: int,
    *,
    since: datetime | None = None,
    projects: Collection[str] | None = None,
) -> list[Hold]:
    """Return holds before an id, newest first; with `since` those that end after it.

    `projects` selects the holds of these projects and those of every project.
    """
    statement = _newest().order_by(None).order_by(holds.c.hold_id.desc()).limit(limit)
    if since is not None:
        # A blackout that was withdrawn before its beginning ends no later than it begins.
        lasting = and_(holds.c.until_at > since, holds.c.until_at > holds.c.from_at)
        statement = statement.where(or_(holds.c.until_at.is_(None), lasting))
    if projects is not None:
        statement = statement.where(or_(holds.c.project.is_(None), holds.c.project.in_(sorted(projects))))
    if before is not None:
        statement = statement.where(holds.c.hold_id < before)
    return [_from_row(row) for row in connection.execute(statement)]


def _from_row(row: Row[Any]) -> Hold:
    mode = HoldMode(row.mode) if row.mode else None
    return Hold(**{**row._mapping, "kind": HoldKind(row.kind), "mode": mode})


def _newest() -> Select[Any]:
    newest = select(holds.c.hold_id, func.max(holds.c.revision).label("revision")).group_by(holds.c.hold_id).subquery()
    same = and_(holds.c.hold_id == newest.c.hold_id, holds.c.revision == newest.c.revision)
    return select(holds).join(newest, same).order_by(holds.c.from_at, holds.c.hold_id)


_FREEZES = _newest().where(
    holds.c.kind == HoldKind.FREEZE,
    or_(holds.c.until_at.is_(None), holds.c.until_at > bindparam("at", type_=holds.c.until_at.type)),
)
