"""Revisions of a trigger, read only; `triggers.append` alone writes them."""

import json
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, func, or_, select, true

from revisions.history.chain import texts
from revisions.history.triggers import Action, Revision, Trigger, fold
from revisions.ids import TriggerKey
from revisions.store.tables import trigger_revisions


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
