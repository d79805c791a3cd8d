"""Costs of runs by trigger, tag or project (X-08)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from revisions.store import costs
from revisions.store import triggers as trigger_store
from revisions.store.costs import Spent
from revisions.store.database import Database

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
        ids = [one.trigger_id for one in spent]
        keys = trigger_store.keys(connection, ids)
        tags = trigger_store.tags(connection, ids) if by == "tag" else {}
    names: dict[By, Callable[[Spent], Collection[str]]] = {
        "trigger": lambda one: [str(keys.get(one.trigger_id, one.trigger_id))],
        "tag": lambda one: tags.get(one.trigger_id, ()),
        "project": lambda one: [one.project],
    }
    sums: dict[str, tuple[float, int]] = {}
    for one in spent:
        for name in names[by](one):
            amount, runs = sums.get(name, (0.0, 0))
            sums[name] = (amount + one.amount, runs + one.runs)
    shares = [Share(name, *values) for name, values in sums.items()]
    shares.sort(key=lambda share: (-share.amount, share.name))
    return Account(shares, sum(one.amount for one in spent), sum(one.runs for one in spent))
