"""Runs started by hand: one now, one of each of many triggers, or those of a past range (X-11)."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from controller.api.answers import AcceptHeader, Answer, ListOut, Object, Time, answer_long_work
from controller.api.bodies import Moment, RequestBody, TriggerName, body, documented
from controller.api.parameters import CallerDep, ReachDep, ServicesDep, TriggerPath, refuse_outside
from controller.api.preview import FireOut, fire_out
from controller.api.runs import RequestedRunOut, RunOut, run_out
from controller.api.trigger_changes import names_or_tag, refuse_duplicates
from controller.api.triggers import ONE
from controller.auth.requirements import Projects, require
from controller.errors import problem
from controller.services import Services
from reconcile.decide.authority import Role
from reconcile.observations.observation import Progress
from reconcile.runs.manual.backfill import Backfilled, BackfillRequest, backfill_trigger, preview_backfill
from reconcile.runs.manual.fire import Fired, fire_trigger, fire_triggers
from reconcile.triggers import append
from revisions.ids import TriggerKey, utc_text
from revisions.store.runs import Run

router = APIRouter()


class FireIn(RequestBody):
    """Body of a run by hand; what is left out is as the trigger says."""

    input: Object | None = None
    overlap: str | None = None


class FireManyIn(FireIn):
    """Body of runs by hand of many triggers: either `names` or `tag`."""

    names: list[TriggerName] | None = None
    tag: str | None = None


class BackfillIn(FireIn):
    """Body of a backfill of the occurrences in [from, to)."""

    since: Moment = Field(alias="from")
    until: Moment = Field(alias="to")
    force: bool = Field(False, description="another run also for occurrences that have one")
    dry_run: bool = Field(False, description="only list the occurrences")


class BackfilledOut(FireOut):
    """A backfilled occurrence with the run made for it, null in a dry run."""

    run_id: str | None


class BackfillOut(Answer):
    """A backfill. `made`: number of runs that it made, or in a dry run would make; `items`: their occurrences.

    `existing`: number of occurrences that had a run already. `undecided`: number left to a schedule with a `count`.
    `warnings` tell of the trigger's limits (X-08).
    """

    trigger: str
    since: Time = Field(serialization_alias="from")
    until: Time = Field(serialization_alias="to")
    force: bool
    dry_run: bool
    made: int
    existing: int
    undecided: int
    items: list[BackfilledOut]
    warnings: list[str]


class FiredOut(Answer):
    """One of many triggers that were fired: its run, or the problem document that says why there is none.

    `warnings` tell of the trigger's limits (X-08).
    """

    trigger: str
    run: RunOut | None
    refused: Object | None
    warnings: list[str]


@router.post(
    f"/triggers{ONE}/fire",
    status_code=201,
    openapi_extra=documented(FireIn),
    dependencies=[require(Role.OPERATOR, Projects.NAMED)],
    tags=["triggers"],
)
def fire(
    key: TriggerPath, request: Annotated[FireIn, body(FireIn)], caller: CallerDep, services: ServicesDep
) -> RequestedRunOut:
    """Make a run now, whatever the schedule says (X-11)."""
    run = fire_trigger(services.database, services.observations, key, request.input, caller, request.overlap)
    warnings = append.warnings_after_manual_start(services.database, run.trigger_id)
    return RequestedRunOut(**dict(run_out(run, {run.trigger_id: key})), warnings=warnings)


@router.post(
    f"/triggers{ONE}/backfill",
    response_model=BackfillOut,
    tags=["runs"],
    openapi_extra=documented(BackfillIn),
    dependencies=[require(Role.OPERATOR, Projects.NAMED)],
)
def backfill(
    key: TriggerPath,
    request: Annotated[BackfillIn, body(BackfillIn)],
    caller: CallerDep,
    services: ServicesDep,
    accept: AcceptHeader = "",
) -> Response:
    """Make a run for every occurrence in [from, to) that has none; with `force` also for those that have one."""
    wish = BackfillRequest(request.since, request.until, request.force, request.overlap, request.input)

    def work(progress: Progress) -> BackfillOut:
        if request.dry_run:
            done = preview_backfill(services.database, key, wish, caller)
        else:
            done = backfill_trigger(services.database, services.observations, key, wish, caller, progress)
        warnings = append.warnings_after_manual_start(services.database, done.trigger_id) if done.made else []
        return _backfill(done, key, request, warnings)

    return answer_long_work(accept, work)


@router.post(
    "/triggers:fire",
    response_model=ListOut[FiredOut],
    tags=["runs"],
    openapi_extra=documented(FireManyIn),
    dependencies=[require(Role.OPERATOR)],
)
def fire_many(
    request: Annotated[FireManyIn, body(FireManyIn)],
    caller: CallerDep,
    reach: ReachDep,
    services: ServicesDep,
    accept: AcceptHeader = "",
) -> Response:
    """Make a run now of each of many triggers, by `names` or by `tag`. A refusal of one does not stop the others."""
    chosen = names_or_tag(request.names, request.tag)
    if not isinstance(chosen, str):
        refuse_duplicates(chosen)
        for key in chosen:
            refuse_outside(reach, key.project)

    def work(progress: Progress) -> ListOut[FiredOut]:
        fired = fire_triggers(
            services.database,
            services.observations,
            chosen,
            request.input,
            caller,
            request.overlap,
            progress,
            projects=reach.projects,
        )
        return ListOut[FiredOut](items=[_fired(services, item) for item in fired], next_cursor=None)

    return answer_long_work(accept, work)


def _backfill(done: Backfilled, key: TriggerKey, request: BackfillIn, warnings: list[str]) -> BackfillOut:
    return BackfillOut(
        trigger=str(key),
        since=utc_text(done.since),
        until=utc_text(done.until),
        force=request.force,
        dry_run=request.dry_run,
        made=len(done.made),
        existing=done.existing,
        undecided=done.undecided,
        items=[BackfilledOut(**dict(fire_out(fire)), run_id=run_id) for fire, run_id in done.made],
        warnings=warnings,
    )


def _fired(services: Services, fired: Fired) -> FiredOut:
    name, outcome = str(fired.trigger), fired.outcome
    if not isinstance(outcome, Run):
        return FiredOut(trigger=name, run=None, refused=problem(outcome), warnings=[])
    run = run_out(outcome, {outcome.trigger_id: fired.trigger})
    return FiredOut(
        trigger=name,
        run=run,
        refused=None,
        warnings=append.warnings_after_manual_start(services.database, outcome.trigger_id),
    )
