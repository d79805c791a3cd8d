"""How near their end the budgets are: what is told of all triggers, and looked at a part at a time."""

from reconcile import budgets as spending
from reconcile.observe import Observations
from reconcile.rules import budget as rules
from reconcile.rules.budget import budget_of
from revisions.store import census, costs
from revisions.store.costs import SetAside
from revisions.store.database import Database
from revisions.triggers import spec_of

AT_ONCE = 2_000
"""Triggers that are looked at in one go, so that alarms are not kept waiting."""


class Survey:
    """One round over all triggers with a budget: on start, and whenever somebody asks for another."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations
        self._seen_until: str | None = ""
        self._highest: dict[str, float] = {}

    @property
    def is_complete(self) -> bool:
        """Whether the round is over."""
        return self._seen_until is None

    def begin(self) -> None:
        """Another round; one that goes on begins anew."""
        self._seen_until, self._highest = "", {}

    def look(self) -> None:
        """Looks at the next part; after the last one tells the highest share used, by project. Raises Unavailable."""
        with self._database.read() as connection:
            part = census.budgeted(connection, self._seen_until or "", AT_ONCE)
            now = self._database.clock.now(connection)
            budgets = {one.trigger_id: budget for one in part if (budget := budget_of(spec_of(one.spec)))}
            spent = spending.spent(connection, budgets, now)
            aside = costs.set_aside(connection, list(budgets))
        for one in part:
            if budget := budgets.get(one.trigger_id):
                reserved = aside.get(one.trigger_id, SetAside(0.0, 0)).reserved
                share = rules.used(budget, spent.get(one.trigger_id, 0.0), reserved)
                self._highest[one.project] = max(share, self._highest.get(one.project, 0.0))
        self._seen_until = part[-1].trigger_id if len(part) == AT_ONCE else None
        if self.is_complete:
            self._observations.emit("budgets.surveyed", shares=self._highest)
