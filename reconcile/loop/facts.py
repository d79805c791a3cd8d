"""Facts that a pass decides from, read for a batch of triggers whose status rows are locked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from reconcile.decide import authority
from reconcile.decide.automatic_stops import Stop, still_wanted, worn_out
from reconcile.decide.blackouts import Blackout
from reconcile.decide.budget import Spending, affordable, expected, is_used_up
from reconcile.decide.catchup import Situation
from reconcile.decide.terms import Terms
from reconcile.schedule.fires import Fire
from reconcile.triggers import credentials, spending, trigger_calendars
from revisions.history.chain import value_of
from revisions.history.triggers import StopReason
from revisions.outcomes import HoldKind
from revisions.store import holds, quarantines, runs
from revisions.store import trigger_facts as facts_store
from revisions.store.database import Connection
from revisions.store.holds import Hold
from revisions.store.status import StatusRow
from revisions.store.trigger_facts import TriggerFacts


@dataclass(frozen=True, slots=True)
class TriggerCase:
    """A trigger to decide: its rows, terms and situation.

    `situation` is in nominal time, that is earlier by `delay`, the trigger's part of its schedule's spread (S-12).
    """

    status: StatusRow
    facts: TriggerFacts
    terms: Terms
    situation: Situation
    delay: timedelta
    spending: Spending | None

    @property
    def reserve(self) -> float | None:
        """Cost that is reserved in the budget for each run that starts, None without a budget."""
        budget = self.terms.budget
        return expected(budget, self.spending) if budget and self.spending else None

    def budget_stop(self, now: datetime) -> Stop | None:
        """Return the stop until the budget's next period, if the budget is used up."""
        budget = self.terms.budget
        if budget and self.spending and is_used_up(budget, self.spending):
            return Stop(StopReason.BUDGET, budget.until(now))
        return None


class HeldTrigger(NamedTuple):
    """A trigger that a freeze or its quarantine holds until an instant, None while the freeze has no end."""

    status: StatusRow
    until_at: datetime | None


@dataclass(slots=True)
class CaseBatch:
    """Triggers of a batch to decide, and those that are not decided now.

    `unreadable` has the error by trigger id, `stops` the reason to deactivate a trigger. `retried` are the ids of cases
    whose quarantine ended. `waiting` is the number of cases that wait for a rate token.
    """

    cases: list[TriggerCase] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    stops: dict[str, Stop] = field(default_factory=dict)
    held: list[HeldTrigger] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    waiting: int = 0


class _ReadableTrigger(NamedTuple):
    """Part of a case that is known before its spending is read."""

    status: StatusRow
    facts: TriggerFacts
    terms: Terms
    holds: Sequence[Hold]
    denied: str | None


def read_batch(connection: Connection, rows: Sequence[StatusRow], now: datetime, grace: timedelta) -> CaseBatch:
    """Read the facts of triggers whose status rows are locked.

    A trigger that is not active is left out: it was paused or deleted after it had become due, and time in a pause has
    no occurrences. `grace` is the age up to which an occurrence is live (L-06).
    """
    batch = CaseBatch()
    if not rows:
        return batch
    ids = [row.trigger_id for row in rows]
    facts = facts_store.read(connection, ids)
    lasting_holds = holds.not_ended(connection, min(row.watermark for row in rows))
    quarantined = quarantines.get(connection, ids)
    rights = credentials.rights_of_authors(connection, (trigger.scopes for trigger in facts.values()), now)
    readable: list[_ReadableTrigger] = []
    for row in rows:
        trigger = facts.get(row.trigger_id)
        if trigger is None or not trigger.active:
            continue
        # Every replica holds an alarm, so the end of a quarantine is asked here: one attempt after each backoff (L-13).
        quarantine = quarantined.get(row.trigger_id)
        if quarantine and quarantine.until_at > now:
            batch.held.append(HeldTrigger(row, quarantine.until_at))
            continue
        own_holds = [hold for hold in lasting_holds if _covers(hold, trigger)]
        freezes = [hold for hold in own_holds if hold.kind == HoldKind.FREEZE and hold.is_on(now)]
        if freezes:
            batch.held.append(HeldTrigger(row, _end_of(freezes)))
            continue
        try:
            terms = trigger_calendars.read_terms(connection, trigger.project, trigger.spec, trigger.resolved)
        except ValueError as error:
            batch.unreadable[row.trigger_id] = str(error)
            continue
        if stop := worn_out(terms.spec, row.consecutive_failures, row.success_count):
            batch.stops[row.trigger_id] = stop
            continue
        if quarantine:
            batch.retried.append(row.trigger_id)
        batch.waiting += row.rate_waiting_since is not None
        denied = authority.refusal(terms.spec.scopes, trigger.scopes, trigger.project, rights)
        readable.append(_ReadableTrigger(row, trigger, terms, own_holds, denied))
    batch.cases = _cases(connection, readable, now, grace)
    return batch


