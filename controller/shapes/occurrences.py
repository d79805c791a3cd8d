"""What became of occurrences."""

from typing_extensions import TypedDict

from controller.shapes.common import Time
from revisions.ids import TriggerKey, utc_text
from revisions.store.occurrences import Occurrence


class OccurrenceShape(TypedDict):
    """What became of an occurrence, or of a range of skipped ones."""

    trigger: str
    occurrence_id: str
    scheduled_at: Time
    scheduled_until: Time
    decided_at: Time
    outcome: str
    reason: str
    revision: int
    run_id: str | None
    count: int | None


def occurrence_shape(decided: Occurrence, key: TriggerKey) -> OccurrenceShape:
    return {
        "trigger": str(key),
        "occurrence_id": decided.occurrence_id,
        "scheduled_at": utc_text(decided.scheduled_at),
        "scheduled_until": utc_text(decided.scheduled_until),
        "decided_at": utc_text(decided.decided_at),
        "outcome": decided.outcome,
        "reason": decided.reason,
        "revision": decided.revision,
        "run_id": decided.run_id,
        "count": decided.count,
    }
