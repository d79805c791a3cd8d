"""Holds: freezes and blackouts, in which nothing starts (S-13)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from controller.api.answers import Answer, CursorQuery, LimitQuery, ListOut, Time, id_in, pack, page, time_text
from controller.api.bodies import Moment, ProjectName, ReasonIn, RequestBody, TriggerName, body, documented
from controller.api.parameters import CallerDep, IdPath, ReachDep, ServicesDep, refuse_outside, with_reason
from controller.auth.requirements import require
from controller.services import Services
from reconcile.decide.authority import Reach, Role
from reconcile.triggers import holds
from reconcile.triggers.holds import HOLDS_HINT, BlackoutScope
from revisions.errors import Invalid, NotFound
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import HoldKind
from revisions.store import holds as hold_store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection
from revisions.store.holds import Hold

router = APIRouter(tags=["holds"])

LONGEST_TAG = 128
AllQuery = Annotated[bool, Query(description="also those that are over")]


class FreezeIn(RequestBody):
    """Body of a freeze. `project` left out: everything. `until` left out: until it is lifted."""

    project: ProjectName | None = None
    until: Moment | None = None
    reason: str


class UnfreezeIn(RequestBody):
    """Body with which a freeze is lifted. `project` left out: the freeze of everything."""

    project: ProjectName | None = None
    reason: str | None = None


class BlackoutIn(RequestBody):
    """Body of a blackout of a project, a tag or a trigger; of everything if none is named. `from` left out: now."""

    project: ProjectName | None = None
    tag: str | None = None
    trigger: TriggerName | None = None
    since: Moment | None = Field(None, alias="from")
    until: Moment
    mode: str | None = Field(None, description="what becomes of occurrences in it; left out: drop")
    reason: str


class HeldOut(Answer):
    """The freeze or blackout that keeps a trigger from starting. `until` null: until it is lifted."""

    id: str
    kind: Literal["freeze", "blackout"]
    mode: str | None
    until: Time | None
    owner: str
    reason: str


class HoldOut(Answer):
    """A freeze or a blackout. `project`, `tag` and `trigger` restrict it, null restricts nothing.

    `mode` is a blackout's. `until` of one that was ended early is the instant at which it was ended.
    """

    since: Time = Field(serialization_alias="from")
    until: Time | None
    id: str
    kind: Literal["freeze", "blackout"]
    state: Literal["to_come", "in_force", "over"]
    project: str | None
    tag: str | None
    trigger: str | None
    mode: str | None
    owner: str
    reason: str
    revision: int
    changed_at: Time
    changed_by: str


_CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "new", "model": HoldOut}}


@router.post("/freeze", responses=_CREATED, openapi_extra=documented(FreezeIn), dependencies=[require(Role.OPERATOR)])
def freeze(
    request: Annotated[FreezeIn, body(FreezeIn)],
    caller: CallerDep,
    reach: ReachDep,
    services: ServicesDep,
    response: Response,
) -> HoldOut:
    """Freeze a project, or everything. A freeze in force gets the new end and reason."""
    refuse_outside(reach, request.project)
    hold = holds.freeze(
        services.database, services.observations, request.project, request.until, with_reason(caller, request.reason)
    )
    if hold.revision == 1:
        response.status_code = 201
    return _answers(services, [hold])[0]


@router.post("/unfreeze", openapi_extra=documented(UnfreezeIn), dependencies=[require(Role.OPERATOR)])
def unfreeze(
    request: Annotated[UnfreezeIn, body(UnfreezeIn)], caller: CallerDep, reach: ReachDep, services: ServicesDep
) -> ListOut[HoldOut]:
    """Lift the freeze of a project, or that of everything."""
    refuse_outside(reach, request.project)
    ended = holds.unfreeze(
        services.database, services.observations, request.project, with_reason(caller, request.reason)
    )
    return ListOut[HoldOut](items=_answers(services, ended), next_cursor=None)


@router.post("/blackouts", status_code=201, openapi_extra=documented(BlackoutIn), dependencies=[require(Role.OPERATOR)])
def black_out(
    request: Annotated[BlackoutIn, body(BlackoutIn)], caller: CallerDep, reach: ReachDep, services: ServicesDep
) -> HoldOut:
    """Announce a blackout of a project, a tag, a trigger, or everything."""
    scope = _scope(request)
    refuse_outside(reach, scope.trigger.project if scope.trigger else scope.project)
    mode = request.mode if request.mode is not None else "drop"
    asking = with_reason(caller, request.reason)
    hold = holds.start_blackout(
        services.database, services.observations, scope, request.since, request.until, mode, asking
    )
    return _answers(services, [hold])[0]


@router.delete("/blackouts/{id}", openapi_extra=documented(ReasonIn), dependencies=[require(Role.OPERATOR)])
def end_blackout(
    id: IdPath,
    request: Annotated[ReasonIn, body(ReasonIn)],
    caller: CallerDep,
    reach: ReachDep,
    services: ServicesDep,
) -> HoldOut:
    """End a blackout now, or withdraw one that has not begun."""
    _refuse_outside(services, reach, id)
    return _answers(
        services,
        [holds.end_blackout(services.database, services.observations, id, with_reason(caller, request.reason))],
    )[0]


@router.get("/holds", dependencies=[require(Role.VIEWER)])
def listing(
    services: ServicesDep,
    reach: ReachDep,
    all: AllQuery = False,
    limit: LimitQuery = 100,
    cursor: CursorQuery = None,
) -> ListOut[HoldOut]:
    """List freezes and blackouts in force or to come, newest first; with `all` also those that are over."""
    before = id_in(cursor)
    with services.database.read() as connection:
        now = services.database.clock.now(connection)
        since = None if all else now
        rows = hold_store.page(connection, before, limit + 1, since=since, projects=reach.projects)
        names = _trigger_names(connection, rows)
    return page(ListOut[HoldOut], rows, limit, lambda hold: _hold(hold, now, names), lambda hold: pack(hold.hold_id))


def _refuse_outside(services: Services, reach: Reach, hold_id: str) -> None:
    """Raise NotFound for a hold of another project, so as not to reveal it, and Forbidden for one of everything."""
    if reach.projects is None:
        return
    with services.database.read() as connection:
        hold = hold_store.get(connection, hold_id)
    if hold is not None and hold.project is None:
        refuse_outside(reach, None)
    if hold is None or not reach.covers(hold.project):
        raise NotFound.hinted("blackout", f"there is no blackout {hold_id}", HOLDS_HINT)


def _scope(request: BlackoutIn) -> BlackoutScope:
    """Return the triggers that a blackout holds. Raises Invalid."""
    if request.trigger is None:
        if request.tag is not None and not 0 < len(request.tag) <= LONGEST_TAG:
            raise Invalid.at("tag", "is no tag", f"1 to {LONGEST_TAG} characters")
        return BlackoutScope(request.project, request.tag)
    if request.project is not None or request.tag is not None:
        raise Invalid.at("trigger", "stands beside project or tag", "name a trigger alone, or leave it out")
    return BlackoutScope(trigger=request.trigger)


def _answers(services: Services, rows: Sequence[Hold]) -> list[HoldOut]:
    with services.database.read() as connection:
        now = services.database.clock.now(connection)
        names = _trigger_names(connection, rows)
    return [_hold(hold, now, names) for hold in rows]


def _trigger_names(connection: Connection, rows: Sequence[Hold]) -> dict[str, TriggerKey]:
    return trigger_store.keys(connection, [hold.trigger_id for hold in rows if hold.trigger_id])


def _hold(hold: Hold, now: datetime, triggers: dict[str, TriggerKey]) -> HoldOut:
    is_over = hold.until_at is not None and (hold.until_at <= now or hold.until_at <= hold.from_at)
    return HoldOut(
        since=utc_text(hold.from_at),
        until=time_text(hold.until_at),
        id=hold.hold_id,
        kind="freeze" if hold.kind == HoldKind.FREEZE else "blackout",
        state="over" if is_over else "in_force" if hold.from_at <= now else "to_come",
        project=hold.project,
        tag=hold.tag,
        trigger=str(triggers[hold.trigger_id]) if hold.trigger_id else None,
        mode=hold.mode,
        owner=hold.owner,
        reason=hold.reason,
        revision=hold.revision,
        changed_at=utc_text(hold.at),
        changed_by=hold.actor,
    )


def held_out(hold: Hold) -> HeldOut:
    """Return the hold on a trigger as the API shows it."""
    return HeldOut(
        id=hold.hold_id,
        kind="freeze" if hold.kind == HoldKind.FREEZE else "blackout",
        mode=hold.mode,
        until=time_text(hold.until_at),
        owner=hold.owner,
        reason=hold.reason,
    )
