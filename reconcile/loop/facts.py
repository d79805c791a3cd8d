"""What a pass knows of each trigger that it decides, read under the locks of their status rows."""

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
from reconcile.triggers import authors, budgets, closed_days
from revisions.history.chain import value_of
from revisions.history.triggers import StopReason
from revisions.outcomes import HoldKind, HoldMode
from revisions.store import holds, quarantines, runs
from revisions.store import trigger_facts as facts_store
from revisions.store.database import Connection
from revisions.store.holds import Hold
from revisions.store.status import StatusRow
from revisions.store.trigger_facts import TriggerFacts


@dataclass(frozen=True, slots=True)
class TriggerCase:
    """One trigger: its rows, its terms, its situation in nominal time, and how much later than that it fires (S-12)."""

    status: StatusRow
    facts: TriggerFacts
    terms: Terms
    situation: Situation
    late: timedelta
    spending: Spending | None

    @property
    def reserve(self) -> float | None:
        """What is set aside for each run that starts; None without a budget."""
        budget = self.terms.budget
        return expected(budget, self.spending) if budget and self.spending else None

    def stop(self, now: datetime) -> Stop | None:
        """Whether nothing may start any more in this period."""
        budget = self.terms.budget
        if budget and self.spending and is_used_up(budget, self.spending):
            return Stop(StopReason.BUDGET, budget.until(now))
        return None


@dataclass(slots=True)
class CaseBatch:
    """The cases of a batch, and those of it that are none: unreadable (why), to be stopped, or held until an instant by
    a freeze or in quarantine.

    `waiting` is how many of the batch have waited for a token, `tried_again` are cases that were in quarantine.
    """

    cases: list[TriggerCase] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    stopping: dict[str, Stop] = field(default_factory=dict)
    held: list[tuple[StatusRow, datetime | None]] = field(default_factory=list)
    tried_again: list[str] = field(default_factory=list)
    waiting: int = 0


def read(connection: Connection, rows: Sequence[StatusRow], now: datetime, grace: timedelta) -> CaseBatch:
    """What there is to decide of triggers whose status rows are locked; a trigger that is not active is left out."""
    found = CaseBatch()
    if not rows:
        return found
    facts = facts_store.read(connection, [row.trigger_id for row in rows])
    holding = holds.not_ended(connection, min(row.watermark for row in rows))
    apart = quarantines.get(connection, [row.trigger_id for row in rows])
    given = authors.rights(connection, (of.scopes for of in facts.values()), now)
    known: list[_Known] = []
    for row in rows:
        of = facts.get(row.trigger_id)
        if of is None or not of.active:
            continue
        if (quarantine := apart.get(row.trigger_id)) and quarantine.until_at > now:
            found.held.append((row, quarantine.until_at))
            continue
        over = [hold for hold in holding if _covers(hold, of)]
        freezes = [hold for hold in over if hold.kind == HoldKind.FREEZE and hold.is_on(now)]
        if freezes:
            ends = [hold.until_at for hold in freezes]
            found.held.append((row, None if None in ends else max(end for end in ends if end)))
            continue
        try:
            terms = closed_days.read_terms(connection, of.project, of.spec, of.resolved)
        except ValueError as error:
            found.unreadable[row.trigger_id] = str(error)
            continue
        if stop := worn_out(terms.spec, row.consecutive_failures, row.success_count):
            found.stopping[row.trigger_id] = stop
            continue
        if quarantine:
            found.tried_again.append(row.trigger_id)
        found.waiting += row.rate_waiting_since is not None
        denied = authority.refusal(terms.spec.scopes, of.scopes, of.project, given)
        known.append(_Known(row, of, terms, over, denied))
    spendings = budgets.read(connection, {of.row.trigger_id: b for of in known if (b := of.terms.budget)}, now)
    live = runs.count_live(connection, [of.row.trigger_id for of in known if of.terms.spec.limits.max_runs])
    found.cases = [
        _case(one, spendings.get(one.row.trigger_id), live.get(one.row.trigger_id, 0), now, grace) for one in known
    ]
    return found


class _Known(NamedTuple):
    """What is read of a case before what it has spent."""

    row: StatusRow
    facts: TriggerFacts
    terms: Terms
    over: Sequence[Hold]
    denied: str | None


def _case(known: _Known, spending: Spending | None, live: int, now: datetime, grace: timedelta) -> TriggerCase:
    row, facts, terms, over, denied = known
    most = terms.spec.limits.max_runs
    late = terms.delay("/".join((facts.project, facts.domain, facts.task, facts.name)))
    blackouts = (
        Blackout(hold.from_at, hold.until_at, HoldMode(hold.mode))
        for hold in over
        if hold.kind == HoldKind.BLACKOUT and hold.until_at is not None
    )
    asked = None
    if row.asked_fire_at is not None:
        asked = Fire(row.asked_fire_at, f"next/{row.asked_by_run_id}", row.asked_fire_at)
    situation = Situation(
        now=now - late,
        live_grace=grace,
        live=facts.live_runs,
        rate_waiting_since=row.rate_waiting_since - late if row.rate_waiting_since else None,
        remaining=None if terms.count is None else max(0, terms.count - row.started_count),
        asked=asked,
        affordable=affordable(terms.budget, spending) if terms.budget and spending else None,
        wanted=None if most is None else still_wanted(most, row.success_count, live, terms.overlap),
        denied=denied,
        blackouts=tuple(blackout.earlier(late) for blackout in blackouts),
    )
    return TriggerCase(row, facts, terms, situation, late, spending)


def _covers(hold: Hold, facts: TriggerFacts) -> bool:
    tags = value_of(facts.tags) if hold.tag is not None else ()
    return hold.covers(project=facts.project, trigger_id=facts.trigger_id, tags=tags)
