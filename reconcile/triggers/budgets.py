"""What triggers with a budget have spent, read where something of theirs is to start or has ended (X-08)."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from reconcile.decide import budget as rules
from reconcile.decide.budget import Budget, Spending
from revisions.errors import Conflict
from revisions.ids import TriggerKey, utc_text
from revisions.spec.stored import readable_trigger
from revisions.store import costs
from revisions.store.costs import Reservation
from revisions.store.counts import Budgeted
from revisions.store.database import Connection


def read(connection: Connection, budgets: Mapping[str, Budget], now: datetime) -> dict[str, Spending]:
    """The spending of these triggers, by id, whose status rows are locked: whoever changes it holds that lock too."""
    if not budgets:
        return {}
    paid = spent(connection, budgets, now)
    aside = costs.reservations(connection, list(budgets))
    found = {}
    for trigger_id, budget in budgets.items():
        reserved, live = aside.get(trigger_id, Reservation(0.0, 0))
        dearest = costs.highest_recent(connection, trigger_id, rules.RECENT) if budget.estimate is None else None
        found[trigger_id] = Spending(paid.get(trigger_id, 0.0), reserved, live, dearest)
    return found


def spent(connection: Connection, budgets: Mapping[str, Budget], now: datetime) -> dict[str, float]:
    """What these triggers have spent in the period of each, by id; one that spent nothing is left out."""
    begun: dict[datetime, list[str]] = {}
    for trigger_id, budget in budgets.items():
        begun.setdefault(budget.since(now), []).append(trigger_id)
    found: dict[str, float] = {}
    for at, ids in begun.items():
        found |= costs.since(connection, ids, at)
    return found


def shares(connection: Connection, some: Iterable[Budgeted], now: datetime) -> dict[str, float]:
    """The share of its budget that each of these triggers has spent or set aside, by id."""
    budgets = {one.trigger_id: budget for one in some if (budget := rules.budget_of(readable_trigger(one.spec)))}
    paid = spent(connection, budgets, now)
    aside = costs.reservations(connection, list(budgets))
    nothing = Reservation(0.0, 0)
    return {
        trigger_id: rules.used(budget, paid.get(trigger_id, 0.0), aside.get(trigger_id, nothing).reserved)
        for trigger_id, budget in budgets.items()
    }


def used_up_until(connection: Connection, trigger_id: str, spec: str, now: datetime) -> datetime | None:
    """Until when nothing of a trigger may start because its budget is used up; None while that buys something."""
    budget = rules.budget_of(readable_trigger(spec))
    if budget is None:
        return None
    spending = read(connection, {trigger_id: budget}, now)[trigger_id]
    return budget.until(now) if rules.is_used_up(budget, spending) else None


def refuse_beyond(key: TriggerKey, budget: Budget, spending: Spending, now: datetime, number: int) -> None:
    """Raises Conflict where a trigger cannot afford so many more runs."""
    most = rules.affordable(budget, spending)
    if most is None or number <= most:
        return
    left = max(0.0, budget.max_cost - spending.spent - spending.reserved)
    detail = (
        f"{key} may spend {budget.max_cost:g} in a {budget.period} and has {left:g} left, which is enough for "
        f"{most} of the {number} runs: {spending.spent:g} is spent and {spending.reserved:g} set aside for "
        f"{spending.live} that go on"
    )
    hint = f"raise limits.max_cost, or wait until {utc_text(budget.until(now))}, when the next {budget.period} begins"
    raise Conflict.hinted("limits.max_cost", detail, hint)
