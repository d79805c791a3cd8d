"""Start and end freezes and blackouts, during which nothing starts (S-13).

Each change is a new revision with an author and a reason. The loops of all replicas are notified.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from reconcile.decide.authority import Caller
from reconcile.decide.changes import refuse_past
from reconcile.observations.observation import Observations
from reconcile.observations.specs import HoldChanged
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

HOLDS_HINT = "`triggerctl blackout list` shows what is in force and what is to come"


@dataclass(frozen=True, slots=True)
class BlackoutScope:
    """The triggers a blackout covers: one trigger, those of a project, those of them with a tag, or all."""

    project: str | None = None
    tag: str | None = None
    trigger: TriggerKey | None = None


def freeze(
    database: Database, observations: Observations, project: str | None, until: datetime | None, caller: Caller
) -> Hold:
    """Freeze a project, or everything, until an instant or until it is unfrozen.

    A freeze that is in force gets the new end and reason. Raises Invalid without a reason, and for an end that is past.
    """
    _refuse_missing_reason(caller)
    with database.write() as connection:
        now = database.clock.now(connection)
        if until is not None:
            refuse_past(until, now)
        current = next((hold for hold in store.frozen(connection, now) if hold.project == project), None)
        hold = Hold(
            hold_id=current.hold_id if current else ids.fresh(now),
            revision=current.revision + 1 if current else 1,
            kind=HoldKind.FREEZE,
            project=project,
            tag=None,
            trigger_id=None,
            from_at=current.from_at if current else now,
            until_at=until,
            mode=None,
            owner=caller.actor,
            reason=caller.reason,
            actor=caller.actor,
            at=now,
        )
        _append_hold(connection, hold)
    _emit_change(observations, hold)
    return hold


def unfreeze(database: Database, observations: Observations, project: str | None, caller: Caller) -> list[Hold]:
    """End the freeze of a project, or of everything. Raises NotFound when there is none."""
    with database.write() as connection:
        now = database.clock.now(connection)
        ended = [_ended(hold, now, caller) for hold in store.frozen(connection, now) if hold.project == project]
        if not ended:
            subject = f"project {project}" if project else "everything"
            raise NotFound.hinted("project", f"there is no freeze of {subject}", HOLDS_HINT)
        for hold in ended:
            _append_hold(connection, hold)
    for hold in ended:
        _emit_change(observations, hold)
    return ended


def start_blackout(
    database: Database,
    observations: Observations,
    scope: BlackoutScope,
    begins: datetime | None,
    ends: datetime,
    mode: str,
    caller: Caller,
) -> Hold:
    """Announce a blackout; it begins now when `begins` is None or past, because what is decided stays decided.

    `mode` says what becomes of occurrences that fall into it. Raises Invalid without a reason, for an unknown mode and
    for an end that is past or not after the beginning, and NotFound for a trigger that does not exist.
    """
    _refuse_missing_reason(caller)
    if mode not in list(HoldMode):
        raise Invalid.at("mode", f"{mode!r} is not known", f"one of {', '.join(HoldMode)}")
    with database.write() as connection:
        now = database.clock.now(connection)
        if ends <= now:
            raise Invalid.at("until", f"{utc_text(ends)} is past", "name an instant ahead")
        begins = max(begins or now, now)
        if ends <= begins:
            raise Invalid.at("until", f"{utc_text(ends)} does not lie after {utc_text(begins)}", "name a later end")
        hold = Hold(
            hold_id=ids.fresh(now),
            revision=1,
            kind=HoldKind.BLACKOUT,
            project=scope.trigger.project if scope.trigger else scope.project,
            tag=scope.tag,
            trigger_id=_trigger_id(connection, scope.trigger) if scope.trigger else None,
            from_at=begins,
            until_at=ends,
            mode=HoldMode(mode),
            owner=caller.actor,
            reason=caller.reason,
            actor=caller.actor,
            at=now,
        )
        _append_hold(connection, hold)
    _emit_change(observations, hold)
    return hold


def end_blackout(database: Database, observations: Observations, hold_id: str, caller: Caller) -> Hold:
    """End a blackout now; one that has not begun yet never begins.

    Raises NotFound, and Conflict for a blackout that is over.
    """
    with database.write() as connection:
        now = database.clock.now(connection)
        current = store.get(connection, hold_id)
        if current is None or current.kind != HoldKind.BLACKOUT:
            raise NotFound.hinted("blackout", f"there is no blackout {hold_id}", HOLDS_HINT)
        assert current.until_at is not None
        if current.until_at <= now:
            detail = f"blackout {hold_id} was over at {utc_text(current.until_at)}"
            raise Conflict.hinted("blackout", detail, "there is nothing to end")
        hold = _ended(current, now, caller)
        _append_hold(connection, hold)
        # The alarms of triggers that the blackout held stand at its planned end. They are to go off now.
        held = status_store.due_at(connection, current.until_at)
        rows = status_store.lock(connection, held)
        status_store.recompute_next_fire(connection, held, now)
        for row in rows:
            trigger_store.announce_again(connection, row.trigger_id, row.revision)
    _emit_change(observations, hold)
    return hold


def _append_hold(connection: Connection, hold: Hold) -> None:
    if not store.append(connection, hold):
        raise Conflict.hinted(hold.kind, "somebody changed it in the meantime", "look at it again")
    notices.changed(connection)


def _emit_change(observations: Observations, hold: Hold) -> None:
    observations.emit(HoldChanged(hold.kind, hold.project, hold.tag, hold.until_at, hold.actor))


def _ended(hold: Hold, now: datetime, caller: Caller) -> Hold:
    """Return the revision that ends a hold now, or at its beginning when that lies ahead."""
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


def _refuse_missing_reason(caller: Caller) -> None:
    if not caller.reason.strip():
        raise Invalid.at("reason", "is missing", "say why nothing may start")
