"""Explanation of one instant in a trigger's life, from recorded facts (U-03)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reconcile.decide.authority import refusal
from reconcile.decide.in_force import newest
from reconcile.decide.terms import Terms
from reconcile.queries.audit import TriggerPast, left, past_of, started_before
from reconcile.report import verdicts
from reconcile.report.explain import Explanation, explain
from reconcile.report.verdicts import (
    HoldInForce,
    InstantFacts,
    InstantView,
    Made,
    Obstacles,
    Obstruction,
    PastHold,
    PendingRun,
    QuarantineState,
    RunStart,
    waits_for,
)
from reconcile.schedule.ranges import MOMENT
from reconcile.triggers import credentials
from reconcile.triggers.trigger_calendars import read_terms
from revisions.history.triggers import Trigger
from revisions.ids import TriggerKey
from revisions.outcomes import OccurrenceOutcome, RunSource, RunStatus
from revisions.run_limits import RunLimits, run_limits_of
from revisions.spec.stored import readable_trigger
from revisions.store import holds, occurrences, quarantines, queue, status, triggers
from revisions.store import runs as run_store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.runs import Run


@dataclass(frozen=True, slots=True)
class Explained:
    """Instant, the run or skip recorded for it, and the explanation."""

    past: TriggerPast
    instant: InstantView
    run: Run | None
    skip: Skip | None
    explanation: Explanation


def explain_trigger(database: Database, key: TriggerKey, at: datetime | None) -> Explained:
    """Explain why a trigger fired or did not fire at `at`.

    Without `at`, the newest occurrence or a newer run started by hand is explained, or else the current time. Raises
    NotFound, and Invalid for an earlier spec that this release cannot read.
    """
    with database.read() as connection:
        past = past_of(database, connection, key)
        terms = _terms(connection, past.trigger)
        spread_offset = terms.delay(str(past.trigger.key)) if terms else timedelta(0)
        by_hand = _by_hand(connection, past, spread_offset) if at is None else None
        run: Run | None = by_hand
        skip: Skip | None = None
        if by_hand:
            instant = replace(verdicts.look(past.periods, by_hand.created_at), fire=None, left_out=())
        else:
            instant = verdicts.look(past.periods, at or verdicts.asked_for(past.periods, past.now - spread_offset))
            run, skip = _recorded(connection, past, instant)
        facts = InstantFacts(
            trigger=str(key),
            now=past.now,
            standing=past.standing,
            started=started_before(connection, past, instant.at - MOMENT),
            obstacles=_obstacles(connection, past, terms, spread_offset),
            run=_made(connection, run, past) if run else None,
            skip=left(skip) if skip else None,
            past_holds=_past_holds(connection, instant, past) if run or skip else (),
        )
    return Explained(past, instant, run, skip, explain(instant, facts))


def _by_hand(connection: Connection, past: TriggerPast, spread_offset: timedelta) -> Run | None:
    """The run that somebody asked for where it is the newest there is to tell of: later than what was on schedule,
    or not begun yet."""
    run = next(iter(run_store.page(connection, None, 1, trigger_id=past.trigger.trigger_id)), None)
    if run is None or run.source == RunSource.SCHEDULE:
        return None
    named = newest(past.periods, past.now - spread_offset)
    since = named.at if named else past.trigger.changed_at
    return run if run.created_at >= since or run.status in (RunStatus.PENDING, RunStatus.PARKED) else None


def _made(connection: Connection, run: Run, past: TriggerPast) -> Made:
    """A run as the rules know it; of a later attempt nothing says when the first began."""
    started_at = run.started_at if run.attempt == 1 else None
    return Made(
        run_id=run.id,
        source=run.source,
        actor=run.actor,
        scheduled_at=run.scheduled_at,
        began=RunStart(run.created_at, started_at, run.approved_at, run.approved_by),
        status=run.status,
        error=run.error,
        is_by_hand=run.source != RunSource.SCHEDULE,
        waits_for=told(connection, run, past.now) if run.status == RunStatus.PENDING else "",
    )


def _past_holds(connection: Connection, instant: InstantView, past: TriggerPast) -> list[PastHold]:
    """The freezes and blackouts that were in force for a while since the instant, oldest first."""
    then = instant.period.trigger if instant.period else past.trigger
    return [
        PastHold(one.kind, one.owner, one.reason, one.from_at, None if one.is_on(past.now) else one.until_at)
        for one in holds.not_ended(connection, instant.at)
        if one.covers(project=then.key.project, trigger_id=then.trigger_id, tags=then.tags)
        and one.from_at != one.until_at
    ]


def _terms(connection: Connection, trigger: Trigger) -> Terms | None:
    """Return the trigger's compiled spec, None for one that cannot be read."""
    try:
        return read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved)
    except ValueError:
        return None


