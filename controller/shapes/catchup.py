"""What is still to be caught up."""

from typing_extensions import TypedDict

from controller.shapes.common import Time, time_text
from controller.shapes.holds import HeldShape, held_shape
from controller.shapes.occurrences import OccurrenceShape
from reconcile.runs.manual.backlogs import BacklogView
from revisions.ids import utc_text


class BacklogShape(TypedDict):
    """Missed occurrences later than `after`, up to `until`, that are still being caught up."""

    after: Time
    until: Time


class CatchupShape(TypedDict):
    """What of a trigger is still being caught up; `remaining` is null beyond a million.

    `sharing` is how many other triggers share the cap. `ends_at` estimates when the last is started, `takes_seconds`
    how long that is from now; null when there is nothing, and while nothing is served.
    """

    trigger: str
    watermark: Time
    is_ahead: bool
    ranges: list[BacklogShape]
    remaining: int | None
    sharing: int
    ends_at: Time | None
    takes_seconds: float | None
    held: HeldShape | None


class DroppedShape(CatchupShape):
    """What is left after a backlog was given up, and the range that was recorded for it."""

    dropped: OccurrenceShape | None


def catchup_shape(standing: BacklogView) -> CatchupShape:
    return {
        "trigger": str(standing.trigger),
        "watermark": utc_text(standing.watermark),
        "is_ahead": standing.is_ahead,
        "ranges": [{"after": utc_text(one.cursor_at), "until": utc_text(one.until_at)} for one in standing.backlogs],
        "remaining": standing.remaining,
        "sharing": standing.others,
        "ends_at": time_text(standing.now + standing.takes) if standing.takes is not None else None,
        "takes_seconds": standing.takes.total_seconds() if standing.takes is not None else None,
        "held": held_shape(standing.held) if standing.held else None,
    }
