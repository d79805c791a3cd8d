"""Reads what bears on one instant of a trigger's life, and has the rules put it into words (U-03)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reconcile import authors
from reconcile.calendars import read_terms
from reconcile.reports import waiting
from reconcile.reports.auditing import ON_SCHEDULE, Past, left, past_of, started_before
from reconcile.rules import instants
from reconcile.rules.authority import refusal
from reconcile.rules.eras import newest
from reconcile.rules.explain import Explanation, explain
from reconcile.rules.instants import Apart, Facts, Held, Instant, Made, Obstacles
from reconcile.rules.lateness import Began, Stood
from reconcile.rules.ranges import MOMENT, SUPERSEDED
from reconcile.rules.terms import Terms
from revisions.ids import TriggerKey
from revisions.store import holds, occurrences, quarantines
from revisions.store import runs as run_store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.runs import Run
from revisions.triggers import Trigger


@dataclass(frozen=True, slots=True)
class Explained:
    """An instant, what is recorded of it, and the words for it."""

    past: Past
    instant: Instant
    run: Run | None
    skip: Skip | None
    explanation: Explanation


class Explaining:
    """Changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def explain(self, key: TriggerKey, at: datetime | None) -> Explained:
        """Why it fired at an instant, or did not; without one, at its newest occurrence or a newer run by hand, else
        now.

        Raises NotFound, and Invalid for a spec of the past that this release cannot read.
        """
        with self._database.read() as connection:
            past = past_of(self._database, connection, key)
            terms = _terms(connection, past.trigger)
            late = terms.delay(str(past.trigger.key)) if terms else timedelta(0)
            by_hand = _by_hand(connection, past, late) if at is None else None
            run: Run | None = by_hand
            skip: Skip | None = None
            if by_hand:
                instant = replace(instants.look(past.eras, by_hand.created_at), fire=None, left_out=())
            else:
                instant = instants.look(past.eras, at or instants.asked_for(past.eras, past.now - late))
                run, skip = _recorded(connection, past, instant)
            facts = Facts(
                trigger=str(key),
                now=past.now,
                standing=past.standing,
                started=started_before(connection, past, instant.at - MOMENT),
                obstacles=_obstacles(connection, past, terms, late),
                run=_made(connection, run, past) if run else None,
                skip=left(skip) if skip else None,
                stood=_stood(connection, instant, past) if run or skip else (),
            )
        return Explained(past, instant, run, skip, explain(instant, facts))


def _by_hand(connection: Connection, past: Past, late: timedelta) -> Run | None:
    """The run that somebody asked for where it is the newest there is to tell of: later than what was on schedule,
    or not begun yet."""
    run = next(iter(run_store.page(connection, None, 1, trigger_id=past.trigger.trigger_id)), None)
    if run is None or run.source == ON_SCHEDULE:
        return None
    named = newest(past.eras, past.now - late)
    since = named.at if named else past.trigger.changed_at
    return run if run.created_at >= since or run.status in ("pending", "parked") else None


def _made(connection: Connection, run: Run, past: Past) -> Made:
    """A run as the rules know it; of a later attempt nothing says when the first began."""
    started_at = run.started_at if run.attempt == 1 else None
    return Made(
        run_id=run.id,
        source=run.source,
        actor=run.actor,
        scheduled_at=run.scheduled_at,
        began=Began(run.created_at, started_at, run.approved_at, run.approved_by),
        status=run.status,
        error=run.error,
        is_by_hand=run.source != ON_SCHEDULE,
        waits_for=waiting.told(connection, run, past.now) if run.status == "pending" else "",
    )


def _stood(connection: Connection, instant: Instant, past: Past) -> list[Stood]:
    """The freezes and blackouts that were in force for a while since the instant, oldest first."""
    then = instant.era.trigger if instant.era else past.trigger
    return [
        Stood(one.kind, one.owner, one.reason, one.from_at, None if one.is_on(past.now) else one.until_at)
        for one in holds.lasting(connection, instant.at)
        if one.covers(project=then.key.project, trigger_id=then.trigger_id, tags=then.tags)
        and one.from_at != one.until_at
    ]


def _terms(connection: Connection, trigger: Trigger) -> Terms | None:
    """What the trigger's spec means, None for one that cannot be read."""
    try:
        return read_terms(connection, trigger.key.project, trigger.spec, trigger.resolved)
    except ValueError:
        return None


def _obstacles(connection: Connection, past: Past, terms: Terms | None, late: timedelta) -> Obstacles:
    """What keeps the trigger from being decided just now."""
    trigger, status = past.trigger, past.status
    apart = quarantines.get(connection, [trigger.trigger_id]).get(trigger.trigger_id)
    holding = [
        hold
        for hold in holds.lasting(connection, past.now)
        if hold.is_on(past.now)
        and hold.covers(project=trigger.key.project, trigger_id=trigger.trigger_id, tags=trigger.tags)
    ]
    given = authors.rights(connection, [trigger.scopes], past.now)
    denied = refusal(terms.spec.scopes, trigger.scopes, trigger.key.project, given) if terms else None
    return Obstacles(
        hold=Held(holding[0].kind, holding[0].owner, holding[0].reason, holding[0].until_at) if holding else None,
        quarantine=Apart(apart.since, apart.until_at, apart.error) if apart else None,
        asked_at=status.asked_fire_at,
        rate_waiting_since=status.rate_waiting_since,
        late=late,
        denied=denied,
    )


def _recorded(connection: Connection, past: Past, instant: Instant) -> tuple[Run | None, Skip | None]:
    """The run of the occurrence and the skip that covers it: of two, the one that is no superseded range."""
    if instant.fire is None:
        return None, None
    run = run_store.of_occurrence(connection, past.trigger.trigger_id, instant.fire.id)
    covering = occurrences.skips_within(connection, past.trigger.trigger_id, instant.at - MOMENT, instant.at)
    covering.sort(key=lambda skip: skip.outcome == SUPERSEDED)
    return run, next(iter(covering), None)
