"""Triggers as the fold of their revisions: pure, so that the current row can always be made again (invariant 1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from revisions.ids import TriggerKey

SYSTEM = "system"
"""The actor of what the product does by itself."""


class Action(StrEnum):
    DEPLOY = "DEPLOY"
    ACTIVATE = "ACTIVATE"
    DEACTIVATE = "DEACTIVATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Revision:
    """One immutable change with the whole spec (R-03); texts named `spec`, `resolved` and `scopes` are canonical JSON.

    `resolved` keeps what a deploy worked out of the spec once and for all (the instant an `in` means);
    `until` is when a pause ends; `origin` the folder it was applied from; `scopes` what the author may do.
    """

    trigger_id: str
    key: TriggerKey
    revision: int
    action: Action
    actor: str
    reason: str
    at: datetime
    active: bool
    tags: tuple[str, ...]
    until: datetime | None
    origin: str | None
    idempotency_key: str | None
    resolved: str
    scopes: str
    spec: str
    previous_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class Trigger:
    """The current row: what all revisions so far amount to."""

    trigger_id: str
    key: TriggerKey
    revision: int
    active: bool
    deleted: bool
    tags: tuple[str, ...]
    until: datetime | None
    origin: str | None
    resolved: str
    scopes: str
    spec: str
    hash: str
    changed_at: datetime
    changed_by: str
    deactivated_reason: str | None


def apply(current: Trigger | None, revision: Revision) -> Trigger:
    """The row after one more revision; a deploy that leaves a pause alone keeps its reason (R-20)."""
    deactivated_reason: str | None
    match revision.action:
        case Action.DEACTIVATE:
            deactivated_reason = revision.reason
        case Action.DEPLOY if not revision.active and current and not current.active and not current.deleted:
            deactivated_reason = current.deactivated_reason
        case Action.DEPLOY if not revision.active:
            deactivated_reason = revision.reason
        case _:
            deactivated_reason = None
    return Trigger(
        trigger_id=revision.trigger_id,
        key=revision.key,
        revision=revision.revision,
        active=revision.active,
        deleted=revision.action is Action.DELETE,
        tags=revision.tags,
        until=revision.until,
        origin=revision.origin,
        resolved=revision.resolved,
        scopes=revision.scopes,
        spec=revision.spec,
        hash=revision.hash,
        changed_at=revision.at,
        changed_by=revision.actor,
        deactivated_reason=deactivated_reason,
    )


def fold(revisions: Iterable[Revision]) -> Trigger | None:
    """The current row made again from all revisions, oldest first; None when there are none."""
    current = None
    for revision in revisions:
        current = apply(current, revision)
    return current
