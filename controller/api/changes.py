"""The change feed: what came to be since a position (R-17)."""

from typing import Annotated

from fastapi import APIRouter, Query

from controller.api.context import Here, Within
from controller.api.paging import Limit
from controller.shapes.common import Page
from controller.shapes.revisions import ChangeShape, change_shape
from revisions.store import feed

router = APIRouter(prefix="/changes", tags=["changes"])

After = Annotated[str | None, Query(description="`next_cursor` of the part before; left out, the feed's beginning")]


@router.get("")
def changes(here: Here, within: Within, after: After = None, limit: Limit = 100) -> Page[ChangeShape]:
    """Every revision of every trigger, none of them ever missed, some of them told twice: drop the repeats.

    Of those that are older than `retain_changes` it is the newest of each trigger.

    `next_cursor` is always there: it is the position to go on from, now or after any time. A part with fewer than
    `limit` items is the last for now.
    """
    position = feed.Position.parse(after) if after is not None else feed.BEGINNING
    with here.database.read() as connection:
        found = feed.read(connection, position, limit, projects=within.projects)
    return {"items": [change_shape(made) for made in found.items], "next_cursor": str(found.position)}
