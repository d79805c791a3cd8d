"""Figures over all triggers, gathered in parts so that no part keeps alarms waiting: demand, and budgets used."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from reconcile.decide import admission
from reconcile.decide.job_changes import JobChanges
from reconcile.observations.observation import Observations
from reconcile.observations.passes import BudgetsSurveyed, DemandExceeded, DemandSummed
from reconcile.triggers import spending
from reconcile.triggers.trigger_calendars import read_terms
from revisions.store import counts
from revisions.store import status as status_store
from revisions.store import trigger_facts as facts_store
from revisions.store.database import Connection, Database

PART = 2_000
"""Triggers that are read in one part."""


class DemandSurvey:
    """Starts per second that all active triggers ask for together; costs as much as there are changes (L-18).

    State: the rate of each trigger, the triggers whose rate is not known yet, and whether the demand is too high.
    """

    def __init__(self, database: Database, observations: Observations, allowed: float) -> None:
        self._database = database
        self._observations = observations
        self._allowed = allowed
        self._rates: dict[str, float] = {}
        self._unknown: dict[str, None] = {}  # a set that keeps its order
        self._is_exceeded = False

    @property
    def is_complete(self) -> bool:
        return not self._unknown

    def note(self, changes: JobChanges) -> None:
        """Forget triggers whose job was removed, and queue those whose job is new or of another revision."""
        self._unknown.update(dict.fromkeys((*changes.added, *changes.replaced)))
        for trigger_id in changes.removed:
            self._unknown.pop(trigger_id, None)
            self._rates.pop(trigger_id, None)

    def advance(self) -> None:
        """Read the rates of the next part of the unknown triggers, and emit the sum so far. Raises Unavailable."""
        if part := list(islice(self._unknown, PART)):
            with self._database.read() as connection:
                self._rates.update(_rates(connection, part, self._database.clock.now(connection)))
            for trigger_id in part:
                del self._unknown[trigger_id]
        asked = sum(self._rates.values())
        self._observations.emit(DemandSummed(asked))
        was_exceeded, self._is_exceeded = self._is_exceeded, admission.is_too_much(asked, self._allowed)
        if self._is_exceeded and not was_exceeded:
            self._observations.emit(DemandExceeded(asked, self._allowed))


class BudgetSurvey:
    """Highest share of a budget that is used, by project; one round at the start and one after each scan (X-08).

    State: how far the round has come, and the shares found so far.
    """

    def __init__(self, database: Database, observations: Observations) -> None:
        self._database = database
        self._observations = observations
        self._read_until: str | None = ""
        self._highest: dict[str, float] = {}

    @property
    def is_complete(self) -> bool:
        return self._read_until is None

    def begin(self) -> None:
        """Begin another round; one that is under way is given up."""
        self._read_until, self._highest = "", {}

    def advance(self) -> None:
        """Read the next part of a round that is under way; after the last one emit the shares. Raises Unavailable."""
        if self.is_complete:
            return
        with self._database.read() as connection:
            part = counts.budgeted(connection, self._read_until or "", PART)
            shares = spending.used_shares(connection, part, self._database.clock.now(connection))
        for trigger in part:
            if trigger.trigger_id in shares:
                share = shares[trigger.trigger_id]
                self._highest[trigger.project] = max(share, self._highest.get(trigger.project, 0.0))
        self._read_until = part[-1].trigger_id if len(part) == PART else None
        if self.is_complete:
            self._observations.emit(BudgetsSurveyed(self._highest))


def read_demand(database: Database) -> dict[str, float]:
    """Return the starts per second that each active trigger asks for, by id; each part is a transaction of its own."""
    with database.read() as connection:
        ids = status_store.active_ids(connection)
    rates: dict[str, float] = {}
    for start in range(0, len(ids), PART):
        with database.read() as connection:
            rates.update(_rates(connection, ids[start : start + PART], database.clock.now(connection)))
    return rates


def _rates(connection: Connection, ids: Iterable[str], now: datetime) -> Iterator[tuple[str, float]]:
    """Yield ids with their starts per second, 0 for a trigger whose spec cannot be read."""
    for trigger_id, facts in facts_store.read(connection, sorted(ids)).items():
        try:
            terms = read_terms(connection, facts.project, facts.spec, facts.resolved)
        except ValueError:
            yield trigger_id, 0.0
        else:
            yield trigger_id, admission.per_second(terms.schedule, now)
