"""Changes of deployed triggers, one or many at once: activate, deactivate, delete, roll back, rename (R-08, R-16)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeVar

from fastapi import APIRouter, Response

from controller.api.answers import LARGEST_NUMBER, Answer, ListOut
from controller.api.bodies import Moment, ReasonIn, RequestBody, TriggerName, body, documented
from controller.api.parameters import (
    CallerDep,
    Precondition,
    ReachDep,
    ServicesDep,
    TriggerPath,
    refuse_outside,
    with_reason,
)
from controller.api.triggers import ONE, ChangedTriggerOut, changed_trigger
from controller.auth.requirements import Projects, require
from controller.services import Services
from reconcile.decide.authority import Caller, Reach, Role
from reconcile.triggers.activation import activate_trigger, change_triggers, deactivate_trigger, delete_trigger
from reconcile.triggers.append import Changed
from reconcile.triggers.deploy import rename_trigger, rollback_trigger
from reconcile.triggers.locks import Selection
from revisions.errors import Invalid, NotFound
from revisions.history.triggers import Action
from revisions.ids import TriggerKey

router = APIRouter(prefix="/triggers", tags=["triggers"])
Named = TypeVar("Named")


class DeactivateIn(RequestBody):
    """Body of a pause; `until` left out: until somebody activates the trigger."""

    reason: str | None = None
    until: Moment | None = None


class RollbackIn(RequestBody):
    """Body of a rollback; `to` is the revision to deploy again."""

    to: int
    reason: str | None = None


class RenameIn(RequestBody):
    """Body of a rename; `name` is the new last part of the trigger's name."""

    name: str
    reason: str | None = None


class NamedTriggerIn(RequestBody):
    """A trigger and the revision last read of it."""

    trigger: TriggerName
    revision: int


class BulkIn(RequestBody):
    """Body of a change of many triggers: either `names` or `tag`."""

    names: list[NamedTriggerIn] | None = None
    tag: str | None = None
    reason: str | None = None


class BulkDeactivateIn(BulkIn):
    """Body of a pause of many triggers."""

    until: Moment | None = None


class BulkChangeOut(Answer):
    """One trigger of a bulk change; `changed` is false if it already was so and no revision was added.

    `warnings` are for whoever activated it (X-08).
    """

    trigger: str
    old_revision: int
    new_revision: int
    changed: bool
    warnings: list[str]


_OPERATE = require(Role.OPERATOR, Projects.NAMED)
_DEPLOY = require(Role.DEPLOYER, Projects.NAMED)


@router.post(f"{ONE}/activate", openapi_extra=documented(ReasonIn), dependencies=[_OPERATE])
def activate(
    key: TriggerPath,
    request: Annotated[ReasonIn, body(ReasonIn)],
    expected: Precondition,
    caller: CallerDep,
    services: ServicesDep,
    response: Response,
) -> ChangedTriggerOut:
    """Resume a trigger from now on (R-08, R-20)."""
    made = activate_trigger(
        services.database, services.observations, key, expected, with_reason(caller, request.reason)
    )
    return changed_trigger(services, made, response)


@router.post(f"{ONE}/deactivate", openapi_extra=documented(DeactivateIn), dependencies=[_OPERATE])
def deactivate(
    key: TriggerPath,
    request: Annotated[DeactivateIn, body(DeactivateIn)],
    expected: Precondition,
    caller: CallerDep,
    services: ServicesDep,
    response: Response,
) -> ChangedTriggerOut:
    """Pause a trigger, until an instant or until somebody activates it (R-08, R-20)."""
    asking = with_reason(caller, request.reason)
    made = deactivate_trigger(services.database, services.observations, key, expected, asking, until=request.until)
    return changed_trigger(services, made, response)


@router.delete(ONE, openapi_extra=documented(ReasonIn), dependencies=[_DEPLOY])
def delete(
    key: TriggerPath,
    request: Annotated[ReasonIn, body(ReasonIn)],
    expected: Precondition,
    caller: CallerDep,
    services: ServicesDep,
    response: Response,
) -> ChangedTriggerOut:
    """Delete a trigger. Its history stays, and a deploy or a rollback brings it back (R-08)."""
    made = delete_trigger(services.database, services.observations, key, expected, with_reason(caller, request.reason))
    return changed_trigger(services, made, response)


