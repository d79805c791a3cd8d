"""What a trigger has to catch up: how much and until when; giving it up, and setting a watermark back (L-12, L-17)."""

from fastapi import APIRouter, Response

from controller.api.bodies import Sent, fields_schema
from controller.api.context import Asking, Here, Named, because
from controller.api.triggers import ONE, changed
from controller.shapes.catchup import CatchupShape, DroppedShape, catchup_shape
from controller.shapes.occurrences import occurrence_shape
from controller.shapes.triggers import ChangedTriggerShape
from reconcile.runs.manual.backlogs import drop_backlog, show_backlog
from reconcile.triggers.deploy import rebase_watermark
from revisions.store.occurrences import Occurrence

router = APIRouter(prefix="/triggers", tags=["catchup"])
_REASON = fields_schema(reason={"type": "string"})


@router.get(f"{ONE}/catchup")
def show(key: Named, here: Here) -> CatchupShape:
    """The watermark, the missed ranges that are still to be caught up, how many are left, and about when they end."""
    return catchup_shape(show_backlog(here.database, here.settings.pace, key))


@router.post(f"{ONE}/catchup/drop", openapi_extra=_REASON)
def drop(key: Named, body: Sent, caller: Asking, here: Here) -> DroppedShape:
    """Gives up what is left to catch up: recorded as one skipped range, with who and why."""
    said = body.fields(reason=str)
    standing, dropped = drop_backlog(
        here.database, here.observations, here.settings.pace, key, because(caller, said["reason"])
    )
    recorded = occurrence_shape(Occurrence.of(dropped), key) if dropped else None
    return {**catchup_shape(standing), "dropped": recorded}


@router.post(f"{ONE}/catchup/rebase", openapi_extra=_REASON)
def rebase(key: Named, body: Sent, caller: Asking, here: Here, response: Response) -> ChangedTriggerShape:
    """Sets a watermark that is ahead of now back to now, by a revision that says so."""
    said = body.fields(reason=str)
    return changed(
        here, rebase_watermark(here.database, here.observations, key, because(caller, said["reason"])), response
    )
