"""Triggers as the fold of their revisions: pure, so that the current row can always be made again (invariant 1)."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from revisions.ids import TriggerKey, utc_text

_PLAIN = re.compile(r'[^."\[\]]+')
SYSTEM = "system"
"""The actor of what the product does by itself."""


class Action(StrEnum):
    DEPLOY = "DEPLOY"
    ACTIVATE = "ACTIVATE"
    DEACTIVATE = "DEACTIVATE"
    DELETE = "DELETE"


class StopReason(StrEnum):
    """Why the system itself deactivates a trigger: its schedule has no fire left, its time is over, too many runs
    failed in a row, as many succeeded as may, or it spent what it may in this period (S-15, X-07, X-08)."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    FAILURES = "failures"
    MAX_RUNS = "max_runs"
    BUDGET = "budget"


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
    """The current row: what all revisions so far amount to.

    `deactivated_reason` is what whoever deactivated it wrote; `stopped_for` is that of a stop by the system itself
    (`StopReason`, or what another release adds to it), and None for whatever a person wrote.
    """

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
    stopped_for: str | None


def stands_alone(action: str, active: bool) -> bool:
    """Whether a revision says by itself what the row is; only a deploy of what is inactive keeps something older."""
    return active or action != Action.DEPLOY


def apply(current: Trigger | None, revision: Revision) -> Trigger:
    """The row after one more revision; a deploy that leaves a pause alone keeps its reason (R-20)."""
    deactivated_reason: str | None
    stopped_for = None
    match revision.action:
        case Action.DEACTIVATE:
            deactivated_reason, stopped_for = revision.reason, _stop(revision)
        case Action.DEPLOY if not revision.active and current and not current.active and not current.deleted:
            deactivated_reason, stopped_for = current.deactivated_reason, current.stopped_for
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
        stopped_for=stopped_for,
    )


def _stop(revision: Revision) -> str | None:
    """The actor tells the system's own word from the same word of a person: nobody else may bear its name."""
    return str(revision.reason) if revision.actor == SYSTEM else None


def fold(revisions: Iterable[Revision]) -> Trigger | None:
    """The current row made again from all revisions, oldest first; None when there are none."""
    current = None
    for revision in revisions:
        current = apply(current, revision)
    return current


class DifferenceKind(StrEnum):
    """How a path differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One path at which two values differ; `before` is None for what was added, `after` for what was removed."""

    path: str
    kind: DifferenceKind
    before: Any
    after: Any


def diff(before: Revision, after: Revision) -> list[FieldDifference]:
    """What differs between two revisions of a trigger, by path, the smallest parts that do (R-09)."""
    return list(differences(_content(before), _content(after)))


def differences(before: Any, after: Any, path: str = "") -> Iterator[FieldDifference]:
    """The paths at which two JSON values differ: mappings by key, lists by place, everything else whole.

    A key that would read like more of a path is quoted: `input["a.b"]`, so that a path means one place alone.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            below = _below(path, key)
            if key not in after:
                yield FieldDifference(below, DifferenceKind.REMOVED, before[key], None)
            elif key not in before:
                yield FieldDifference(below, DifferenceKind.ADDED, None, after[key])
            else:
                yield from differences(before[key], after[key], below)
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            below = f"{path}[{index}]"
            if index >= len(after):
                yield FieldDifference(below, DifferenceKind.REMOVED, before[index], None)
            elif index >= len(before):
                yield FieldDifference(below, DifferenceKind.ADDED, None, after[index])
            else:
                yield from differences(before[index], after[index], below)
    elif (before, type(before) is bool) != (after, type(after) is bool):
        yield FieldDifference(path, DifferenceKind.CHANGED, before, after)


def _below(path: str, key: str) -> str:
    if _PLAIN.fullmatch(key) is None:
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def _content(revision: Revision) -> dict[str, Any]:
    """What people see of a revision, as one value; who made it, when and why is not part of what it says."""
    return {
        "trigger": str(revision.key),
        "active": revision.active,
        "deleted": revision.action is Action.DELETE,
        "tags": list(revision.tags),
        "until": utc_text(revision.until) if revision.until else None,
        "origin": revision.origin,
        "resolved": json.loads(revision.resolved),
        "spec": json.loads(revision.spec),
    }
