"""Metrics of the whole installation, read from the database in one short transaction per scrape."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from revisions.errors import Unavailable
from revisions.history.triggers import StopReason
from revisions.store.counts import BY_HAND, DelayCause, InstallationCounts, LateTriggers, count_installation
from revisions.store.database import Database
from revisions.store.runs import LIVE

PROJECTS = 50
"""Greatest number of projects with a label of their own; those that are late the longest come first."""
OTHERS, EVERYTHING = "(others)", "(everything)"
"""Labels of all other projects together, and of a freeze of everything; no project can have such a name."""


class InstallationMetrics(Collector):
    """Collector of these metrics; it yields nothing while the database cannot be reached."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Describe nothing, so that registering does not query the database."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        clock = self._database.clock
        began = clock.monotonic()
        try:
            with self._database.read() as connection:
                census = count_installation(connection, clock)
        except Unavailable:
            return
        seconds = clock.monotonic() - began
        yield _gauge("database_seconds", "How long the database took to answer this scrape.", seconds)
        yield from _triggers(census)
        yield from _lateness(census)
        yield from _waiting(census)


def _triggers(census: InstallationCounts) -> Iterator[GaugeMetricFamily]:
    active = sum(standing.number for standing in census.standings if standing.reason is None)
    yield _gauge("triggers_active", "Active triggers.", active)
    reasons = Counter(dict.fromkeys(map(str, (*StopReason, BY_HAND)), 0))
    for standing in census.standings:
        if standing.reason is not None:
            reasons[standing.reason] += standing.number
    deactivated = {(reason,): number for reason, number in reasons.items()}
    yield _labelled("triggers_deactivated", "Triggers that rest.", ["reason"], deactivated)
    yield _gauge("quarantined", "Triggers that could not be decided and are left alone.", census.quarantined)
    frozen = [EVERYTHING] if census.frozen is None else sorted(census.frozen)[:PROJECTS]
    yield _labelled(
        "frozen", "1 for each project in which nothing starts.", ["project"], {(name,): 1 for name in frozen}
    )


def _lateness(census: InstallationCounts) -> Iterator[GaugeMetricFamily]:
    active = [standing.project for standing in census.standings if standing.reason is None]
    numbers, seconds = lateness(active, census.late, census.now)
    labels = ["project", "cause"]
    yield _labelled("late_triggers", "Triggers that are due and undecided, by what keeps them.", labels, numbers)
    yield _labelled("late_seconds", "Since when the first of them is due.", labels, seconds)


def lateness(
    active: Iterable[str], late: Sequence[LateTriggers], now: datetime
) -> tuple[Mapping[tuple[str, str], float], Mapping[tuple[str, str], float]]:
    """Return the number of late triggers, and the seconds since the first was due, by (project, cause).

    At most 50 projects have their own name, those that are late the longest first; the others count as one.
    """
    since: dict[str, datetime] = {}
    for group in late:
        since[group.project] = min(group.since, since.get(group.project, group.since))
    first = sorted(since, key=lambda project: (since[project], project))
    named = [*first, *sorted(set(active) - set(since))][:PROJECTS]
    numbers = {(project, cause.value): 0.0 for project in named for cause in DelayCause}
    seconds = dict(numbers)
    for group in late:
        key = (group.project if group.project in named else OTHERS, group.cause.value)
        numbers[key] = numbers.get(key, 0.0) + group.number
        seconds[key] = max(seconds.get(key, 0.0), (now - group.since).total_seconds())
    return numbers, seconds


def _waiting(census: InstallationCounts) -> Iterator[GaugeMetricFamily]:
    yield _gauge("catchup_backlog", "Missed ranges that wait to be caught up.", census.backlogs)
    yield _gauge(
        "catchup_oldest_seconds", "Age of the oldest of them, but for frozen ones.", _age(census, census.missed_since)
    )
    depth = {(state,): census.live.get(state, 0) for state in LIVE}
    yield _labelled("queue_depth", "Runs that go on, by state.", ["state"], depth)
    yield _gauge("queue_oldest_seconds", "Age of the longest waiting run.", _age(census, census.waiting_since))


def _age(census: InstallationCounts, at: datetime | None) -> float:
    return max(0.0, (census.now - at).total_seconds()) if at else 0.0


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"triggerctl_{name}", meaning, value)


def _labelled(name: str, meaning: str, labels: Sequence[str], values: Mapping[Any, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"triggerctl_{name}", meaning, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