def _cases(
    connection: Connection, readable: Sequence[_ReadableTrigger], now: datetime, grace: timedelta
) -> list[TriggerCase]:
    """Return the cases, with what they have spent and the runs under way, one statement for all that need it."""
    limits = {trigger.status.trigger_id: budget for trigger in readable if (budget := trigger.terms.budget)}
    spendings = spending.read(connection, limits, now)
    limited = [trigger.status.trigger_id for trigger in readable if trigger.terms.spec.limits.max_runs]
    live = runs.count_live(connection, limited)
    return [
        _case(trigger, spendings.get(trigger.status.trigger_id), live.get(trigger.status.trigger_id, 0), now, grace)
        for trigger in readable
    ]


def _case(trigger: _ReadableTrigger, spent: Spending | None, live: int, now: datetime, grace: timedelta) -> TriggerCase:
    status, facts, terms, own_holds, denied = trigger
    max_runs = terms.spec.limits.max_runs
    delay = terms.delay("/".join((facts.project, facts.domain, facts.task, facts.name)))
    # The rules know nominal times only, so instants of the clock are moved back by the delay, `now` among them. The
    # fire that a run asked for is not moved: it is stored in nominal time, and its delay is added to its alarm.
    requested = None
    if status.asked_fire_at is not None:
        requested = Fire(status.asked_fire_at, f"next/{status.asked_by_run_id}", status.asked_fire_at)
    situation = Situation(
        now=now - delay,
        live_grace=grace,
        live=facts.live_runs,
        rate_waiting_since=status.rate_waiting_since - delay if status.rate_waiting_since else None,
        remaining=None if terms.count is None else max(0, terms.count - status.started_count),
        asked=requested,
        affordable=affordable(terms.budget, spent) if terms.budget and spent else None,
        wanted=None if max_runs is None else still_wanted(max_runs, status.success_count, live, terms.overlap),
        denied=denied,
        blackouts=tuple(blackout.earlier(delay) for blackout in _blackouts(own_holds)),
    )
    return TriggerCase(status, facts, terms, situation, delay, spent)


def _blackouts(own_holds: Sequence[Hold]) -> list[Blackout]:
    return [
        Blackout(hold.from_at, hold.until_at, hold.mode)
        for hold in own_holds
        if hold.mode is not None and hold.until_at is not None
    ]


def _end_of(freezes: Sequence[Hold]) -> datetime | None:
    """Return the end of the last of these freezes, None if one of them has no end."""
    ends = [freeze.until_at for freeze in freezes if freeze.until_at is not None]
    return max(ends) if len(ends) == len(freezes) else None


def _covers(hold: Hold, facts: TriggerFacts) -> bool:
    tags = value_of(facts.tags) if hold.tag is not None else ()
    return hold.covers(project=facts.project, trigger_id=facts.trigger_id, tags=tags)