@router.post(f"{ONE}/rollback", openapi_extra=documented(RollbackIn), dependencies=[_DEPLOY])
def rollback(
    key: TriggerPath,
    request: Annotated[RollbackIn, body(RollbackIn)],
    expected: Precondition,
    caller: CallerDep,
    services: ServicesDep,
    response: Response,
) -> ChangedTriggerOut:
    """Deploy revision `to` again as a new revision; this brings a deleted trigger back (R-09, R-22)."""
    if not 0 < request.to <= LARGEST_NUMBER:
        raise NotFound.hinted("to", f"{key} has no revision {request.to}", f"`triggerctl history {key}` shows them")
    made = rollback_trigger(
        services.database, services.observations, key, request.to, expected, with_reason(caller, request.reason)
    )
    return changed_trigger(services, made, response)


@router.post(f"{ONE}/rename", openapi_extra=documented(RenameIn), dependencies=[_DEPLOY])
def rename(
    key: TriggerPath,
    request: Annotated[RenameIn, body(RenameIn)],
    expected: Precondition,
    caller: CallerDep,
    services: ServicesDep,
    response: Response,
) -> ChangedTriggerOut:
    """Give a trigger another name. History, watermark and runs stay with it (R-22)."""
    made = rename_trigger(
        services.database, services.observations, key, request.name, expected, with_reason(caller, request.reason)
    )
    return changed_trigger(services, made, response)


bulk_router = APIRouter(prefix="/triggers:", tags=["triggers"])


@bulk_router.post("activate", openapi_extra=documented(BulkIn), dependencies=[require(Role.OPERATOR)])
def activate_many(
    request: Annotated[BulkIn, body(BulkIn)], caller: CallerDep, reach: ReachDep, services: ServicesDep
) -> ListOut[BulkChangeOut]:
    """Resume many triggers from now on, all or none: those in `names`, or those with `tag`."""
    return _change_many(services, Action.ACTIVATE, request, caller, reach)


@bulk_router.post("deactivate", openapi_extra=documented(BulkDeactivateIn), dependencies=[require(Role.OPERATOR)])
def deactivate_many(
    request: Annotated[BulkDeactivateIn, body(BulkDeactivateIn)],
    caller: CallerDep,
    reach: ReachDep,
    services: ServicesDep,
) -> ListOut[BulkChangeOut]:
    """Pause many triggers, all or none, until an instant or until somebody activates them."""
    return _change_many(services, Action.DEACTIVATE, request, caller, reach, request.until)


@bulk_router.post("delete", openapi_extra=documented(BulkIn), dependencies=[require(Role.DEPLOYER)])
def delete_many(
    request: Annotated[BulkIn, body(BulkIn)], caller: CallerDep, reach: ReachDep, services: ServicesDep
) -> ListOut[BulkChangeOut]:
    """Delete many triggers, all or none. Their history stays."""
    return _change_many(services, Action.DELETE, request, caller, reach)


def _change_many(
    services: Services,
    action: Action,
    request: BulkIn,
    caller: Caller,
    reach: Reach,
    until: datetime | None = None,
) -> ListOut[BulkChangeOut]:
    chosen: Selection
    selected = names_or_tag(request.names, request.tag)
    if isinstance(selected, str):
        chosen = selected
    else:
        chosen = {named.trigger: named.revision for named in selected}
        refuse_duplicates([named.trigger for named in selected])
        for key in chosen:
            refuse_outside(reach, key.project)
    asking, projects = with_reason(caller, request.reason), reach.projects
    changed = change_triggers(
        services.database, services.observations, chosen, action, asking, until=until, projects=projects
    )
    return ListOut[BulkChangeOut](items=[_bulk_change(change) for change in changed], next_cursor=None)


def names_or_tag(names: Sequence[Named] | None, tag: str | None) -> Sequence[Named] | str:
    """Return the names or the tag, whichever was sent. Raises Invalid unless it is exactly one of them."""
    if names is None and tag:
        return tag
    if tag is not None or not names:
        raise Invalid.at("names", "either some names or a tag must be sent", 'send {"names": […]} or {"tag": "…"}')
    return names


def refuse_duplicates(keys: Sequence[TriggerKey]) -> None:
    """Raise Invalid if a trigger is named twice."""
    if len(set(keys)) < len(keys):
        raise Invalid.at("names", "names a trigger twice", "name each once")


def _bulk_change(changed: Changed) -> BulkChangeOut:
    new = changed.trigger.revision
    return BulkChangeOut(
        trigger=str(changed.trigger.key),
        old_revision=changed.before if changed.before is not None else new,  # a bulk change creates nothing
        new_revision=new,
        changed=changed.changed,
        warnings=list(changed.warnings),
    )
