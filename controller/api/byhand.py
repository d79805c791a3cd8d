"""Many runs by hand: those of a time that has passed, and one of each of some triggers (X-11)."""

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Response

from controller.api.bodies import Body, Sent, fields_schema, is_a
from controller.api.context import Asking, Here, Named, Within, moment, refuse_outside
from controller.api.progress import Accept, answered
from controller.api.triggers import ONE
from controller.services import Services
from controller.shapes.byhand import BackfillShape, FiredShape, backfill_shape, fired_shape
from controller.shapes.common import Page
from reconcile.observations.observation import Progress
from reconcile.runs.manual.backfill import BackfillRequest, backfill_trigger, preview_backfill
from reconcile.runs.manual.fire import Fired, fire_triggers
from reconcile.triggers import limit_warnings
from revisions.errors import Fault, Invalid, few
from revisions.ids import TriggerKey, name_faults
from revisions.store.runs import Run

router = APIRouter(tags=["runs"])

_TEXT, _TIME, _FLAG = {"type": "string"}, {"type": "string", "format": "date-time"}, {"type": "boolean"}
_OBJECT = {"type": "object"}
_BACKFILL: dict[str, Any] = {"from": _TIME, "to": _TIME, "force": _FLAG, "dry_run": _FLAG, "overlap": _TEXT}
_FIRE: dict[str, Any] = {"names": {"type": "array", "items": _TEXT}, "tag": _TEXT, "overlap": _TEXT}


@router.post(
    f"/triggers{ONE}/backfill",
    response_model=BackfillShape,
    openapi_extra=fields_schema("from", "to", **_BACKFILL, input=_OBJECT),
)
def backfill(key: Named, body: Sent, caller: Asking, here: Here, accept: Accept = "") -> Response:
    """Makes a run for every occurrence in [from, to) that has none; with `force`, another one for each."""
    wish, dry_run = _wish(body)

    def work(progress: Progress) -> Any:
        if dry_run:
            done = preview_backfill(here.database, key, wish, caller)
        else:
            done = backfill_trigger(here.database, here.observations, key, wish, caller, progress)
        told = limit_warnings.beyond(here.database, done.trigger_id) if done.made else []
        return backfill_shape(done, key, told, force=wish.force, dry_run=dry_run)

    return answered(accept, work)


@router.post("/triggers:fire", response_model=Page[FiredShape], openapi_extra=fields_schema(**_FIRE, input=_OBJECT))
def fire_all(body: Sent, caller: Asking, within: Within, here: Here, accept: Accept = "") -> Response:
    """Makes a run now of each of some triggers, by `names` or by `tag`; what one refuses stops no other."""
    said = body.fields(names=list, tag=str, input=dict, overlap=str)
    chosen = _chosen(said["names"], said["tag"])
    for key in () if isinstance(chosen, str) else chosen:
        refuse_outside(within, key.project)

    def work(progress: Progress) -> Any:
        asked = (chosen, said["input"], caller, said["overlap"], progress)
        fired = fire_triggers(here.database, here.observations, *asked, projects=within.projects)
        return {"items": [fired_shape(one, _told(here, one)) for one in fired], "next_cursor": None}

    return answered(accept, work)


def _told(here: Services, fired: Fired) -> list[str]:
    return limit_warnings.beyond(here.database, fired.outcome.trigger_id) if isinstance(fired.outcome, Run) else []


def _wish(body: Body) -> tuple[BackfillRequest, bool]:
    """What is to be backfilled, and whether only to look. Raises Invalid."""
    kinds: dict[str, type] = {"from": str, "to": str, "force": bool, "dry_run": bool, "overlap": str, "input": dict}
    said = body.fields("from", "to", **kinds)
    since, until = moment(said["from"], "from"), moment(said["to"], "to")
    assert since is not None
    assert until is not None
    wish = BackfillRequest(since, until, bool(said["force"]), said["overlap"], said["input"])
    return wish, bool(said["dry_run"])


def _chosen(names: list[Any] | None, tag: str | None) -> list[TriggerKey] | str:
    """Raises Invalid unless it is either some names, each once, or a tag."""
    if names is None and tag:
        return tag
    if tag is not None or not names:
        raise Invalid.at("names", "either some names or a tag must be sent", 'send {"names": […]} or {"tag": "…"}')
    if faults := few(fault for index, name in enumerate(names) for fault in _faults(name, f"names[{index}]")):
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    if len(set(names)) < len(names):
        raise Invalid.at("names", "names a trigger twice", "name each once")
    return [TriggerKey.parse(name) for name in names]


def _faults(name: Any, path: str) -> Iterator[Fault]:
    if not is_a(name, str):
        yield Fault(path, "must be a string", "send project/domain/task/name")
        return
    try:
        key = TriggerKey.parse(name)
    except Invalid as error:
        yield Fault(path, error.errors[0].message, error.errors[0].hint)
        return
    yield from name_faults(f"{path}.", **key._asdict())
