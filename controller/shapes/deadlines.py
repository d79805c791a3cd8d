"""Deadlines at which no run had succeeded."""

from typing_extensions import TypedDict

from controller.shapes.common import Time
from revisions.ids import TriggerKey, utc_text
from revisions.store.expectations import MissedDeadline


class DeadlineShape(TypedDict):
    """A missed deadline: since the occurrence named no run succeeded until `due_at`; `revision` was in force then."""

    trigger: str
    kind: str
    due_at: Time
    scheduled_at: Time
    occurrence_id: str
    revision: int
    noticed_at: Time


def deadline_shape(missed: MissedDeadline, key: TriggerKey) -> DeadlineShape:
    return {
        "trigger": str(key),
        "kind": missed.kind,
        "due_at": utc_text(missed.due_at),
        "scheduled_at": utc_text(missed.scheduled_at),
        "occurrence_id": missed.occurrence_id,
        "revision": missed.revision,
        "noticed_at": utc_text(missed.noticed_at),
    }
