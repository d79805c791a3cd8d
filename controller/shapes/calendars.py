"""Calendars and their revisions."""

import json
from typing import Literal

from typing_extensions import TypedDict

from controller.shapes.common import Object, Time
from revisions.ids import utc_text
from revisions.store.calendars import CalendarRow


class CalendarShape(TypedDict):
    """A calendar as it stands."""

    project: str
    name: str
    revision: int
    deleted: bool
    spec: Object
    changed_at: Time
    changed_by: str


class ChangedCalendarShape(CalendarShape):
    """A calendar after a request; `changed` is false when nothing had to be appended."""

    changed: bool


class CalendarRevisionShape(TypedDict):
    """One immutable change of a calendar."""

    revision: int
    action: Literal["DEPLOY", "DELETE"]
    actor: str
    at: Time
    spec: Object


def calendar_shape(row: CalendarRow) -> CalendarShape:
    return {
        **row.key._asdict(),  # type: ignore[typeddict-item]  # the project and the name
        "revision": row.revision,
        "deleted": row.deleted,
        "spec": json.loads(row.spec),
        "changed_at": utc_text(row.at),
        "changed_by": row.actor,
    }


def calendar_revision_shape(row: CalendarRow) -> CalendarRevisionShape:
    return {
        "revision": row.revision,
        "action": "DELETE" if row.deleted else "DEPLOY",
        "actor": row.actor,
        "at": utc_text(row.at),
        "spec": json.loads(row.spec),
    }
