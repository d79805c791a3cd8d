"""Runs: list, read, logs, approve, cancel, retry."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from controller.api.answers import (
    LARGEST_NUMBER,
    Answer,
    CursorQuery,
    FilterQuery,
    LimitQuery,
    ListOut,
    Object,
    Time,
    id_in,
    pack,
    page,
    time_text,
)
from controller.api.bodies import ReasonIn, body, documented
from controller.api.parameters import CallerDep, IdPath, ReachDep, ServicesDep, projects_to_list
from controller.api.triggers import existing
from controller.auth.requirements import RunTokens, require
from controller.services import Services
from reconcile.decide.authority import Reach, Role
from reconcile.observations.runs import RunCancelRequested, WaitEnded
from reconcile.queries import explain
from reconcile.runs.manual.orders import approve_run, retry_run
from reconcile.triggers import append
from revisions.errors import NotFound
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import RunSource, RunStatus
from revisions.store import logs, run_orders
from revisions.store import runs as store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection
from revisions.store.runs import Run

router = APIRouter(prefix="/runs", tags=["runs"])
LARGEST_POSITION = 2**53 - 1
"""Largest position in a log: a run may print many gigabytes, of which head and tail are kept."""
Status = Literal["pending", "running", "waiting", "parked", "succeeded", "failed", "timed_out", "cancelled", "expired"]


class RunOut(Answer):
    """One run. `caused_by_run_id`: the run that asked for it (X-02). `approved_by`: who approved it (X-14)."""

    id: str
    project: str
    domain: str
    task: str
    task_version: str
    trigger: str
    revision: int
    source: str
    occurrence_id: str
    scheduled_at: Time
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    status: str
    attempt: int
    input: Object
    output: Object | None
    error: str | None
    cost: float | None
    caused_by_run_id: str | None
    approved_at: Time | None
    approved_by: str | None
    cancel_requested_at: Time | None
    cancel_requested_by: str | None


class WaitingRunOut(RunOut):
    """One run with the reason why it has not started yet, null if nothing keeps it."""

    waits_for: str | None


class RequestedRunOut(RunOut):
    """A run that somebody started by hand; `warnings` tell of its trigger's limits (X-08)."""

    warnings: list[str]


@router.get("", dependencies=[require(Role.VIEWER)])
def listing(
    services: ServicesDep,
    reach: ReachDep,
    project: FilterQuery = None,
    domain: FilterQuery = None,
    task: FilterQuery = None,
    trigger: Annotated[FilterQuery, Query(description="project/domain/task/name")] = None,
    status: Annotated[Status | None, Query()] = None,
    source: Annotated[FilterQuery, Query(description="schedule, manual, backfill")] = None,
    dead: Annotated[bool, Query(description="only runs that failed for good and were not retried since")] = False,
    id: Annotated[FilterQuery, Query(description="only these ids, separated by commas")] = None,
    limit: LimitQuery = 100,
    cursor: CursorQuery = None,
) -> ListOut[RunOut]:
    """List runs, newest first."""
    before = id_in(cursor)
    key = TriggerKey.parse(trigger) if trigger is not None else None
    projects = projects_to_list(reach, key.project if key else project)
    with services.database.read() as connection:
        rows = store.page(
            connection,
            before,
            limit + 1,
            trigger_id=existing(connection, key).trigger_id if key else None,
            project=project,
            domain=domain,
            task=task,
            status=RunStatus(status) if status else None,
            source=RunSource(source) if source is not None else None,
            dead=dead,
            ids=id.split(",") if id is not None else None,
            projects=projects,
        )
        names = trigger_store.keys(connection, [run.trigger_id for run in rows])
    return page(ListOut[RunOut], rows, limit, lambda run: run_out(run, names), lambda run: pack(run.id))


def list_runs_of(services: Services, key: TriggerKey, limit: int, cursor: str | None) -> ListOut[RunOut]:
    """Return a page of a trigger's runs, newest first. Raises NotFound, and Invalid for a bad cursor."""
    before = id_in(cursor)
    with services.database.read() as connection:
        rows = store.page(connection, before, limit + 1, trigger_id=existing(connection, key).trigger_id)
    return page(ListOut[RunOut], rows, limit, lambda run: run_out(run, {run.trigger_id: key}), lambda run: pack(run.id))


@router.get("/{id}", dependencies=[require(Role.VIEWER)])
def show(id: IdPath, services: ServicesDep, reach: ReachDep) -> WaitingRunOut:
    """Return one run, and the reason why it has not started yet."""
    return read_run(services, reach, id)


def read_run(services: Services, reach: Reach, run_id: str) -> WaitingRunOut:
    """Return one run, and the reason why it has not started yet. Raises NotFound."""
    with services.database.read() as connection:
        run = run_within(connection, run_id, reach)
        reason = explain.told(connection, run, services.database.clock.now(connection))
        return WaitingRunOut(**dict(named_run(connection, run)), waits_for=reason or None)


@router.get(
    "/{id}/logs",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
    dependencies=[require(Role.VIEWER)],
)
def log(
    id: IdPath,
    services: ServicesDep,
    reach: ReachDep,
    attempt: Annotated[int | None, Query(ge=1, le=LARGEST_NUMBER, description="left out: the newest")] = None,
    position: Annotated[int, Query(ge=0, le=LARGEST_POSITION, description="only what follows this byte")] = 0,
) -> Response:
    """Return the output of an attempt as bytes (X-17).

    For clients that follow it, headers give the attempt, the stored position, the newest attempt and the run's status.
    """
    read = read_log(services, reach, id, attempt, position)
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Triggerctl-Attempt": str(read.attempt),
        "Triggerctl-Position": str(read.end),
        "Triggerctl-Newest-Attempt": str(read.run.attempt),
        "Triggerctl-Status": read.run.status,
    }
    return Response(read.text, headers=headers, media_type="text/plain; charset=utf-8")


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """Stored output of an attempt, from a position to `end`."""

    run: Run
    attempt: int
    text: bytes
    end: int


