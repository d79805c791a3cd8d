"""Reads what bears on one instant of a trigger's life, and has the rules put it into words (U-03)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from reconcile import authors
from reconcile.auditing import Past, left, past_of, started_before
from reconcile.calendars import read_terms
from reconcile.rules import bounds
from reconcile.rules import explain as rules
from reconcile.rules.authority import refusal
from reconcile.rules.explain import Apart, Explanation, Facts, Held, Instant, Made, Obstacles
from reconcile.rules.ranges import MOMENT, SUPERSEDED
from reconcile.rules.terms import Terms
from reconcile.rules.waits import Ahead, Pending, waits_for
from revisions.ids import TriggerKey
from revisions.store import holds, occurrences, quarantines, queue
from revisions.store import runs as run_store
from revisions.store.database import Connection, Database
from revisions.store.occurrences import Skip
from revisions.store.runs import Run
from revisions.triggers import StopReason, Trigger


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
        """Why it fired at an instant, or did not; without one, at its newest occurrence, else now.

        Raises NotFound, and Invalid for a spec of the past that this release cannot read.
        """
        with self._database.read() as connection:
            past = past_of(self._database, connection, key)
            terms = _terms(connection, past.trigger)
            late = bounds.offset(terms.spread, str(past.trigger.key)) if terms else timedelta(0)
            instant = rules.look(past.eras, at or rules.asked_for(past.eras, past.now - late))
            run, skip = _recorded(connection, past, instant)
            obstacles = _obstacles(connection, past, terms, late)
            started = started_before(connection, past, instant.at - MOMENT)
            waits = _waits_for(connection, run, past) if run and run.status == "pending" else ""
        facts = Facts(
            trigger=str(key),
            now=past.now,
            standing=past.standing,
            started=started,
            obstacles=obstacles,
            run=Made(run.id, run.created_at, run.status, run.error, waits) if run else None,
            skip=left(skip) if skip else None,
        )
        return Explained(past, instant, run, skip, rules.explain(instant, facts))


def _waits_for(connection: Connection, run: Run, past: Past) -> str:
    """What keeps a pending run from its start."""
    running = queue.running(connection)
    task = (run.project, run.domain, run.task)
    over_budget = past.trigger.deactivated_reason == StopReason.BUDGET
    ahead = Ahead(
        key_holder=queue.holder(connection, run),
        before=queue.before(connection, run),
        of_trigger=sum(one.trigger_id == run.trigger_id for one in running),
        of_task=sum((one.project, one.domain, one.task) == task for one in running),
        over_budget_until=past.trigger.until if over_budget else None,
    )
    pending = Pending(run.available_at, run.overlap, run.serialize_key, run.trigger_limit, run.task_limit)
    return waits_for(pending, ahead, past.now)


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
    denied = refusal(terms.scopes, trigger.scopes, trigger.key.project, given) if terms else None
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
