"""Calendars changed: append-only like revisions, and every trigger that names one is planned anew (S-13)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from reconcile.decide.changes import has_occurrences
from reconcile.decide.preconditions import Expected
from reconcile.decide.terms import Terms
from reconcile.observations.observation import Observations
from reconcile.observations.specs import CalendarRevised
from reconcile.schedule import ranges
from reconcile.schedule.fires import fires
from reconcile.schedule.ranges import MOMENT
from reconcile.triggers import closed_days
from reconcile.triggers.append import skip_of
from reconcile.triggers.caller import Caller
from revisions.errors import Conflict, Fault, NotFound, PreconditionFailed, PreconditionRequired
from revisions.history import chain
from revisions.history.triggers import Trigger
from revisions.ids import CalendarKey
from revisions.spec.calendar import CalendarManifest
from revisions.spec.stored import readable_trigger
from revisions.store import backlogs as backlog_store
from revisions.store import calendars as store
from revisions.store import notices, occurrences
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.calendars import CalendarRow
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.status import StatusRow

NAMED = 20
"""How many triggers a refusal names at most."""


@dataclass(frozen=True, slots=True)
class CalendarChanged:
    """The calendar after a request; `changed` is False when it said so already."""

    calendar: CalendarRow
    changed: bool
    created: bool = False


class Calendaring:
    """Deploys and deletes calendars, by the same optimistic lock as triggers (R-04)."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def deploy(self, manifest: CalendarManifest, expected: Expected, caller: Caller) -> CalendarChanged:
        """A new revision of a calendar, or its first.

        Raises PreconditionFailed and PreconditionRequired as for a trigger.
        """
        spec = chain.canonical(manifest.written)
        with self._database.write() as connection:
            current = store.get(connection, manifest.key)
            exists = current is not None and not current.deleted
            _check(manifest.key, current if exists else None, expected)
            if current is not None and exists and current.spec == spec:
                return CalendarChanged(current, changed=False)
            made = self._append(connection, manifest.key, current, caller, spec, deleted=False)
        self._observations.emit(CalendarRevised(manifest.key, made.revision))
        return CalendarChanged(made, changed=True, created=not exists)

    def delete(self, key: CalendarKey, expected: Expected, caller: Caller) -> CalendarChanged:
        """Deletes a calendar softly. Raises NotFound, and Conflict while triggers name it."""
        with self._database.write() as connection:
            current = store.get(connection, key)
            if current is None or current.deleted:
                hint = "`triggerctl calendar list` shows what there is"
                raise NotFound.hinted("calendar", f"there is no calendar {key}", hint)
            _check(key, current, expected)
            if users := [trigger.key for trigger in _naming(connection, key) if not trigger.deleted]:
                named = ", ".join(sorted(map(str, users))[:NAMED])
                hint = "deploy those triggers without it first"
                raise Conflict.hinted("calendar", f"{key} is named by {named}, so it was not deleted", hint)
            made = self._append(connection, key, current, caller, current.spec, deleted=True)
        self._observations.emit(CalendarRevised(key, made.revision))
        return CalendarChanged(made, changed=True)

    def _append(
        self,
        connection: Connection,
        key: CalendarKey,
        current: CalendarRow | None,
        caller: Caller,
        spec: str,
        *,
        deleted: bool,
    ) -> CalendarRow:
        """What the old days left to decide is decided by the new ones; what they closed does not come back, and what
        the new ones close is recorded."""
        users = [trigger for trigger in _naming(connection, key) if has_occurrences(trigger)]
        before = {trigger.trigger_id: _Before.of(connection, trigger) for trigger in users}
        now: datetime = self._database.clock.now(connection)
        number = current.revision + 1 if current else 1
        made = CalendarRow(key.project, key.name, number, deleted, caller.actor, now, spec)
        if not store.append(connection, made):
            raise PreconditionFailed.hinted("calendar", f"{key} was changed in the meantime", "read it again")
        rows = status_store.lock(connection, sorted(before))
        now = self._database.clock.now(connection)
        occurrences.record(
            connection, [skip for row in rows for skip in before[row.trigger_id].taken(connection, row, now)]
        )
        moved = [{"trigger_id": row.trigger_id, "watermark": before[row.trigger_id].settled(row, now)} for row in rows]
        status_store.save(connection, moved)
        status_store.recompute_next_fire(connection, [row.trigger_id for row in rows], now)
        for row in rows:
            trigger_store.announce_again(connection, row.trigger_id, row.revision)
        notices.changed(connection)
        return made


@dataclass(frozen=True, slots=True)
class _Before:
    """A trigger with its terms as they were before a calendar changed; None where they cannot be read (L-13)."""

    trigger: Trigger
    terms: Terms | None

    @classmethod
    def of(cls, connection: Connection, trigger: Trigger) -> Self:
        try:
            found = closed_days.read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved)
        except ValueError:
            return cls(trigger, None)
        return cls(trigger, found)

    def taken(self, connection: Connection, row: StatusRow, now: datetime) -> list[Skip]:
        """What was undecided and has become an occurrence of a closed day, as it stands after the change."""
        after = _Before.of(connection, self.trigger).terms
        if self.terms is None or after is None or row.revision != self.trigger.revision:
            return []
        held = backlog_store.get(connection, [row.trigger_id])
        spans = [
            *((one.cursor_at, one.until_at) for one in held),
            (row.watermark, max(row.watermark, self._nominal(now))),
        ]
        gone = ranges.taken(self.terms.schedule, after.schedule, spans)
        return [skip_of(row.trigger_id, row.revision, now, left) for left in gone]

    def settled(self, row: StatusRow, now: datetime) -> datetime:
        """Where the watermark stands once everything without an occurrence is decided: there were none to decide."""
        if self.terms is None or row.revision != self.trigger.revision:
            return row.watermark
        nominal = self._nominal(now)
        first = next(iter(fires(self.terms.schedule, row.watermark, nominal, 1)), None)
        return max(row.watermark, first.at - MOMENT if first else nominal)

    def _nominal(self, now: datetime) -> datetime:
        return now - self.terms.delay(str(self.trigger.key)) if self.terms else now


def _naming(connection: Connection, key: CalendarKey) -> list[Trigger]:
    """The triggers that name a calendar, deleted ones too: their time may count all the same (R-21)."""
    named = trigger_store.mentioning_calendars(connection, key.project)
    return [trigger for trigger in named if key.name in readable_trigger(trigger.spec).schedule.calendars]


def _check(key: CalendarKey, current: CalendarRow | None, expected: Expected) -> None:
    if current is None:
        if expected.revision is not None:
            detail = f"{key} does not exist, so it has no revision {expected.revision}"
            raise PreconditionFailed.hinted("calendar", detail, "deploy it as new")
        return
    stands, number = f"{key} stands at revision {current.revision}", current.revision
    hint = f"see `triggerctl calendar show {key}`, then repeat with --expected-revision {number} if it still holds"
    if expected.revision is None and not expected.absent:
        raise PreconditionRequired.hinted("calendar", f"{stands}: name the revision you read", hint)
    if expected.revision != number:
        detail = f"{key} exists already, at revision {number}"
        if expected.revision is not None:
            detail = f"{stands}, not {expected.revision}"
        raise PreconditionFailed(
            detail,
            errors=[Fault("calendar", detail, hint)],
            current_revision=number,
            changed_by=current.actor,
            changed_at=current.at,
        )
