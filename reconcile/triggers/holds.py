"""Freezes and blackouts made, changed and ended, each by somebody, for a reason, append-only (S-13)."""

from dataclasses import dataclass, replace
from datetime import datetime

from reconcile.decide.changes import refuse_past
from reconcile.observations.observation import Observations
from reconcile.observations.specs import HoldChanged
from reconcile.triggers.caller import Caller
from revisions import ids
from revisions.errors import Conflict, Invalid, NotFound
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import HoldKind, HoldMode
from revisions.store import holds as store
from revisions.store import notices
from revisions.store import status as status_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection, Database
from revisions.store.holds import Hold

LIST = "`triggerctl blackout list` shows what is in force and what is to come"


@dataclass(frozen=True, slots=True)
class Scope:
    """For whom a blackout is: a project, a tag in it, one trigger, or everything."""

    project: str | None = None
    tag: str | None = None
    trigger: TriggerKey | None = None


class Holds:
    """Stops every start for a while; the loops of all replicas are told."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations

    def freeze(self, project: str | None, until: datetime | None, caller: Caller) -> Hold:
        """Freezes a project, or everything, until an instant or until it is lifted; one in force is changed.

        Raises Invalid without a reason, and for an end that is past.
        """
        _refuse_without_reason(caller)
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            if until is not None:
                refuse_past(until, now)
            before = next((one for one in store.frozen(connection, now) if one.project == project), None)
            made = Hold(
                hold_id=before.hold_id if before else ids.fresh(now),
                revision=before.revision + 1 if before else 1,
                kind=HoldKind.FREEZE,
                project=project,
                tag=None,
                trigger_id=None,
                from_at=before.from_at if before else now,
                until_at=until,
                mode="",
                owner=caller.actor,
                reason=caller.reason,
                actor=caller.actor,
                at=now,
            )
            self._append(connection, made)
        return made

    def unfreeze(self, project: str | None, caller: Caller) -> list[Hold]:
        """Ends the freeze of a project, or of everything. Raises NotFound when there is none."""
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            ended = [_ended(one, now, caller) for one in store.frozen(connection, now) if one.project == project]
            if not ended:
                what = f"project {project}" if project else "everything"
                raise NotFound.hinted("project", f"there is no freeze of {what}", LIST)
            for one in ended:
                self._append(connection, one)
        return ended

    def black_out(self, scope: Scope, begins: datetime | None, ends: datetime, mode: str, caller: Caller) -> Hold:
        """Announces a blackout, from an instant or, where that is past, from now: what is decided stays decided.

        Raises Invalid without a reason, for an unknown mode and for an end that is past or before its beginning,
        NotFound for a trigger that does not exist.
        """
        _refuse_without_reason(caller)
        if mode not in list(HoldMode):
            raise Invalid.at("mode", f"{mode!r} is not known", f"one of {', '.join(HoldMode)}")
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            if ends <= now:
                raise Invalid.at("until", f"{utc_text(ends)} is past", "name an instant ahead")
            begins = max(begins or now, now)
            if ends <= begins:
                raise Invalid.at("until", f"{utc_text(ends)} does not lie after {utc_text(begins)}", "name a later end")
            made = Hold(
                hold_id=ids.fresh(now),
                revision=1,
                kind=HoldKind.BLACKOUT,
                project=scope.trigger.project if scope.trigger else scope.project,
                tag=scope.tag,
                trigger_id=_trigger_id(connection, scope.trigger) if scope.trigger else None,
                from_at=begins,
                until_at=ends,
                mode=mode,
                owner=caller.actor,
                reason=caller.reason,
                actor=caller.actor,
                at=now,
            )
            self._append(connection, made)
        return made

    def end_blackout(self, hold_id: str, caller: Caller) -> Hold:
        """Ends a blackout now, or has one that is to come never begin.

        Raises NotFound, and Conflict for one that is over.
        """
        with self._database.write() as connection:
            now = self._database.clock.now(connection)
            before = store.get(connection, hold_id)
            if before is None or before.kind != HoldKind.BLACKOUT:
                raise NotFound.hinted("blackout", f"there is no blackout {hold_id}", LIST)
            assert before.until_at is not None
            if before.until_at <= now:
                detail = f"blackout {hold_id} was over at {utc_text(before.until_at)}"
                raise Conflict.hinted("blackout", detail, "there is nothing to end")
            made = _ended(before, now, caller)
            self._append(connection, made)
            held = status_store.due_at(connection, before.until_at)
            rows = status_store.lock(connection, held)
            status_store.recompute_next_fire(connection, held, now)
            for row in rows:
                trigger_store.announce_again(connection, row.trigger_id, row.revision)
        return made

    def _append(self, connection: Connection, hold: Hold) -> None:
        if not store.append(connection, hold):
            raise Conflict.hinted(hold.kind, "somebody changed it in the meantime", "look at it again")
        notices.changed(connection)
        self._observations.emit(HoldChanged(hold.kind, hold.project, hold.tag, hold.until_at, hold.actor))


def _ended(hold: Hold, now: datetime, caller: Caller) -> Hold:
    return replace(
        hold,
        revision=hold.revision + 1,
        until_at=max(hold.from_at, now),
        actor=caller.actor,
        reason=caller.reason or hold.reason,
        at=now,
    )


def _trigger_id(connection: Connection, key: TriggerKey) -> str:
    trigger = trigger_store.get(connection, key)
    if trigger is None:
        raise NotFound.trigger(key)
    return trigger.trigger_id


def _refuse_without_reason(caller: Caller) -> None:
    if not caller.reason.strip():
        raise Invalid.at("reason", "is missing", "say why nothing may start")
