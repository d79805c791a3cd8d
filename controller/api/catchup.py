"""Catch-up of a trigger: progress and expected end, giving up a backlog, setting a watermark back (L-12, L-17)."""

from typing import Annotated

from fastapi import APIRouter, Response

from controller.api.answers import Answer, Time, time_text
from controller.api.bodies import ReasonIn, body, documented
from controller.api.history import OccurrenceOut, occurrence_out
from controller.api.holds import HeldOut, held_out
from controller.api.parameters import CallerDep, ServicesDep, TriggerPath, with_reason
from controller.api.triggers import ONE, ChangedTriggerOut, changed_trigger
from controller.auth.requirements import Projects, require
from reconcile.decide.authority import Role
from reconcile.runs.manual.backlogs import BacklogView, drop_backlog, show_backlog
from reconcile.triggers.deploy import rebase_watermark
from revisions.ids import utc_text
from revisions.store.occurrences import Occurrence

router = APIRouter(prefix="/triggers", tags=["catchup"])
_OPERATE = require(Role.OPERATOR, Projects.NAMED)


class BacklogOut(Answer):
    """Missed occurrences later than `after`, up to `until`, that are still being caught up."""

    after: Time
    until: Time


class CatchupOut(Answer):
    """Occurrences of a trigger that are still being caught up. `remaining` is null beyond a million.

    `sharing`: number of other triggers that share the rate of catch-up. `ends_at`: estimate of when the last
    occurrence is started, `takes_seconds` the time until then; both null without a backlog or while it is held.
    """

    trigger: str
    watermark: Time
    is_ahead: bool
    ranges: list[BacklogOut]
    remaining: int | None
    sharing: int
    ends_at: Time | None
    takes_seconds: float | None
    held: HeldOut | None


class DroppedBacklogOut(CatchupOut):
    """Catch-up after a backlog was given up, and the skipped range that was recorded for it."""

    dropped: OccurrenceOut | None


@router.get(f"{ONE}/catchup", dependencies=[require(Role.VIEWER, Projects.NAMED)])
def show(key: TriggerPath, services: ServicesDep) -> CatchupOut:
    """Return the watermark, the ranges that are still to be caught up, their number, and when they should end."""
    return catchup_out(show_backlog(services.database, services.settings.pace, key))


@router.post(f"{ONE}/catchup/drop", openapi_extra=documented(ReasonIn), dependencies=[_OPERATE])
def drop(
    key: TriggerPath, request: Annotated[ReasonIn, body(ReasonIn)], caller: CallerDep, services: ServicesDep
) -> DroppedBacklogOut:
    """Give up what is left to catch up. One skipped range is recorded, with actor and reason."""
    standing, dropped = drop_backlog(
        services.database, services.observations, services.settings.pace, key, with_reason(caller, request.reason)
    )
    recorded = occurrence_out(Occurrence.of(dropped), key) if dropped else None
    return DroppedBacklogOut(**dict(catchup_out(standing)), dropped=recorded)


@router.post(f"{ONE}/catchup/rebase", openapi_extra=documented(ReasonIn), dependencies=[_OPERATE])
def rebase(
    key: TriggerPath,
    request: Annotated[ReasonIn, body(ReasonIn)],
    caller: CallerDep,
    services: ServicesDep,
    response: Response,
) -> ChangedTriggerOut:
    """Set a watermark that is ahead of now back to now, by a revision that says so."""
    made = rebase_watermark(services.database, services.observations, key, with_reason(caller, request.reason))
    return changed_trigger(services, made, response)


def catchup_out(standing: BacklogView) -> CatchupOut:
    """Return the catch-up of a trigger as the API shows it."""
    takes = standing.takes
    return CatchupOut(
        trigger=str(standing.trigger),
        watermark=utc_text(standing.watermark),
        is_ahead=standing.is_ahead,
        ranges=[
            BacklogOut(after=utc_text(backlog.cursor_at), until=utc_text(backlog.until_at))
            for backlog in standing.backlogs
        ],
        remaining=standing.remaining,
        sharing=standing.others,
        ends_at=time_text(standing.now + takes) if takes is not None else None,
        takes_seconds=takes.total_seconds() if takes is not None else None,
        held=held_out(standing.held) if standing.held else None,
    )
