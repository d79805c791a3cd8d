"""Calendars: deploy, read, list, delete; by the same preconditions as triggers (S-13, R-04)."""

from fastapi import APIRouter, Response

from controller.api.bodies import MANIFEST, Sent, manifest_at
from controller.api.context import Asking, Here, NamedCalendar, Precondition, Within, etag, listed
from controller.api.paging import Cursor, Filter, Limit, number, pack, page, unpack
from controller.shapes.calendars import (
    CalendarRevisionShape,
    CalendarShape,
    ChangedCalendarShape,
    calendar_revision_shape,
    calendar_shape,
)
from controller.shapes.common import Page
from reconcile.triggers.calendars import CalendarChanged, delete_calendar, deploy_calendar
from revisions.errors import NotFound
from revisions.ids import CalendarKey
from revisions.spec.calendar import CalendarManifest
from revisions.store import calendars as store
from revisions.store.calendars import CalendarRow

router = APIRouter(prefix="/calendars", tags=["calendars"])
ONE = "/{project}/{name}"


@router.put(ONE, openapi_extra=MANIFEST, responses={201: {"description": "created", "model": ChangedCalendarShape}})
def deploy(
    key: NamedCalendar, body: Sent, expected: Precondition, caller: Asking, here: Here, response: Response
) -> ChangedCalendarShape:
    """Creates (`If-None-Match: *`) or updates (`If-Match: "N"`) a calendar; triggers that name it are planned anew."""
    manifest = CalendarManifest.read(manifest_at(body.document(), "Calendar", key._asdict()))
    made = deploy_calendar(here.database, here.observations, manifest, expected, caller)
    if made.created:
        response.status_code = 201
    return _changed(made, response)


@router.get(ONE)
def show(key: NamedCalendar, here: Here, response: Response) -> CalendarShape:
    """The calendar as it stands; a deleted one says so."""
    with here.database.read() as connection:
        row = _existing(store.get(connection, key), key)
    response.headers["ETag"] = etag(row.revision)
    return calendar_shape(row)


@router.delete(ONE)
def delete(
    key: NamedCalendar, expected: Precondition, caller: Asking, here: Here, response: Response
) -> ChangedCalendarShape:
    """Deletes a calendar that no trigger names; its history stays."""
    return _changed(delete_calendar(here.database, here.observations, key, expected, caller), response)


@router.get(f"{ONE}/revisions")
def revisions(key: NamedCalendar, here: Here, limit: Limit = 100, cursor: Cursor = None) -> Page[CalendarRevisionShape]:
    """The history, newest first."""
    before = number(cursor)
    with here.database.read() as connection:
        _existing(store.get(connection, key), key)
        found = store.history(connection, key, before, limit + 1)
    return page(found, limit, calendar_revision_shape, lambda row: pack(str(row.revision)))


@router.get("")
def listing(
    here: Here, within: Within, project: Filter = None, limit: Limit = 100, cursor: Cursor = None
) -> Page[CalendarShape]:
    """The calendars that are not deleted, by name."""
    start, projects = unpack(cursor, 2), listed(within, project)
    with here.database.read() as connection:
        after = CalendarKey(*start) if start else None
        found = store.page(connection, after, limit + 1, project, projects=projects)
    return page(found, limit, calendar_shape, lambda row: pack(*row.key))


def _existing(row: CalendarRow | None, key: CalendarKey) -> CalendarRow:
    if row is None:
        hint = "`triggerctl calendar list` shows what there is"
        raise NotFound.hinted("calendar", f"there is no calendar {key}", hint)
    return row


def _changed(made: CalendarChanged, response: Response) -> ChangedCalendarShape:
    response.headers["ETag"] = etag(made.calendar.revision)
    return {**calendar_shape(made.calendar), "changed": made.changed}
