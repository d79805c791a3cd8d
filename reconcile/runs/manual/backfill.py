"""Backfill: create runs for a time in the past, one for each occurrence of the schedule, under its own id (X-11).

Neither the rate nor the trigger's activation holds these runs back. The unique key of runs decides which occurrences
have a run already, so a backfill that was cut off anywhere can be requested again (invariant 3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reconcile.decide.authority import Caller
from reconcile.decide.changes import has_occurrences
from reconcile.observations.observation import Observations, Progress
from reconcile.observations.runs import RunsBackfilled
from reconcile.report.audit import DecidedSpan
from reconcile.runs.claim import outcome_of
from reconcile.runs.manual.targets import Target, check_input, lock_target, read_target, refuse_denied, refuse_frozen
from reconcile.schedule.fires import Fire, count, fires
from reconcile.schedule.ranges import MOMENT
from reconcile.triggers.append import NEW_KEY
from revisions import ids
from revisions.errors import Conflict, Invalid
from revisions.ids import TriggerKey, utc_text
from revisions.outcomes import RunSource
from revisions.spec import documents
from revisions.store import backlogs as backlog_store
from revisions.store import notices, retention
from revisions.store import runs as run_store
from revisions.store import status as status_store
from revisions.store.database import Connection, Database
from revisions.store.runs import NewRun

MOST = 10_000
"""Occurrences that one request may cover."""
BATCH = 500
"""Occurrences per transaction; between two of them the loop and deploys get their turn at the trigger."""
OVERLAPS = ("allow", "queue_all")


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """Occurrences to backfill, [since, until), and how; `force` creates another run for those that have one."""

    since: datetime
    until: datetime
    force: bool = False
    overlap: str | None = None
    input: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Backfilled:
    """Result of a backfill: each occurrence that got a run, in order, with the run's id (None in a preview).

    `until` is never later than the instant of the request. `existing` occurrences had a run already. `undecided` ones
    were left to the loop, because the schedule counts its starts (S-07).
    """

    trigger_id: str
    since: datetime
    until: datetime
    made: list[tuple[Fire, str | None]] = field(default_factory=list)
    existing: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """A request that passed its checks: `number` occurrences in the nominal time (after, last].

    `prefix` makes the occurrence ids of forced runs unique, it is empty without `force`.
    """

    key: TriggerKey
    trigger_id: str
    request: BackfillRequest
    caller: Caller
    prefix: str
    after: datetime
    last: datetime
    until: datetime
    number: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """Occurrences of one transaction, those of them that should have a run, and the new runs' ids."""

    occurrences: list[Fire]
    wanted: list[Fire]
    made: list[tuple[Fire, str]]


def backfill_trigger(
    database: Database,
    observations: Observations,
    key: TriggerKey,
    request: BackfillRequest,
    caller: Caller,
    progress: Progress,
) -> Backfilled:
    """Create the runs that do not exist yet, batch by batch, and call `progress` after each batch.

    Each batch uses the schedule that is in force when it is made (L-15). Raises NotFound (also for a deleted trigger),
    Invalid for a time that is empty or has too many occurrences and for an input that the task does not declare,
    Forbidden when the trigger's author may start nothing (X-15), and Conflict under a freeze, beyond the budget, and
    for an idempotency key that was used with another input.
    """
    plan = _plan(database, key, request, caller)
    made: list[tuple[Fire, str | None]] = []
    after, seen, undecided = plan.after, 0, 0
    while after < plan.last:
        batch = _make_batch(database, observations, plan, after)
        made += batch.made
        seen += len(batch.occurrences)
        undecided += len(batch.occurrences) - len(batch.wanted)
        after = batch.occurrences[-1].at if len(batch.occurrences) == BATCH else plan.last
        progress(seen, max(seen, plan.number))
    return Backfilled(plan.trigger_id, request.since, plan.until, made, seen - undecided - len(made), undecided)


def preview_backfill(database: Database, key: TriggerKey, request: BackfillRequest, caller: Caller) -> Backfilled:
    """Return what `backfill_trigger` would create now, and create nothing.

    Raises what `backfill_trigger` raises, except for freezes, the author's rights, the budget and used keys.
    """
    plan = _plan(database, key, request, caller)
    with database.read() as connection:
        target = read_target(database, connection, key)
        occurrences = fires(target.terms.schedule, plan.after, plan.last, MOST)
        wanted = _wanted(connection, target, request, occurrences)
        names = [plan.prefix + fire.id for fire in wanted]
        existing = run_store.by_occurrence(connection, target.trigger.trigger_id, names)
    made: list[tuple[Fire, str | None]] = [(fire, None) for fire in wanted if plan.prefix + fire.id not in existing]
    undecided = len(occurrences) - len(wanted)
    return Backfilled(plan.trigger_id, request.since, plan.until, made, len(existing), undecided)