def _obstacles(connection: Connection, past: TriggerPast, terms: Terms | None, spread_offset: timedelta) -> Obstacles:
    """Return what currently prevents a decision about the trigger."""
    trigger, status = past.trigger, past.status
    quarantine = quarantines.get(connection, [trigger.trigger_id]).get(trigger.trigger_id)
    holding = [
        hold
        for hold in holds.not_ended(connection, past.now)
        if hold.is_on(past.now)
        and hold.covers(project=trigger.key.project, trigger_id=trigger.trigger_id, tags=trigger.tags)
    ]
    given = credentials.rights_of_authors(connection, [trigger.scopes], past.now)
    denied = refusal(terms.spec.scopes, trigger.scopes, trigger.key.project, given) if terms else None
    return Obstacles(
        hold=HoldInForce(holding[0].kind, holding[0].owner, holding[0].reason, holding[0].until_at)
        if holding
        else None,
        quarantine=QuarantineState(quarantine.since, quarantine.until_at, quarantine.error) if quarantine else None,
        asked_at=status.asked_fire_at,
        rate_waiting_since=status.rate_waiting_since,
        spread_offset=spread_offset,
        denied=denied,
    )


def _recorded(connection: Connection, past: TriggerPast, instant: InstantView) -> tuple[Run | None, Skip | None]:
    """The run of the occurrence and the skip that covers it: of two, the one that is no superseded range."""
    if instant.fire is None:
        return None, None
    run = run_store.of_occurrence(connection, past.trigger.trigger_id, instant.fire.id)
    covering = occurrences.skips_within(connection, past.trigger.trigger_id, instant.at - MOMENT, instant.at)
    covering.sort(key=lambda skip: skip.outcome == OccurrenceOutcome.SUPERSEDED)
    return run, next(iter(covering), None)


def told(connection: Connection, run: Run, now: datetime) -> str:
    """Return the reason a run waits, empty if it only has to be claimed, has begun or has ended."""
    if run.status == RunStatus.PARKED:
        return "an approval"
    if run.status != RunStatus.PENDING:
        return ""
    running = queue.running(connection)
    task = (run.project, run.domain, run.task)
    row = status.get(connection, run.trigger_id)
    trigger = triggers.by_id(connection, run.trigger_id)
    key, limit = run_limits_of(readable_trigger(trigger.spec)) if trigger else RunLimits(None, None)
    held_until = row.over_budget_until if row else None
    frozen = [one for one in holds.frozen(connection, now) if one.project in (None, run.project)]
    ahead = Obstruction(
        key_holder=queue.key_holder_id(connection, run.project, key) if key is not None else None,
        before=queue.earlier_run_id(connection, run),
        of_trigger=sum(one.trigger_id == run.trigger_id for one in running),
        of_task=sum((one.project, one.domain, one.task) == task for one in running),
        over_budget_until=held_until if held_until and held_until > now else None,
        frozen_by=frozen[0].owner if frozen else None,
    )
    pending = PendingRun(run.available_at, run.overlap, key, limit, run.task_limit)
    return waits_for(pending, ahead, now)
