"""Verification of histories: a trigger's chain is walked over its rows up to the first break (R-10).

Pure and fast: rows are used as stored, and only the hashed text is made of them.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from revisions.history.chain import COLUMNS, ORIGIN, Row, revision_of, text_of, texts
from revisions.history.triggers import Trigger, apply, stands_alone
from revisions.ids import TriggerKey
from revisions.run_limits import run_limits_of
from revisions.spec.stored import automation, readable_trigger

_REVISION, _ACTION, _ACTIVE = (COLUMNS.index(name) for name in ("revision", "action", "active"))
_TAGS, _RESOLVED, _SCOPES = (COLUMNS.index(name) for name in ("tags", "resolved", "scopes"))
_PREVIOUS, _HASH = (COLUMNS.index(name) for name in ("previous_hash", "hash"))
_UNREADABLE = (TypeError, ValueError, KeyError, AttributeError)
"""Errors raised by texts that the product never writes."""


def current_row(trigger: Trigger) -> dict[str, Any]:
    """Return the columns that the current row of a trigger must have (invariant 1)."""
    spec = readable_trigger(trigger.spec)
    return {
        "trigger_id": trigger.trigger_id,
        **trigger.key._asdict(),
        "task_version": spec.task_version,
        "revision": trigger.revision,
        "active": trigger.active,
        "deleted": trigger.deleted,
        "tags": texts(trigger.tags),
        "until": trigger.until,
        "origin": trigger.origin,
        "resolved": trigger.resolved,
        "scopes": trigger.scopes,
        "spec": trigger.spec,
        **run_limits_of(spec)._asdict(),
        "automation": automation(trigger.spec),
        "hash": trigger.hash,
        "changed_at": trigger.changed_at,
        "changed_by": trigger.changed_by,
        "deactivated_reason": trigger.deactivated_reason,
        "stopped_for": trigger.stopped_for,
    }


class BreakKind(StrEnum):
    """Kind of a break."""

    CONTENT = "content"
    """The revision does not say what was hashed: a field of it was edited, or rows changed places."""
    NUMBER = "number"
    """A number is left out: the row was removed."""
    PREVIOUS = "previous_hash"
    """The revision was not made after the one that stands before it."""
    CURRENT = "current"
    """The current row is not the fold of the revisions."""
    CHECKPOINT = "checkpoint"
    """The history is not the one whose head was signed: cut off, made again, or gone."""


class ChainBreak(NamedTuple):
    """First break in a trigger's history; `field` is the column that differs, if one does."""

    trigger_id: str
    key: TriggerKey
    revision: int
    what: BreakKind
    field: str | None
    expected: Any
    found: Any

    @property
    def message(self) -> str:
        """Description of the break, to follow the trigger and the revision in a sentence."""
        match self.what:
            case BreakKind.CONTENT:
                return "its content is not what was hashed: it was edited, or stands in another's place"
            case BreakKind.NUMBER:
                return "is missing"
            case BreakKind.PREVIOUS:
                return "was not made after the revision that stands before it"
            case BreakKind.CURRENT if self.field is None:
                return "the current row is missing" if self.found is None else "the current row has no history"
            case BreakKind.CURRENT:
                return f"the current row is not what the revisions say: {self.field} differs"
            case BreakKind.CHECKPOINT:
                return "is not what the checkpoint signed" if self.found else "is gone, and was there at the checkpoint"


class ChainHead(NamedTuple):
    """Newest revision of a trigger at some time, as stored in a checkpoint."""

    trigger_id: str
    key: TriggerKey
    revision: int
    hash: str


