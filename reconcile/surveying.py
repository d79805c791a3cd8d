"""How near their end the budgets are: what is told of all triggers, and costs too much to be asked at each resync."""

from collections.abc import Iterator, Mapping

from reconcile import budgets as budgets_of
from reconcile.observe import Observations
from reconcile.rules import budget as rules
from reconcile.rules.budget import Budget, budget_of
from revisions.store import census, costs
from revisions.store.costs import SetAside
from revisions.store.database import Database
from revisions.triggers import spec_of

AT_ONCE = 2_000
"""Triggers that are looked at in one transaction."""


class Survey:
    """Told on start, and with each scan."""

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations
        self.is_done = False

    def tell(self) -> None:
        """The highest share used of any budget, by project. Raises Unavailable."""
        self._observations.emit("budgets.surveyed", shares=self._shares())
        self.is_done = True

    def _shares(self) -> dict[str, float]:
        with self._database.read() as connection:
            found = census.budgeted(connection)
        highest: dict[str, float] = {}
        for start in range(0, len(found), AT_ONCE):
            part = found[start : start + AT_ONCE]
            budgets = {id: budget for id, _, spec in part if (budget := budget_of(spec_of(spec)))}
            projects = {id: project for id, project, _ in part}
            for id, share in self._used(budgets):
                highest[projects[id]] = max(share, highest.get(projects[id], 0.0))
        return highest

    def _used(self, budgets: Mapping[str, Budget]) -> Iterator[tuple[str, float]]:
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            spent = budgets_of.spent(connection, budgets, now)
            aside = costs.set_aside(connection, list(budgets))
        for id, budget in budgets.items():
            yield id, rules.used(budget, spent.get(id, 0.0), aside.get(id, SetAside(0.0, 0)).reserved)