def _plan(database: Database, key: TriggerKey, request: BackfillRequest, caller: Caller) -> _Plan:
    """Check a request and count its occurrences."""
    if request.overlap not in (None, *OVERLAPS):
        raise Invalid.at("overlap", f"{request.overlap!r} is not for backfills", f"one of {', '.join(OVERLAPS)}")
    documents.check(request.input or {}, "input")
    if request.since >= request.until:
        raise Invalid.at("from", "lies not before `to`", "name a time that ends after it begins")
    with database.read() as connection:
        target = read_target(database, connection, key)
        check_input(target, request.input)
        _refuse_pruned(connection, target, request)
    schedule, delay = target.terms.schedule, target.terms.delay(str(key))
    after, last = request.since - MOMENT, min(request.until - MOMENT, target.now - delay)
    number = count(schedule, after, last, MOST + 1)
    if number > MOST:
        edge = utc_text(fires(schedule, after, last, MOST + 1)[-1].at)
        detail = f"more than {MOST:,} occurrences lie between `from` and it"
        raise Invalid.at("to", detail, f"go up to {edge} first, then on from there")
    prefix = f"forced/{caller.idempotency_key or ids.fresh(target.now)}/" if request.force else ""
    until = min(request.until, target.now)
    return _Plan(key, target.trigger.trigger_id, request, caller, prefix, after, last, until, number)


def _make_batch(database: Database, observations: Observations, plan: _Plan, after: datetime) -> _Batch:
    """Create the runs of the next occurrences after an instant, in one transaction."""
    with database.write() as connection:
        target = lock_target(database, connection, plan.key)
        refuse_frozen(connection, plan.key.project, target.now)
        refuse_denied(connection, target.trigger, target.now)
        check_input(target, plan.request.input)
        occurrences = fires(target.terms.schedule, after, plan.last, BATCH)
        wanted = _wanted(connection, target, plan.request, occurrences)
        new = [_new_run(target, plan, fire) for fire in wanted]
        made_ids = _insert(connection, target, plan, new)
        # Only after the insert: it waits for a pruning pass that is removing runs of the same occurrences. The pass
        # commits how far it pruned together with that, so the check sees it.
        _refuse_pruned(connection, target, plan.request)
    if made_ids:
        observations.emit(RunsBackfilled(plan.key, plan.caller.actor, len(made_ids)))
    made = [(fire, run.id) for fire, run in zip(wanted, new, strict=True) if run.id in made_ids]
    return _Batch(occurrences, wanted, made)


def _refuse_pruned(connection: Connection, target: Target, request: BackfillRequest) -> None:
    """Raise Invalid for a time whose runs were pruned: which occurrences ran is not known any more (O-07)."""
    pruned_until = retention.forgotten_until(connection, target.trigger.trigger_id)
    if pruned_until is not None and request.since <= pruned_until and not request.force:
        detail = f"records up to {utc_text(pruned_until)} were removed: what ran until then might run a second time"
        raise Invalid.at("from", detail, "name a later time, or say that all are to run anew, with --force")


def _wanted(connection: Connection, target: Target, request: BackfillRequest, occurrences: list[Fire]) -> list[Fire]:
    """Return the occurrences that should have a run: all, unless the schedule counts its starts (S-07).

    Then undecided occurrences are left to the loop. It would take an occurrence that has a run for one that it
    started, and its count would be wrong.
    """
    if request.force or target.terms.count is None or not has_occurrences(target.trigger):
        return occurrences
    backlogs = backlog_store.get(connection, [target.trigger.trigger_id])
    spans = [(backlog.cursor_at, backlog.until_at) for backlog in backlogs]
    decided = DecidedSpan(target.status.watermark, spans)
    return [fire for fire in occurrences if decided.decided(fire.at)]


def _new_run(target: Target, plan: _Plan, fire: Fire) -> NewRun:
    return target.new_run(
        plan.prefix + fire.id,
        fire.at,
        source=RunSource.BACKFILL,
        overlap=plan.request.overlap or "queue_all",
        caller=plan.caller,
        input=plan.request.input,
    )


def _insert(connection: Connection, target: Target, plan: _Plan, new: Sequence[NewRun]) -> set[str]:
    """Insert runs and return the ids of those that were created; the unique key decides, no read before it (X-01)."""
    names = [run.occurrence_id for run in new]
    if target.terms.budget:
        existing = run_store.by_occurrence(connection, target.trigger.trigger_id, names)
        target.refuse_beyond_budget(len(new) - len(existing))
    run_store.create(connection, new)
    stored = run_store.by_occurrence(connection, target.trigger.trigger_id, names)
    for run in new if plan.prefix else ():
        if stored[run.occurrence_id].input != run.input:
            used = f"run {stored[run.occurrence_id].id}"
            detail = f"Idempotency-Key {plan.caller.idempotency_key!r} was used for another backfill, {used}"
            raise Conflict.hinted("Idempotency-Key", detail, NEW_KEY)
    made = [run.id for run in new if stored[run.occurrence_id].id == run.id]
    if made:
        status_store.record_manual_fires(
            connection, target.status, made[-1], target.now, len(made), outcome=outcome_of(new[-1])
        )
        notices.runs_pending(connection)
    return set(made)
