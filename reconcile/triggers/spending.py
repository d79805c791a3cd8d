"""Spending of triggers with a budget, read when their runs start or end; costs by trigger, tag or project (X-08)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from reconcile.decide.budget import RECENT, Budget, Spending, affordable, budget_of, is_used_up, used
from revisions.errors import Conflict
from revisions.ids import TriggerKey, utc_text
from revisions.spec.stored import readable_trigger
from revisions.store import costs
from revisions.store import triggers as trigger_store
from revisions.store.costs import Reservation, Spent
from revisions.store.counts import Budgeted
from revisions.store.database import Connection, Database

_NOTHING = Reservation(0.0, 0)
By = Literal["trigger", "tag", "project"]


@dataclass(frozen=True, slots=True)
class Share:
    """Costs under one name; a removed trigger is named by its id."""

    name: str
    amount: float
    runs: int


@dataclass(frozen=True, slots=True)
class Account:
    """Shares, highest first, and the total. A trigger with several tags appears under each."""

    shares: list[Share]
    amount: float
    runs: int


def read(connection: Connection, budgets: Mapping[str, Budget], now: datetime) -> dict[str, Spending]:
    """Return the spending of these triggers, by id.

    Their status rows must be locked. Whoever starts or ends a run holds that lock too, so the figures stay exact.
    """
    if not budgets:
        return {}
    spent = spent_in_period(connection, budgets, now)
    set_aside = costs.reservations(connection, list(budgets))
    spendings = {}
    for trigger_id, budget in budgets.items():
        reserved, live = set_aside.get(trigger_id, _NOTHING)
        dearest = costs.highest_recent(connection, trigger_id, RECENT) if budget.estimate is None else None
        spendings[trigger_id] = Spending(spent.get(trigger_id, 0.0), reserved, live, dearest)
    return spendings


def spent_in_period(connection: Connection, budgets: Mapping[str, Budget], now: datetime) -> dict[str, float]:
    """Return the amount that each trigger has spent in its current period, by id; those without costs are left out."""
    ids_by_start: dict[datetime, list[str]] = {}
    for trigger_id, budget in budgets.items():
        ids_by_start.setdefault(budget.since(now), []).append(trigger_id)
    amounts: dict[str, float] = {}
    for start, ids in ids_by_start.items():
        amounts |= costs.since(connection, ids, start)
    return amounts


def used_shares(connection: Connection, budgeted: Iterable[Budgeted], now: datetime) -> dict[str, float]:
    """Return the share of its budget that each trigger has spent or set aside, by id; 1.0 is all of it."""
    budgets = {row.trigger_id: budget for row in budgeted if (budget := budget_of(readable_trigger(row.spec)))}
    spent = spent_in_period(connection, budgets, now)
    set_aside = costs.reservations(connection, list(budgets))
    return {
        trigger_id: used(budget, spent.get(trigger_id, 0.0), set_aside.get(trigger_id, _NOTHING).reserved)
        for trigger_id, budget in budgets.items()
    }


def used_up_until(connection: Connection, trigger_id: str, spec: str, now: datetime) -> datetime | None:
    """Return the end of the period in which a trigger's budget is used up; None while there is budget left, or none."""
    budget = budget_of(readable_trigger(spec))
    if budget is None:
        return None
    spending = read(connection, {trigger_id: budget}, now)[trigger_id]
    return budget.until(now) if is_used_up(budget, spending) else None


def refuse_unaffordable(key: TriggerKey, budget: Budget, spending: Spending, now: datetime, number: int) -> None:
    """Raise Conflict when the rest of a trigger's budget is not enough for this number of runs."""
    most = affordable(budget, spending)
    if most is None or number <= most:
        return
    remaining = max(0.0, budget.max_cost - spending.spent - spending.reserved)
    detail = (
        f"{key} may spend {budget.max_cost:g} in a {budget.period} and has {remaining:g} left, which is enough for "
        f"{most} of the {number} runs: {spending.spent:g} is spent and {spending.reserved:g} set aside for "
        f"{spending.live} that go on"
    )
    hint = f"raise limits.max_cost, or wait until {utc_text(budget.until(now))}, when the next {budget.period} begins"
    raise Conflict.hinted("limits.max_cost", detail, hint)


def sum_costs(
    database: Database,
    by: By,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    projects: Collection[str] | None = None,
) -> Account:
    """Sum the costs of attempts that ended in [from, to), by the current names and tags; `projects` None means all."""
    with database.read() as connection:
        spent = costs.spent_within(connection, from_at, to_at, projects=projects)
        ids = [cost.trigger_id for cost in spent]
        keys = trigger_store.keys(connection, ids)
        tags = trigger_store.tags(connection, ids) if by == "tag" else {}
    names: dict[By, Callable[[Spent], Collection[str]]] = {
        "trigger": lambda cost: [str(keys.get(cost.trigger_id, cost.trigger_id))],
        "tag": lambda cost: tags.get(cost.trigger_id, ()),
        "project": lambda cost: [cost.project],
    }
    sums: dict[str, tuple[float, int]] = {}
    for cost in spent:
        for name in names[by](cost):
            amount, runs = sums.get(name, (0.0, 0))
            sums[name] = (amount + cost.amount, runs + cost.runs)
    shares = [Share(name, *values) for name, values in sums.items()]
    shares.sort(key=lambda share: (-share.amount, share.name))
    return Account(shares, sum(cost.amount for cost in spent), sum(cost.runs for cost in spent))