def read_log(services: Services, reach: Reach, run_id: str, attempt: int | None, position: int = 0) -> AttemptLog:
    """Return the output of an attempt, None for the newest. Raises NotFound."""
    with services.database.read() as connection:
        run = run_within(connection, run_id, reach)
        if attempt is not None and attempt > run.attempt:
            detail = f"run {run_id} has no attempt {attempt}; it had {run.attempt}"
            raise NotFound.hinted("attempt", detail, "leave the number out for the newest")
        number = attempt or run.attempt
        text = _log_text(connection, run_id, number, position)
        end = logs.sizes(connection, [(run_id, number)]).get((run_id, number), 0)
    return AttemptLog(run, number, text, end)


@router.post("/{id}/cancel", openapi_extra=documented(ReasonIn), dependencies=[require(Role.OPERATOR)])
def cancel(
    id: IdPath,
    services: ServicesDep,
    reach: ReachDep,
    request: Annotated[ReasonIn, body(ReasonIn)],
    caller: CallerDep,
) -> RunOut:
    """Cancel a run that waits, ask one that runs to end, and leave a finished one as it is (X-11).

    A parked run is rejected by this. `reason` is kept for a run that does not run yet (X-14).
    """
    with services.database.write() as connection:
        before = run_within(connection, id, reach)
        now = services.database.clock.now(connection)
        run = run_orders.request_cancel(connection, id, now, caller.actor, request.reason or "")
        if run is None:  # pruned since it was read
            raise NotFound.run(id)
        answer = named_run(connection, run)
        trigger = trigger_store.keys(connection, [run.trigger_id]).get(run.trigger_id)
    if before.finished_at is None:
        services.observations.emit(RunCancelRequested(run, trigger, caller.actor))
    if run.finished_at != before.finished_at:
        services.observations.emit(WaitEnded(run, trigger, now))
    return answer


@router.post("/{id}/approve", dependencies=[require(Role.OPERATOR, runs=RunTokens.REFUSED)])
def approve(id: IdPath, services: ServicesDep, reach: ReachDep, caller: CallerDep) -> RunOut:
    """Approve a parked run. One that is not parked stays as it is (X-14)."""
    with services.database.read() as connection:
        run_within(connection, id, reach)
    run = approve_run(services.database, services.observations, id, caller)
    with services.database.read() as connection:
        return named_run(connection, run)


@router.post("/{id}/retry", dependencies=[require(Role.OPERATOR)])
def retry(id: IdPath, services: ServicesDep, reach: ReachDep, caller: CallerDep) -> RequestedRunOut:
    """Start a run again that failed: the same run, with a fresh number of attempts (X-11, X-16)."""
    with services.database.read() as connection:
        run_within(connection, id, reach)
    run = retry_run(services.database, services.observations, id, caller)
    with services.database.read() as connection:
        answer = named_run(connection, run)
    return RequestedRunOut(
        **dict(answer), warnings=append.warnings_after_manual_start(services.database, run.trigger_id)
    )


def run_within(connection: Connection, run_id: str, reach: Reach) -> Run:
    """Return a run. Raises NotFound, also for a run outside the reach: an id does not reveal a project."""
    run = store.get(connection, run_id)
    if run is None or not reach.covers(run.project):
        raise NotFound.run(run_id)
    return run


def named_run(connection: Connection, run: Run) -> RunOut:
    """Return a run as the API shows it; its trigger's name is read from the database."""
    return run_out(run, trigger_store.keys(connection, [run.trigger_id]))


def run_out(run: Run, triggers: Mapping[str, TriggerKey]) -> RunOut:
    """Return a run as the API shows it; `triggers` holds trigger names by id."""
    return RunOut(
        id=run.id,
        project=run.project,
        domain=run.domain,
        task=run.task,
        task_version=run.task_version,
        trigger=str(triggers[run.trigger_id]),
        revision=run.revision,
        source=run.source,
        occurrence_id=run.occurrence_id,
        scheduled_at=utc_text(run.scheduled_at),
        created_at=utc_text(run.created_at),
        started_at=time_text(run.started_at),
        finished_at=time_text(run.finished_at),
        status=run.status,
        attempt=run.attempt,
        input=json.loads(run.input),
        output=json.loads(run.output) if run.output is not None else None,
        error=run.error,
        cost=run.cost,
        caused_by_run_id=run.caused_by_run_id,
        approved_at=time_text(run.approved_at),
        approved_by=run.approved_by,
        cancel_requested_at=time_text(run.cancel_requested_at),
        cancel_requested_by=run.cancel_requested_by,
    )


def _log_text(connection: Connection, run_id: str, attempt: int, position: int) -> bytes:
    """Return the stored log from a byte on; a line marks each part that was not kept."""
    if position == 0:
        whole = logs.read(connection, run_id, attempt)
        return whole.head + _gap(whole.dropped) + whole.tail
    parts = []
    for piece in logs.read_from(connection, run_id, attempt, position):
        parts += [_gap(piece.position - position), piece.data]
        position = piece.end
    return b"".join(parts)


def _gap(dropped: int) -> bytes:
    return f"\n[{dropped} bytes were not kept]\n".encode() if dropped else b""
