"""How near their end the budgets are: what is told of all triggers, and looked at a part at a time."""

from reconcile.observations.observation import Observations
from reconcile.observations.passes import BudgetsSurveyed
from reconcile.triggers import budget_spending
from revisions.store import counts
from revisions.store.database import Database

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
            part = counts.budgeted(connection, self._seen_until or "", AT_ONCE)
            now = self._database.clock.now(connection)
            shares = budget_spending.used_shares(connection, part, now)
        for one in part:
            if one.trigger_id in shares:
                self._highest[one.project] = max(shares[one.trigger_id], self._highest.get(one.project, 0.0))
        self._seen_until = part[-1].trigger_id if len(part) == AT_ONCE else None
        if self.is_complete:
            self._observations.emit(BudgetsSurveyed(self._highest))
