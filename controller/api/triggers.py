"""Triggers: deploy, read, list, activate, deactivate, delete, roll back, rename, fire."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from controller.api.bodies import MANIFEST, Sent, fields_schema, manifest_at
from controller.api.context import (
    Asking,
    Here,
    Named,
    Origin,
    Precondition,
    Within,
    because,
    etag,
    listed,
    moment,
)
from controller.api.paging import LARGEST_NUMBER, Cursor, Filter, Limit, pack, page, unpack
from controller.services import Services
from controller.shapes.common import Page
from controller.shapes.runs import AskedRunShape, run_shape
from controller.shapes.triggers import ChangedTriggerShape, InItsWay, TriggerShape, trigger_shape
from reconcile.triggers import limit_warnings
from reconcile.triggers.activation import activate_trigger, deactivate_trigger, delete_trigger
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import deploy_trigger, rename_trigger, rollback_trigger
from revisions.errors import NotFound
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey, utc_text
from revisions.spec.trigger import TriggerManifest
from revisions.store import holds, quarantines
from revisions.store import revisions as revision_store
from revisions.store import status as status_store
from revisions.store import triggers as store

router = APIRouter(prefix="/triggers", tags=["triggers"])
ONE = "/{project}/{domain}/{task}/{name}"
_REASON = {"type": "string"}

AsOf = Annotated[str | None, Query(description="as it stood at this instant; what it did by then is not known")]


@router.put(ONE, openapi_extra=MANIFEST, responses={201: {"description": "created", "model": ChangedTriggerShape}})
def deploy(
    key: Named,
    body: Sent,
    expected: Precondition,
    caller: Asking,
    here: Here,
    response: Response,
    origin: Origin,
    reason: Filter = None,
) -> ChangedTriggerShape:
    """Creates (`If-None-Match: *`) or updates (`If-Match: "N"`) a trigger from its manifest (R-04 to R-06)."""
    manifest = TriggerManifest.read(manifest_at(body.document(), "Trigger", key._asdict()))
    made = deploy_trigger(
        here.database,
        here.observations,
        manifest,
        expected,
        because(caller, reason),
        origin=origin,
        sharing=here.settings.sharing,
    )
    if made.created:
        response.status_code = 201
    return changed(here, made, response)


@router.get(ONE)
def show(key: Named, here: Here, response: Response, as_of: AsOf = None) -> TriggerShape:
    """The trigger as it stands, or as it stood at an instant (R-09); a deleted one says so."""
    at = moment(as_of, "as_of")
    with here.database.read() as connection:
        current = store.get(connection, key)
        row = status_store.get(connection, current.trigger_id) if current else None
        past = revision_store.as_of(connection, current.trigger_id, at) if current and at else None
        in_the_way = _in_the_way(connection, here, [current]) if current else {}
    if current is None or row is None:
        raise NotFound.trigger(key)
    if at and past is None:
        way = f"`triggerctl history {key}` shows since when it is there"
        raise NotFound.hinted("as_of", f"there was no trigger {key} at {utc_text(at)}", way)
    response.headers["ETag"] = etag((past or current).revision)
    return trigger_shape(past, None) if past else trigger_shape(current, row, in_the_way[current.trigger_id])


@router.get("")
def listing(
    here: Here,
    within: Within,
    project: Filter = None,
    domain: Filter = None,
    task: Filter = None,
    tag: Filter = None,
    active: Annotated[bool | None, Query()] = None,
    origin: Filter = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[TriggerShape]:
    """The triggers that are not deleted, by name."""
    start, projects = unpack(cursor, 4), listed(within, project)
    with here.database.read() as connection:
        found = store.page(
            connection,
            TriggerKey(*start) if start else None,
            limit + 1,
            project=project,
            domain=domain,
            task=task,
            tag=tag,
            active=active,
            origin=origin,
            projects=projects,
        )
        in_the_way = _in_the_way(connection, here, (trigger for trigger, _ in found))
    return page(
        found, limit, lambda row: trigger_shape(*row, in_the_way[row[0].trigger_id]), lambda row: pack(*row[0].key)
    )


@router.post(f"{ONE}/activate", openapi_extra=fields_schema(reason=_REASON))
def activate(
    key: Named, body: Sent, expected: Precondition, caller: Asking, here: Here, response: Response
) -> ChangedTriggerShape:
    """Resumes a trigger from now on (R-08, R-20)."""
    said = body.fields(reason=str)
    return changed(
        here,
        activate_trigger(here.database, here.observations, key, expected, because(caller, said["reason"])),
        response,
    )


@router.post(
    f"{ONE}/deactivate", openapi_extra=fields_schema(reason=_REASON, until={"type": "string", "format": "date-time"})
)
def deactivate(
    key: Named, body: Sent, expected: Precondition, caller: Asking, here: Here, response: Response
) -> ChangedTriggerShape:
    """Pauses a trigger, for good or until an instant (R-08, R-20)."""
    said = body.fields(reason=str, until=str)
    until = moment(said["until"], "until")
    made = deactivate_trigger(
        here.database, here.observations, key, expected, because(caller, said["reason"]), until=until
    )
    return changed(here, made, response)


@router.delete(ONE, openapi_extra=fields_schema(reason=_REASON))
def delete(
    key: Named, body: Sent, expected: Precondition, caller: Asking, here: Here, response: Response
) -> ChangedTriggerShape:
    """Deletes a trigger softly; its history stays (R-08)."""
    said = body.fields(reason=str)
    return changed(
        here, delete_trigger(here.database, here.observations, key, expected, because(caller, said["reason"])), response
    )


@router.post(f"{ONE}/rollback", openapi_extra=fields_schema("to", to={"type": "integer"}, reason=_REASON))
def rollback(
    key: Named, body: Sent, expected: Precondition, caller: Asking, here: Here, response: Response
) -> ChangedTriggerShape:
    """Deploys revision `to` again, as a new revision; brings a deleted trigger back (R-09, R-22)."""
    said = body.fields("to", to=int, reason=str)
    if not 0 < said["to"] <= LARGEST_NUMBER:
        raise NotFound.hinted("to", f"{key} has no revision {said['to']}", f"`triggerctl history {key}` shows them")
    made = rollback_trigger(
        here.database,
        here.observations,
        key,
        said["to"],
        expected,
        because(caller, said["reason"]),
        sharing=here.settings.sharing,
    )
    return changed(here, made, response)


@router.post(f"{ONE}/rename", openapi_extra=fields_schema("name", name={"type": "string"}, reason=_REASON))
def rename(
    key: Named, body: Sent, expected: Precondition, caller: Asking, here: Here, response: Response
) -> ChangedTriggerShape:
    """Gives a trigger another name; history, watermark and runs stay (R-22)."""
    said = body.fields("name", name=str, reason=str)
    made = rename_trigger(
        here.database, here.observations, key, said["name"], expected, because(caller, said["reason"])
    )
    return changed(here, made, response)


@router.post(
    f"{ONE}/fire", status_code=201, openapi_extra=fields_schema(input={"type": "object"}, overlap={"type": "string"})
)
def fire(key: Named, body: Sent, caller: Asking, here: Here) -> AskedRunShape:
    """Makes a run now, whatever the schedule says (X-11)."""
    said = body.fields(input=dict, overlap=str)
    made = here.firing.fire(key, said["input"], caller, said["overlap"])
    return {
        **run_shape(made, {made.trigger_id: key}),
        "warnings": limit_warnings.beyond(here.database, made.trigger_id),
    }


def changed(here: Services, made: Changed, response: Response) -> ChangedTriggerShape:
    """What a change answers: the trigger as it stands now. Raises NotFound for one that went meanwhile."""
    current: Trigger = made.trigger
    with here.database.read() as connection:
        row = status_store.get(connection, current.trigger_id)
        in_the_way = _in_the_way(connection, here, [current])
    if row is None:
        raise NotFound.trigger(current.key)
    response.headers["ETag"] = etag(current.revision)
    shape = trigger_shape(current, row, in_the_way[current.trigger_id])
    return {**shape, "changed": made.changed, "warnings": list(made.warnings)}


def _in_the_way(connection: Any, here: Services, shown: Iterable[Trigger]) -> dict[str, InItsWay]:
    """What keeps each of these triggers from starting just now, by their ids (L-13, S-13)."""
    triggers = list(shown)
    now = here.database.clock.now(connection)
    lasting = holds.not_ended(connection, now)
    apart = quarantines.get(connection, [trigger.trigger_id for trigger in triggers if trigger.active])
    return {
        trigger.trigger_id: InItsWay(holds.hold_of(lasting, trigger, now), apart.get(trigger.trigger_id))
        for trigger in triggers
    }
