"""What a trigger was: its revisions, newest first (R-09); and what became of its occurrences (E-05)."""

from datetime import datetime
from typing import Any

from fastapi import APIRouter

from controller import shapes
from controller.api.context import Here, Named
from controller.api.paging import LARGEST_NUMBER, Cursor, Limit, bad_cursor, pack, page, unpack
from controller.api.triggers import ONE
from controller.contract import OccurrenceShape, Page, RevisionShape
from reconcile.rules.notation import ScheduleError, instant
from revisions.errors import NotFound
from revisions.ids import TriggerKey, utc_text
from revisions.store import occurrences
from revisions.store import triggers as store
from revisions.triggers import Trigger

router = APIRouter(prefix="/triggers", tags=["history"])
SKIP, RUN = "skip", "run"


def existing(connection: Any, key: TriggerKey) -> Trigger:
    """The trigger, deleted or not: its past can be read all the same. Raises NotFound."""
    current = store.get(connection, key)
    if current is None:
        raise NotFound(f"there is no trigger {key}")
    return current


@router.get(f"{ONE}/revisions")
def revisions(key: Named, here: Here, limit: Limit = 100, cursor: Cursor = None) -> Page[RevisionShape]:
    """The history, newest first."""
    start = unpack(cursor, 1)
    if start and not (start[0].isascii() and start[0].isdigit() and len(start[0]) < 10):
        raise bad_cursor()
    with here.database.read() as connection:
        current = existing(connection, key)
        found = store.history(connection, current.trigger_id, int(start[0]) if start else None, limit + 1)
    return page(found, limit, shapes.revision, lambda made: pack(str(made.revision)))


@router.get(f"{ONE}/revisions/{{number}}")
def revision(key: Named, number: int, here: Here) -> RevisionShape:
    """One revision in full."""
    with here.database.read() as connection:
        current = existing(connection, key)
        made = store.revision(connection, current.trigger_id, number) if 0 < number <= LARGEST_NUMBER else None
    if made is None:
        raise NotFound(f"{key} has no revision {number}; the newest is {current.revision}")
    return shapes.revision(made)


@router.get(f"{ONE}/occurrences")
def ledger(key: Named, here: Here, limit: Limit = 100, cursor: Cursor = None) -> Page[OccurrenceShape]:
    """Runs and skips in one list, newest first."""
    with here.database.read() as connection:
        current = existing(connection, key)
        found = occurrences.ledger(connection, current.trigger_id, _before(cursor), limit + 1)
    return page(
        found,
        limit,
        lambda decided: shapes.occurrence(decided, key),
        lambda decided: pack(
            utc_text(decided.scheduled_at), decided.occurrence_id, RUN if decided.run_id is not None else SKIP
        ),
    )


def _before(cursor: str | None) -> tuple[datetime, str, bool] | None:
    start = unpack(cursor, 3)
    if start is None:
        return None
    try:
        return instant(start[0]), start[1], start[2] == SKIP
    except ScheduleError:
        raise bad_cursor() from None
