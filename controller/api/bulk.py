"""Many triggers at once, by name or by tag: all of them change, or none (R-16)."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from fastapi import APIRouter

from controller.api.bodies import Sent, fields_schema, is_a
from controller.api.context import Asking, Here, Within, because, moment, refuse_outside
from controller.services import Services
from controller.shapes.common import Page
from controller.shapes.triggers import BulkShape, bulk_shape
from reconcile.decide.authority import Reach
from reconcile.triggers.activation import change_triggers
from reconcile.triggers.caller import Caller
from reconcile.triggers.locks import Selection
from revisions.errors import Fault, Invalid, few
from revisions.history.triggers import Action
from revisions.ids import TriggerKey, name_faults

router = APIRouter(prefix="/triggers:", tags=["triggers"])

_TEXT = {"type": "string"}
_PARTS = ("trigger", "revision")
_NAMED = {
    "type": "object",
    "properties": {"trigger": _TEXT, "revision": {"type": "integer"}},
    "required": list(_PARTS),
    "additionalProperties": False,
}
_FIELDS: dict[str, Any] = {"names": {"type": "array", "items": _NAMED}, "tag": _TEXT, "reason": _TEXT}


@router.post("activate", openapi_extra=fields_schema(**_FIELDS))
def activate(body: Sent, caller: Asking, within: Within, here: Here) -> Page[BulkShape]:
    """Resumes many triggers from now on, all or none; `names` with the revisions last read, or `tag`."""
    return _change_all(here, Action.ACTIVATE, body.fields(names=list, tag=str, reason=str), caller, within)


@router.post("deactivate", openapi_extra=fields_schema(**_FIELDS, until={"type": "string", "format": "date-time"}))
def deactivate(body: Sent, caller: Asking, within: Within, here: Here) -> Page[BulkShape]:
    """Pauses many triggers, all or none, for good or until an instant."""
    said = body.fields(names=list, tag=str, reason=str, until=str)
    return _change_all(here, Action.DEACTIVATE, said, caller, within, moment(said["until"], "until"))


@router.post("delete", openapi_extra=fields_schema(**_FIELDS))
def delete(body: Sent, caller: Asking, within: Within, here: Here) -> Page[BulkShape]:
    """Deletes many triggers softly, all or none."""
    return _change_all(here, Action.DELETE, body.fields(names=list, tag=str, reason=str), caller, within)


def _change_all(
    here: Services,
    action: Action,
    said: dict[str, Any],
    caller: Caller,
    within: Reach,
    until: datetime | None = None,
) -> Page[BulkShape]:
    chosen = _chosen(said["names"], said["tag"])
    for key in () if isinstance(chosen, str) else chosen:
        refuse_outside(within, key.project)
    asking, projects = because(caller, said["reason"]), within.projects
    changed = change_triggers(here.database, here.observations, chosen, action, asking, until=until, projects=projects)
    return {"items": [bulk_shape(one) for one in changed], "next_cursor": None}


def _chosen(names: list[Any] | None, tag: str | None) -> Selection:
    """Raises Invalid unless it is either some names, each once and with its revision, or a tag."""
    if names is None and tag:
        return tag
    if tag is not None or not names:
        raise Invalid.at("names", "either some names or a tag must be sent", 'send {"names": […]} or {"tag": "…"}')
    if faults := few(fault for index, one in enumerate(names) for fault in _faults(one, f"names[{index}]")):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    chosen = {TriggerKey.parse(one["trigger"]): one["revision"] for one in names}
    if len(chosen) < len(names):
        raise Invalid.at("names", "names a trigger twice", "name each once")
    return chosen


def _faults(one: Any, path: str) -> Iterator[Fault]:
    if not isinstance(one, dict):
        yield Fault(path, "must be an object", 'send {"trigger": "project/domain/task/name", "revision": N}')
        return
    yield from (Fault.unknown(f"{path}.{name}", name, _PARTS) for name in one if name not in _PARTS)
    if not is_a(one.get("revision"), int):
        yield Fault(f"{path}.revision", "must be a whole number", "send the revision you read")
    try:
        key = TriggerKey.parse(one["trigger"]) if is_a(one.get("trigger"), str) else None
    except Invalid as error:
        yield Fault(f"{path}.trigger", error.errors[0].message, error.errors[0].hint)
        return
    if key is None:
        yield Fault(f"{path}.trigger", "must be a string", "send project/domain/task/name")
    else:
        yield from name_faults(f"{path}.trigger.", **key._asdict())
