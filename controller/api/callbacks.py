"""Callbacks of external workers: the end of an attempt (X-10), and heartbeats (X-05)."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from controller.api.answers import Answer, Object
from controller.api.bodies import RequestBody, body, documented
from controller.api.parameters import IdPath, ReachDep, ServicesDep
from controller.api.runs import RunOut, named_run, run_within
from controller.auth.requirements import RunTokens, require
from controller.services import vault
from reconcile.decide.attempt_ends import AttemptOutcome
from reconcile.decide.authority import Role
from reconcile.runs.attempt import Ended
from reconcile.runs.settle import complete_run, record_heartbeat
from revisions.errors import Invalid

router = APIRouter(prefix="/runs", tags=["runs"])
Attempt = Annotated[int, Field(description="`run.attempt` of the document that the worker got")]
_CALLBACK = require(Role.OPERATOR, runs=RunTokens.OWN_RUN_ONLY)


class CompleteIn(RequestBody):
    """Body of the callback with which an attempt ends; `error` only with `failed`."""

    attempt: Attempt
    outcome: Literal["succeeded", "failed"]
    output: Object | None = None
    error: str | None = None


class HeartbeatIn(RequestBody):
    """Body of a heartbeat."""

    attempt: Attempt


class HeartbeatOut(Answer):
    """Answer to a heartbeat; `cancel_requested`: the worker should stop."""

    id: str
    status: str
    attempt: int
    cancel_requested: bool


@router.post("/{id}/complete", openapi_extra=documented(CompleteIn), dependencies=[_CALLBACK])
def complete(
    id: IdPath, services: ServicesDep, reach: ReachDep, request: Annotated[CompleteIn, body(CompleteIn)]
) -> RunOut:
    """Report how an attempt ended that an external worker works on: the callback of the `http` launcher (X-10)."""
    outcome, error = AttemptOutcome(request.outcome), request.error
    if outcome is AttemptOutcome.SUCCEEDED and error is not None:
        raise Invalid.at("error", "stands beside succeeded", "leave it out")
    if outcome is AttemptOutcome.SUCCEEDED:
        ended = Ended(outcome, output=request.output or {})
    else:
        ended = Ended(outcome, error or "the callback says failed, and not why", request.output)
    with services.database.read() as connection:
        run_within(connection, id, reach)
    run = complete_run(
        services.database,
        services.observations,
        id,
        request.attempt,
        ended,
        vault=vault(services.settings),
        work_dir=services.settings.attempts,
    )
    with services.database.read() as connection:
        return named_run(connection, run)


@router.post("/{id}/heartbeat", openapi_extra=documented(HeartbeatIn), dependencies=[_CALLBACK])
def heartbeat(
    id: IdPath, services: ServicesDep, reach: ReachDep, request: Annotated[HeartbeatIn, body(HeartbeatIn)]
) -> HeartbeatOut:
    """Report that an external worker still works on an attempt; the answer says whether it should stop (X-05)."""
    with services.database.read() as connection:
        run_within(connection, id, reach)
    run = record_heartbeat(
        services.database,
        services.observations,
        id,
        request.attempt,
        lease=timedelta(seconds=services.settings.lease_seconds),
    )
    return HeartbeatOut(
        id=run.id, status=run.status, attempt=run.attempt, cancel_requested=run.cancel_requested_at is not None
    )