class Walk:
    """Verification of one trigger's chain in parts, from the first revision to the current row."""

    def __init__(self, trigger_id: str, signed: ChainHead | None = None) -> None:
        self.trigger_id = trigger_id
        self.revision = 0
        self._signed = signed
        self._signed_revision = signed.revision if signed else 0
        self._hash = ORIGIN
        self._last: Row = ()
        self._newest: Row | None = None
        self._folded: Trigger | None = None

    def extend(self, rows: Sequence[Row]) -> ChainBreak | None:
        """Check the next revisions, oldest first, and return the first break; the walk cannot go on after one."""
        sha256, number, previous, wanted = hashlib.sha256, self.revision, self._hash, self._signed_revision
        row: Row = ()
        try:
            for row in rows:
                number += 1
                if row[_REVISION] != number:
                    return self._broken(row, BreakKind.NUMBER, number, row[_REVISION], number=number)
                if row[_PREVIOUS] != previous:
                    return self._broken(row, BreakKind.PREVIOUS, previous, row[_PREVIOUS])
                previous = sha256(text_of(row).encode()).hexdigest()
                if previous != row[_HASH] or _shifted(row[_RESOLVED], row[_SCOPES], row[_TAGS]):
                    return self._broken(row, BreakKind.CONTENT, row[_HASH], previous)
                if number == wanted and self._signed and previous != self._signed.hash:
                    return self._broken(row, BreakKind.CHECKPOINT, self._signed.hash, previous)
                if not row[_ACTIVE] and not stands_alone(row[_ACTION], False):
                    self._folded = apply(self.current, revision_of(row))
                    self._newest = None
                else:
                    self._newest = row
        except _UNREADABLE as error:
            return self._broken(row, BreakKind.CONTENT, row[_HASH], f"cannot be read: {error}")
        self.revision, self._hash, self._last = number, previous, row
        return None

    @property
    def current(self) -> Trigger | None:
        """Fold of the revisions so far (`triggers.fold`); only the newest needs to be read."""
        return self._folded if self._newest is None else apply(None, revision_of(self._newest))

    def end(self, standing: Mapping[str, Any] | None) -> ChainBreak | None:
        """Check the current row and the signed head after the last revision, and return the first break."""
        if self._signed and self.revision < self._signed.revision:
            key, number = self._signed.key, self.revision + 1
            return ChainBreak(self.trigger_id, key, number, BreakKind.CHECKPOINT, None, self._signed.hash, None)
        try:
            current = self.current
            expected = current_row(current) if current else None
        except _UNREADABLE as error:
            return self._broken(self._last, BreakKind.CONTENT, None, f"cannot be read: {error}")
        if expected is None or standing is None:
            return self._without(expected, standing)
        for field, value in expected.items():
            if standing[field] != value:
                return ChainBreak(
                    self.trigger_id, key_of(expected), self.revision, BreakKind.CURRENT, field, value, standing[field]
                )
        return None

    def _without(self, expected: Mapping[str, Any] | None, standing: Mapping[str, Any] | None) -> ChainBreak | None:
        if expected:
            return ChainBreak(
                self.trigger_id, key_of(expected), self.revision, BreakKind.CURRENT, None, self._hash, None
            )
        if standing:
            number = standing["revision"]
            return ChainBreak(
                self.trigger_id, key_of(standing), number, BreakKind.CURRENT, None, None, standing["hash"]
            )
        return None

    def _broken(self, row: Row, what: BreakKind, expected: Any, found: Any, *, number: int | None = None) -> ChainBreak:
        key = TriggerKey(*row[2:6])
        return ChainBreak(
            self.trigger_id, key, row[_REVISION] if number is None else number, what, None, expected, found
        )


def breaks(rows: Iterable[Row], standing: Mapping[str, Any] | None) -> ChainBreak | None:
    """Return the first break of a trigger's whole history, oldest revision first, and of its current row."""
    listed = list(rows)
    walk = Walk(listed[0][0] if listed else standing["trigger_id"] if standing else "")
    return walk.extend(listed) or walk.end(standing)


def key_of(columns: Mapping[str, Any]) -> TriggerKey:
    return TriggerKey(*(columns[name] for name in TriggerKey._fields))


def _shifted(resolved: str, scopes: str, tags: str) -> bool:
    """Return True if text was moved from one column into the next, which leaves the hashed envelope unchanged.

    Only a spec may contain these keys, so text that was moved shows as one of them in another column.
    """
    return '"scopes":' in resolved or '"spec":' in scopes or '"tags":' in tags
