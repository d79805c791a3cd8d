"""Calendars: deploy, read, list, delete; with the same preconditions as triggers (S-13, R-04)."""

import json
from typing import Literal

from fastapi import APIRouter, Response

from controller.api.answers import (
    Answer,
    CursorQuery,
    FilterQuery,
    LimitQuery,
    ListOut,
    Object,
    Time,
    number_in,
    pack,
    page,
    unpack,
)
from controller.api.bodies import MANIFEST, RawBodyDep, manifest_at
from controller.api.parameters import (
    CalendarPath,
    CallerDep,
    Precondition,
    ReachDep,
    ServicesDep,
    etag,
    projects_to_list,
)
from controller.auth.requirements import Projects, require
from reconcile.decide.authority import Role
from reconcile.triggers.calendars import CalendarChanged, delete_calendar, deploy_calendar
from revisions.errors import NotFound
from revisions.ids import CalendarKey, utc_text
from revisions.spec.manifest import CalendarManifest
from revisions.store import calendars as store
from revisions.store.calendars import CalendarRow

router = APIRouter(prefix="/calendars", tags=["calendars"])
ONE = "/{project}/{name}"


class CalendarOut(Answer):
    """A calendar in its current revision."""

    project: str
    name: str
    revision: int
    deleted: bool
    spec: Object
    changed_at: Time
    changed_by: str


class ChangedCalendarOut(CalendarOut):
    """A calendar after a request; `changed` is false if it already was so and no revision was added."""

    changed: bool


class CalendarRevisionOut(Answer):
    """One immutable change of a calendar."""

    revision: int
    action: Literal["DEPLOY", "DELETE"]
    actor: str
    at: Time
    spec: Object


@router.put(
    ONE,
    openapi_extra=MANIFEST,
    responses={201: {"description": "created", "model": ChangedCalendarOut}},
    dependencies=[require(Role.DEPLOYER, Projects.NAMED)],
)
def deploy(
    key: CalendarPath,
    body: RawBodyDep,
    expected: Precondition,
    caller: CallerDep,
    services: ServicesDep,
    response: Response,
) -> ChangedCalendarOut:
    """Create (`If-None-Match: *`) or update (`If-Match: "N"`) a calendar. Triggers that use it are planned anew."""
    manifest = CalendarManifest.read(manifest_at(body.document(), "Calendar", key._asdict()))
    made = deploy_calendar(services.database, services.observations, manifest, expected, caller)
    if made.created:
        response.status_code = 201
    return _changed(made, response)


@router.get(ONE, dependencies=[require(Role.VIEWER, Projects.NAMED)])
def show(key: CalendarPath, services: ServicesDep, response: Response) -> CalendarOut:
    """Return a calendar, also a deleted one."""
    with services.database.read() as connection:
        row = _existing(store.get(connection, key), key)
    response.headers["ETag"] = etag(row.revision)
    return calendar_out(row)


@router.delete(ONE, dependencies=[require(Role.DEPLOYER, Projects.NAMED)])
def delete(
    key: CalendarPath, expected: Precondition, caller: CallerDep, services: ServicesDep, response: Response
) -> ChangedCalendarOut:
    """Delete a calendar that no trigger uses. Its history stays."""
    return _changed(delete_calendar(services.database, services.observations, key, expected, caller), response)


@router.get(f"{ONE}/revisions", dependencies=[require(Role.VIEWER, Projects.NAMED)])
def revisions(
    key: CalendarPath, services: ServicesDep, limit: LimitQuery = 100, cursor: CursorQuery = None
) -> ListOut[CalendarRevisionOut]:
    """List the revisions of a calendar, newest first."""
    before = number_in(cursor)
    with services.database.read() as connection:
        _existing(store.get(connection, key), key)
        rows = store.history(connection, key, before, limit + 1)
    return page(ListOut[CalendarRevisionOut], rows, limit, calendar_revision_out, lambda row: pack(str(row.revision)))


@router.get("", dependencies=[require(Role.VIEWER)])
def listing(
    services: ServicesDep,
    reach: ReachDep,
    project: FilterQuery = None,
    limit: LimitQuery = 100,
    cursor: CursorQuery = None,
) -> ListOut[CalendarOut]:
    """List the calendars that are not deleted, by name."""
    start, projects = unpack(cursor, 2), projects_to_list(reach, project)
    with services.database.read() as connection:
        after = CalendarKey(*start) if start else None
        rows = store.page(connection, after, limit + 1, project, projects=projects)
    return page(ListOut[CalendarOut], rows, limit, calendar_out, lambda row: pack(*row.key))


def calendar_out(row: CalendarRow) -> CalendarOut:
    """Return a calendar as the API shows it."""
    return CalendarOut(
        project=row.key.project,
        name=row.key.name,
        revision=row.revision,
        deleted=row.deleted,
        spec=json.loads(row.spec),
        changed_at=utc_text(row.at),
        changed_by=row.actor,
    )


def calendar_revision_out(row: CalendarRow) -> CalendarRevisionOut:
    """Return a revision of a calendar as the API shows it."""
    return CalendarRevisionOut(
        revision=row.revision,
        action="DELETE" if row.deleted else "DEPLOY",
        actor=row.actor,
        at=utc_text(row.at),
        spec=json.loads(row.spec),
    )


def _existing(row: CalendarRow | None, key: CalendarKey) -> CalendarRow:
    if row is None:
        hint = "`triggerctl calendar list` shows what there is"
        raise NotFound.hinted("calendar", f"there is no calendar {key}", hint)
    return row


def _changed(made: CalendarChanged, response: Response) -> ChangedCalendarOut:
    response.headers["ETag"] = etag(made.calendar.revision)
    return ChangedCalendarOut(**dict(calendar_out(made.calendar)), changed=made.changed)
