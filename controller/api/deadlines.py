"""Deadlines that a trigger missed (X-16)."""

from datetime import datetime

from fastapi import APIRouter

from controller.api.context import Here, Named
from controller.api.history import existing
from controller.api.paging import Cursor, Limit, bad_cursor, pack, page, unpack
from controller.api.triggers import ONE
from controller.shapes.common import Page
from controller.shapes.deadlines import DeadlineShape, deadline_shape
from revisions.ids import utc_text
from revisions.spec.notation import ScheduleError, instant
from revisions.store import expectations

router = APIRouter(prefix="/triggers", tags=["deadlines"])


@router.get(f"{ONE}/deadlines")
def missed(key: Named, here: Here, limit: Limit = 100, cursor: Cursor = None) -> Page[DeadlineShape]:
    """The deadlines of `expect` at which no run had succeeded, newest first."""
    with here.database.read() as connection:
        current = existing(connection, key)
        found = expectations.page(connection, current.trigger_id, _before(cursor), limit + 1)
    return page(found, limit, lambda one: deadline_shape(one, key), lambda one: pack(utc_text(one.due_at), one.kind))


def _before(cursor: str | None) -> tuple[datetime, str] | None:
    start = unpack(cursor, 2)
    if start is None:
        return None
    try:
        return instant(start[0]), start[1]
    except ScheduleError:
        raise bad_cursor() from None
