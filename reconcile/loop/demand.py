"""How many starts a second the active triggers ask for together, kept up to date as they change (L-18)."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from reconcile.decide import admission
from reconcile.decide.job_changes import JobChanges
from reconcile.triggers.closed_days import read_terms
from revisions.store import status as status_store
from revisions.store import trigger_facts as facts_store
from revisions.store.database import Connection, Database

AT_ONCE = 2_000
"""Triggers that are looked at in one go, so that alarms are not kept waiting."""


class Demand:
    """The sum over all triggers; what it costs goes with what changed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rates: dict[str, float] = {}
        self._unknown: dict[str, None] = {}  # a set that keeps its order

    @property
    def is_complete(self) -> bool:
        """Whether there is none left to look at."""
        return not self._unknown

    @property
    def per_second(self) -> float:
        """Starts a second, of all that were looked at."""
        return sum(self._rates.values())

    def follow(self, changes: JobChanges) -> None:
        """Takes note of jobs that came, went or are of another revision."""
        self._unknown.update(dict.fromkeys((*changes.added, *changes.replaced)))
        for trigger_id in changes.removed:
            self._unknown.pop(trigger_id, None)
            self._rates.pop(trigger_id, None)

    def look(self) -> None:
        """Looks at some of those that are new or changed."""
        looked_at = list(islice(self._unknown, AT_ONCE))
        with self._database.read() as connection:
            now = self._database.clock.now(connection)
            self._rates.update(rates(connection, looked_at, now))
        for trigger_id in looked_at:
            del self._unknown[trigger_id]


def rates(connection: Connection, ids: Iterable[str], now: datetime) -> Iterator[tuple[str, float]]:
    """What each of these triggers asks for; one that cannot be read asks for nothing."""
    for trigger_id, facts in facts_store.read(connection, sorted(ids)).items():
        try:
            terms = read_terms(connection, facts.project, facts.spec, facts.resolved)
        except ValueError:
            yield trigger_id, 0.0
        else:
            yield trigger_id, admission.per_second(terms.schedule, now)


def of_all(database: Database) -> dict[str, float]:
    """What each active trigger asks for, by id; read in parts, so that no transaction lasts."""
    with database.read() as connection:
        ids = status_store.active_ids(connection)
    found: dict[str, float] = {}
    for start in range(0, len(ids), AT_ONCE):
        with database.read() as connection:
            found.update(rates(connection, ids[start : start + AT_ONCE], database.clock.now(connection)))
    return found
