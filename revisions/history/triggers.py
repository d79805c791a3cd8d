"""Triggers as the fold of their revisions: pure, so that current rows can be rebuilt (invariant 1)."""

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
"""Actor of what the product does by itself."""


class Action(StrEnum):
    DEPLOY = "DEPLOY"
    ACTIVATE = "ACTIVATE"
    DEACTIVATE = "DEACTIVATE"
    DELETE = "DELETE"


class StopReason(StrEnum):
    """Reason for which the system deactivates a trigger (S-15, X-07, X-08).

    COMPLETED: no fire is left. EXPIRED: its time is over. FAILURES: too many runs failed in a row. MAX_RUNS: enough
    runs succeeded. BUDGET: its budget for this period is used up.
    """

    COMPLETED = "completed"
    EXPIRED = "expired"
    FAILURES = "failures"
    MAX_RUNS = "max_runs"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Revision:
    """An immutable change with the whole spec (R-03); `spec`, `resolved` and `scopes` are canonical JSON.

    `resolved` holds what the deploy computed once (the instant of an `in`); `until` ends a pause; `origin` is the
    folder it was applied from; `scopes` is what the author may do.
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
    """The current row: the fold of all revisions.

    `deactivated_reason` is the text of whoever deactivated it; `stopped_for` is the reason of a stop by the system
    (`StopReason`, or one of another release), None for a stop by a person.
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
    """Return True when a revision alone determines the row; a deploy of an inactive trigger needs earlier ones."""
    return active or action != Action.DEPLOY


def apply(current: Trigger | None, revision: Revision) -> Trigger:
    """Return the row after another revision; a deploy that leaves a pause alone keeps its reason (R-20)."""
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
    """Return the reason of a stop by the system; the actor tells it from the same word written by a person."""
    return str(revision.reason) if revision.actor == SYSTEM else None


def fold(revisions: Iterable[Revision]) -> Trigger | None:
    """Return the current row from all revisions, oldest first; None when there are none."""
    current = None
    for revision in revisions:
        current = apply(current, revision)
    return current


class DifferenceKind(StrEnum):
    """Kind of a difference."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """Path at which two values differ; `before` is None when added, `after` when removed."""

    path: str
    kind: DifferenceKind
    before: Any
    after: Any


def diff(before: Revision, after: Revision) -> list[FieldDifference]:
    """Return the smallest differences between two revisions of a trigger, by path (R-09)."""
    return list(differences(_content(before), _content(after)))


def differences(before: Any, after: Any, path: str = "") -> Iterator[FieldDifference]:
    """Yield the paths at which two JSON values differ: mappings by key, lists by index, everything else whole.

    A key that could be read as more than one step is quoted, as in `input["a.b"]`, so that a path is unambiguous.
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
    """Return the content of a revision as a JSON value, without actor, time and reason."""
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
