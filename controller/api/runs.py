"""Runs: list, read, logs, approve, cancel, retry, and the callbacks of who works on them."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from controller.api.bodies import Sent, fields_schema
from controller.api.context import Asking, Here, NamedId, Within, listed
from controller.api.history import existing
from controller.api.paging import LARGEST_NUMBER, LARGEST_POSITION, Cursor, Filter, Limit, id_before, pack, page
from controller.services import vault
from controller.shapes.common import Page
from controller.shapes.runs import AskedRunShape, BeatShape, RunShape, WaitingRunShape, beat_shape, run_shape
from reconcile.decide.authority import Reach
from reconcile.decide.retry import AttemptOutcome
from reconcile.observations.runs import RunCancelRequested, WaitEnded
from reconcile.queries import explain
from reconcile.runs.attempt import Ended
from reconcile.runs.callbacks import complete_run, record_heartbeat
from reconcile.runs.manual.orders import approve_run, retry_run
from reconcile.triggers import limit_warnings
from revisions.errors import Invalid, NotFound
from revisions.ids import TriggerKey
from revisions.outcomes import RunSource, RunStatus
from revisions.store import logs, run_orders
from revisions.store import runs as store
from revisions.store import triggers as trigger_store
from revisions.store.database import Connection
from revisions.store.runs import Run

router = APIRouter(prefix="/runs", tags=["runs"])
_OUTCOMES = (AttemptOutcome.SUCCEEDED.value, AttemptOutcome.FAILED.value)
_ATTEMPT = {"attempt": {"type": "integer", "description": "the number that stands in the document, at run.attempt"}}
Status = Literal["pending", "running", "waiting", "parked", "succeeded", "failed", "timed_out", "cancelled", "expired"]


@router.get("")
def listing(
    here: Here,
    within: Within,
    project: Filter = None,
    domain: Filter = None,
    task: Filter = None,
    trigger: Annotated[Filter, Query(description="project/domain/task/name")] = None,
    status: Annotated[Status | None, Query()] = None,
    source: Annotated[Filter, Query(description="schedule, manual, backfill")] = None,
    dead: Annotated[bool, Query(description="only those that failed for good and were not retried since")] = False,
    id: Annotated[Filter, Query(description="only these, separated by commas")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[RunShape]:
    """Runs, newest first."""
    before = id_before(cursor)
    key = TriggerKey.parse(trigger) if trigger is not None else None
    projects = listed(within, key.project if key else project)
    with here.database.read() as connection:
        found = store.page(
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
        names = trigger_store.keys(connection, [run.trigger_id for run in found])
    return page(found, limit, lambda run: run_shape(run, names), lambda run: pack(run.id))


@router.get("/{id}")
def show(id: NamedId, here: Here, within: Within) -> WaitingRunShape:
    """One run, and what keeps it from its start."""
    with here.database.read() as connection:
        run = _get(connection, id, within)
        told = explain.told(connection, run, here.database.clock.now(connection))
        return {**_shape(connection, run), "waits_for": told or None}


@router.get("/{id}/logs", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def log(
    id: NamedId,
    here: Here,
    within: Within,
    attempt: Annotated[int | None, Query(ge=1, le=LARGEST_NUMBER)] = None,
    position: Annotated[int, Query(ge=0, le=LARGEST_POSITION, description="only what comes from this byte on")] = 0,
) -> Response:
    """What an attempt printed, as bytes; without a number the newest attempt (X-17).

    Headers say how far it is stored, of which attempt it is, and how the run stands, for who follows it.
    """
    with here.database.read() as connection:
        run = _get(connection, id, within)
        if attempt is not None and attempt > run.attempt:
            detail = f"run {id} has no attempt {attempt}; it had {run.attempt}"
            raise NotFound.hinted("attempt", detail, "leave the number out for the newest")
        number = attempt or run.attempt
        text = _text(connection, id, number, position)
        end = logs.sizes(connection, [(id, number)]).get((id, number), 0)
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Triggerctl-Attempt": str(number),
        "Triggerctl-Position": str(end),
        "Triggerctl-Newest-Attempt": str(run.attempt),
        "Triggerctl-Status": run.status,
    }
    return Response(text, headers=headers, media_type="text/plain; charset=utf-8")


@router.post("/{id}/cancel", openapi_extra=fields_schema(reason={"type": "string"}))
def cancel(id: NamedId, here: Here, within: Within, sent: Sent, asking: Asking) -> RunShape:
    """Cancels a run that waits, asks one that runs to end, and leaves a finished one as it is (X-11).

    Of a parked run that is its rejection; `reason` is kept of a run that does not run yet (X-14).
    """
    reason = sent.fields(reason=str)["reason"] or ""
    with here.database.write() as connection:
        before = _get(connection, id, within)
        now = here.database.clock.now(connection)
        run = run_orders.request_cancel(connection, id, now, asking.actor, reason)
        if run is None:  # it had been kept long enough, a moment ago
            raise NotFound.run(id)
        names = trigger_store.keys(connection, [run.trigger_id])
    trigger = names.get(run.trigger_id)
    if before.finished_at is None:
        here.observations.emit(RunCancelRequested(run, trigger, asking.actor))
    if run.finished_at != before.finished_at:
        here.observations.emit(WaitEnded(run, trigger, now))
    return run_shape(run, names)


@router.post("/{id}/approve")
def approve(id: NamedId, here: Here, within: Within, asking: Asking) -> RunShape:
    """Lets a parked run go on; one that goes on anyway stays as it is (X-14)."""
    with here.database.read() as connection:
        _get(connection, id, within)
    run = approve_run(here.database, here.observations, id, asking)
    with here.database.read() as connection:
        return _shape(connection, run)


@router.post(
    "/{id}/complete",
    openapi_extra=fields_schema(
        "attempt",
        "outcome",
        **_ATTEMPT,
        outcome={"enum": list(_OUTCOMES)},
        output={"type": "object"},
        error={"type": "string"},
    ),
)
def complete(id: NamedId, here: Here, within: Within, sent: Sent) -> RunShape:
    """Says how an attempt ended that somebody outside works on: the callback of `http` (X-10)."""
    given = sent.fields("attempt", "outcome", attempt=int, outcome=str, output=dict, error=str)
    if given["outcome"] not in _OUTCOMES:
        raise Invalid.at("outcome", f"{given['outcome']!r} is not known", f"one of {', '.join(_OUTCOMES)}")
    outcome, error = AttemptOutcome(given["outcome"]), given["error"]
    if outcome is AttemptOutcome.SUCCEEDED and error is not None:
        raise Invalid.at("error", "stands beside succeeded", "leave it out")
    if outcome is AttemptOutcome.SUCCEEDED:
        ended = Ended(outcome, output=given["output"] or {})
    else:
        ended = Ended(outcome, error or "the callback says failed, and not why", given["output"])
    with here.database.read() as connection:
        _get(connection, id, within)
    run = complete_run(
        here.database,
        here.observations,
        id,
        given["attempt"],
        ended,
        vault=vault(here.settings),
        work_dir=here.settings.attempts,
    )
    with here.database.read() as connection:
        return _shape(connection, run)


@router.post("/{id}/retry")
def retry(id: NamedId, here: Here, within: Within, asking: Asking) -> AskedRunShape:
    """Has a run that ended badly run again: the same run, with a fresh number of attempts (X-11, X-16)."""
    with here.database.read() as connection:
        _get(connection, id, within)
    run = retry_run(here.database, here.observations, id, asking)
    with here.database.read() as connection:
        shape = _shape(connection, run)
    return {**shape, "warnings": limit_warnings.beyond(here.database, run.trigger_id)}


@router.post("/{id}/heartbeat", openapi_extra=fields_schema("attempt", **_ATTEMPT))
def heartbeat(id: NamedId, here: Here, within: Within, sent: Sent) -> BeatShape:
    """Says that somebody outside still works on an attempt, and hears whether it is to stop (X-05)."""
    given = sent.fields("attempt", attempt=int)
    with here.database.read() as connection:
        _get(connection, id, within)
    lease = timedelta(seconds=here.settings.lease_seconds)
    return beat_shape(record_heartbeat(here.database, here.observations, id, given["attempt"], lease=lease))


def _get(connection: Any, id: str, within: Reach) -> Run:
    """Raises NotFound for an id that no run has, and for one that is beyond reach: an id says nothing of a project."""
    run = store.get(connection, id)
    if run is None or not within.covers(run.project):
        raise NotFound.run(id)
    return run


def _shape(connection: Any, run: Run) -> RunShape:
    return run_shape(run, trigger_store.keys(connection, [run.trigger_id]))


def _text(connection: Connection, run_id: str, attempt: int, position: int) -> bytes:
    """What is stored of a log from a byte on, a line standing where something was not kept."""
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
