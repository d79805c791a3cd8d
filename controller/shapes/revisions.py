"""Revisions, what differs between two, and the feed of changes."""

import json
from typing import Any, Literal

from typing_extensions import TypedDict

from controller.shapes.common import Object, Time, time_text
from revisions.history.triggers import FieldDifference, Revision
from revisions.ids import utc_text
from revisions.store.feed import FeedEntry

_Between = TypedDict("_Between", {"from": int})  # a name that no class body can hold


class RevisionShape(TypedDict):
    """One immutable change."""

    revision: int
    action: str
    actor: str
    reason: str
    at: Time
    active: bool
    tags: list[str]
    until: Time | None
    origin: str | None
    resolved: Object
    spec: Object
    previous_hash: str
    hash: str


class DifferenceShape(TypedDict):
    """One path at which two revisions differ; `before` is null for what was added, `after` for what was removed."""

    path: str
    kind: Literal["added", "removed", "changed"]
    before: Any
    after: Any


class DiffShape(_Between):
    """What differs between two revisions, by path."""

    to: int
    differences: list[DifferenceShape]


class ChangeShape(TypedDict):
    """One revision that came to be; the trigger's name is the one it got then."""

    trigger: str
    revision: int
    at: Time


def revision_shape(made: Revision) -> RevisionShape:
    return {
        "revision": made.revision,
        "action": made.action.value,
        "actor": made.actor,
        "reason": made.reason,
        "at": utc_text(made.at),
        "active": made.active,
        "tags": list(made.tags),
        "until": time_text(made.until),
        "origin": made.origin,
        "resolved": json.loads(made.resolved),
        "spec": json.loads(made.spec),
        "previous_hash": made.previous_hash,
        "hash": made.hash,
    }


def difference_shape(found: FieldDifference) -> DifferenceShape:
    return {"path": found.path, "kind": found.kind.value, "before": found.before, "after": found.after}


def change_shape(made: FeedEntry) -> ChangeShape:
    return {"trigger": str(made.key), "revision": made.revision, "at": utc_text(made.at)}
