"""What a trigger was: its revisions, newest first (R-09); and what became of its occurrences (E-05)."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from controller.api.context import Here, Named
from controller.api.paging import LARGEST_NUMBER, Cursor, Limit, bad_cursor, number, pack, page, unpack
from controller.api.triggers import ONE
from controller.shapes.common import Page
from controller.shapes.occurrences import OccurrenceShape, occurrence_shape
from controller.shapes.revisions import DiffShape, RevisionShape, difference_shape, revision_shape
from revisions.errors import NotFound
from revisions.history.triggers import Revision, Trigger
from revisions.history.triggers import diff as between
from revisions.ids import TriggerKey, utc_text
from revisions.spec.notation import ScheduleError, instant
from revisions.store import occurrences
from revisions.store import revisions as revision_store
from revisions.store import triggers as store

router = APIRouter(prefix="/triggers", tags=["history"])
SKIP, RUN = "skip", "run"


def existing(connection: Any, key: TriggerKey) -> Trigger:
    """The trigger, deleted or not: its past can be read all the same. Raises NotFound."""
    current = store.get(connection, key)
    if current is None:
        raise NotFound.trigger(key)
    return current


@router.get(f"{ONE}/revisions")
def revisions(key: Named, here: Here, limit: Limit = 100, cursor: Cursor = None) -> Page[RevisionShape]:
    """The history, newest first."""
    before = number(cursor)
    with here.database.read() as connection:
        current = existing(connection, key)
        found = revision_store.page(connection, current.trigger_id, before, limit + 1)
    return page(found, limit, revision_shape, lambda made: pack(str(made.revision)))


@router.get(f"{ONE}/revisions/{{number}}")
def revision(key: Named, number: int, here: Here) -> RevisionShape:
    """One revision in full."""
    with here.database.read() as connection:
        return revision_shape(_made(connection, existing(connection, key), number))


@router.get(f"{ONE}/diff")
def diff(
    key: Named,
    here: Here,
    first: Annotated[int, Query(alias="from", description="a revision")],
    second: Annotated[int, Query(alias="to", description="a revision")],
) -> DiffShape:
    """What differs between any two revisions, by path (R-09)."""
    with here.database.read() as connection:
        current = existing(connection, key)
        before, after = (_made(connection, current, number) for number in (first, second))
    return {"from": first, "to": second, "differences": [difference_shape(one) for one in between(before, after)]}


@router.get(f"{ONE}/occurrences")
def ledger(key: Named, here: Here, limit: Limit = 100, cursor: Cursor = None) -> Page[OccurrenceShape]:
    """Runs and skips in one list, newest first."""
    with here.database.read() as connection:
        current = existing(connection, key)
        found = occurrences.ledger(connection, current.trigger_id, _before(cursor), limit + 1)
    return page(
        found,
        limit,
        lambda decided: occurrence_shape(decided, key),
        lambda decided: pack(
            utc_text(decided.scheduled_at), decided.occurrence_id, RUN if decided.run_id is not None else SKIP
        ),
    )


def _made(connection: Any, current: Trigger, number: int) -> Revision:
    made = revision_store.get(connection, current.trigger_id, number) if 0 < number <= LARGEST_NUMBER else None
    if made is None:
        raise NotFound.revision(current.key, number, current.revision)
    return made


def _before(cursor: str | None) -> tuple[datetime, str, bool] | None:
    start = unpack(cursor, 3)
    if start is None:
        return None
    try:
        return instant(start[0]), start[1], start[2] == SKIP
    except ScheduleError:
        raise bad_cursor() from None
