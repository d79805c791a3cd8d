"""Freezes and blackouts: nothing starts for a while, for a reason, by somebody (S-13)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from controller.api.bodies import Sent, fields_schema
from controller.api.context import Asking, Here, NamedId, Within, because, moment, refuse_outside
from controller.api.paging import Cursor, Limit, id_before, pack, page
from controller.services import Services
from controller.shapes.common import Page
from controller.shapes.holds import HoldShape, hold_shape
from reconcile.decide.authority import Reach
from reconcile.triggers import holds as use_cases
from reconcile.triggers.holds import HOLDS_HINT, BlackoutScope
from revisions.errors import Invalid, NotFound
from revisions.ids import TriggerKey, name_faults
from revisions.store import holds as store
from revisions.store import triggers as trigger_store
from revisions.store.holds import Hold

router = APIRouter(tags=["holds"])

_TEXT: Mapping[str, Any] = {"type": "string"}
_TIME: Mapping[str, Any] = {"type": "string", "format": "date-time"}
_CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "new", "model": HoldShape}}
LONGEST_TAG = 128

All = Annotated[bool, Query(description="also those that are over")]


@router.post(
    "/freeze", responses=_CREATED, openapi_extra=fields_schema("reason", project=_TEXT, until=_TIME, reason=_TEXT)
)
def freeze(body: Sent, caller: Asking, within: Within, here: Here, response: Response) -> HoldShape:
    """Freezes a project, or without one everything; a freeze in force gets the new end and reason."""
    said = body.fields("reason", project=str, until=str, reason=str)
    _check_name("project", said["project"])
    refuse_outside(within, said["project"])
    until = moment(said["until"], "until")
    made = use_cases.freeze(here.database, here.observations, said["project"], until, because(caller, said["reason"]))
    if made.revision == 1:
        response.status_code = 201
    return _shaped(here, [made])[0]


@router.post("/unfreeze", openapi_extra=fields_schema(project=_TEXT, reason=_TEXT))
def unfreeze(body: Sent, caller: Asking, within: Within, here: Here) -> Page[HoldShape]:
    """Ends the freeze of a project, or without one that of everything."""
    said = body.fields(project=str, reason=str)
    _check_name("project", said["project"])
    refuse_outside(within, said["project"])
    ended = use_cases.unfreeze(here.database, here.observations, said["project"], because(caller, said["reason"]))
    return {"items": _shaped(here, ended), "next_cursor": None}


@router.post(
    "/blackouts",
    status_code=201,
    openapi_extra=fields_schema(
        "until",
        "reason",
        **{"from": _TIME, "until": _TIME},
        **dict.fromkeys(("project", "tag", "trigger", "mode", "reason"), _TEXT),
    ),
)
def black_out(body: Sent, caller: Asking, within: Within, here: Here) -> HoldShape:
    """Announces a blackout of a project, a tag, a trigger, or everything; `mode` says what becomes of what falls in."""
    kinds = dict.fromkeys(("project", "tag", "trigger", "from", "until", "mode", "reason"), str)
    said = body.fields("until", "reason", **kinds)
    begins, ends = moment(said["from"], "from"), moment(said["until"], "until")
    assert ends is not None
    mode = said["mode"] if said["mode"] is not None else "drop"
    scope = _scope(said)
    refuse_outside(within, scope.trigger.project if scope.trigger else scope.project)
    made = use_cases.start_blackout(
        here.database, here.observations, scope, begins, ends, mode, because(caller, said["reason"])
    )
    return _shaped(here, [made])[0]


@router.delete("/blackouts/{id}", openapi_extra=fields_schema(reason=_TEXT))
def end_blackout(id: NamedId, body: Sent, caller: Asking, within: Within, here: Here) -> HoldShape:
    """Ends a blackout now, or takes one back that is to come."""
    said = body.fields(reason=str)
    _refuse_beyond(here, within, id)
    return _shaped(
        here, [use_cases.end_blackout(here.database, here.observations, id, because(caller, said["reason"]))]
    )[0]


@router.get("/holds")
def listing(here: Here, within: Within, all: All = False, limit: Limit = 100, cursor: Cursor = None) -> Page[HoldShape]:
    """Freezes and blackouts that are in force or to come, the newest first; with `all` those that are over, too."""
    before = id_before(cursor)
    with here.database.read() as connection:
        now = here.database.clock.now(connection)
        found = store.page(connection, before, limit + 1, since=None if all else now, projects=within.projects)
        names = _names(connection, found)
    return page(found, limit, lambda hold: hold_shape(hold, now, names), lambda hold: pack(hold.hold_id))


def _refuse_beyond(here: Services, within: Reach, hold_id: str) -> None:
    """Raises NotFound for what holds another project, of which nothing is told, and Forbidden for everything's."""
    if within.projects is None:
        return
    with here.database.read() as connection:
        found = store.get(connection, hold_id)
    if found is not None and found.project is None:
        refuse_outside(within, None)
    if found is None or not within.covers(found.project):
        raise NotFound.hinted("blackout", f"there is no blackout {hold_id}", HOLDS_HINT)


def _scope(said: Mapping[str, Any]) -> BlackoutScope:
    """For whom a blackout is. Raises Invalid."""
    project, tag, trigger = said["project"], said["tag"], said["trigger"]
    if trigger is None:
        _check_name("project", project)
        if tag is not None and not 0 < len(tag) <= LONGEST_TAG:
            raise Invalid.at("tag", "is no tag", f"1 to {LONGEST_TAG} characters")
        return BlackoutScope(project, tag)
    if project is not None or tag is not None:
        raise Invalid.at("trigger", "stands beside project or tag", "name a trigger alone, or leave it out")
    key = TriggerKey.parse(trigger)
    if faults := name_faults("trigger.", **key._asdict()):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    return BlackoutScope(trigger=key)


def _check_name(field: str, text: str | None) -> None:
    if text is not None and (faults := name_faults("", **{field: text})):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def _shaped(here: Services, made: Sequence[Hold]) -> list[HoldShape]:
    with here.database.read() as connection:
        now: datetime = here.database.clock.now(connection)
        names = _names(connection, made)
    return [hold_shape(hold, now, names) for hold in made]


def _names(connection: Any, made: Sequence[Hold]) -> dict[str, TriggerKey]:
    return trigger_store.keys(connection, [hold.trigger_id for hold in made if hold.trigger_id])
