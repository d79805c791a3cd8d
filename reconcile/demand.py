"""How many starts a second the active triggers ask for together, kept up to date as they change (L-18)."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from reconcile.calendars import read_terms
from reconcile.rules import demand
from revisions.store import status as status_store
from revisions.store.database import Connection, Database

AT_ONCE = 2_000
"""Triggers that are looked at in one go, so that alarms are not kept waiting."""


class Demand:
    """The sum over all triggers; what it costs goes with what changed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rates: dict[str, tuple[int, float]] = {}
        self.per_second = 0.0
        self.is_complete = True

    def follow(self, jobs: Mapping[str, int]) -> None:
        """Looks at triggers (id → revision) that are new or changed, a part of them where they are many."""
        gone = [trigger_id for trigger_id in self._rates if trigger_id not in jobs]
        for trigger_id in gone:
            del self._rates[trigger_id]
        unknown = [id for id, revision in jobs.items() if self._rates.get(id, (0, 0.0))[0] != revision]
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            for trigger_id, rate in rates(connection, unknown[:AT_ONCE], now):
                self._rates[trigger_id] = (jobs[trigger_id], rate)
        self.per_second = sum(rate for _, rate in self._rates.values())
        self.is_complete = len(unknown) <= AT_ONCE


def rates(connection: Connection, ids: Iterable[str], now: datetime) -> Iterable[tuple[str, float]]:
    """What each of these triggers asks for; one that cannot be read asks for nothing."""
    for trigger_id, facts in status_store.facts(connection, sorted(ids)).items():
        try:
            terms = read_terms(connection, facts.project, facts.spec, facts.resolved)
        except ValueError:
            yield trigger_id, 0.0
        else:
            yield trigger_id, demand.per_second(terms.schedule, now)
