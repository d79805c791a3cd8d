"""Prometheus metrics: counted from observations as they happen, and read from the database when asked."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from controller.version import VERSION
from reconcile.rules.ranges import MISSED, RATE
from reconcile.rules.zones import TZDATA_VERSION
from revisions.errors import Unavailable
from revisions.store import expiry, quarantines, runs, status
from revisions.store.database import Database

_LATENESS_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
_RUN_BUCKETS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)


class Metrics:
    """One registry; `subscriber` goes to the observations, `exposition` is what a scrape gets. Labels are bounded."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, database: Database, is_listening: Callable[[], bool]) -> None:
        self.registry = registry = CollectorRegistry()
        build = Info("triggerctl_build", "Version of the controller and of its tz database.", registry=registry)
        build.info({"version": VERSION, "tzdata": TZDATA_VERSION})
        self._jobs = Gauge("triggerctl_jobs", "Alarms held by this process.", registry=registry)
        self._resync = Histogram("triggerctl_resync_seconds", "Duration of a resync.", registry=registry)
        self._changes = Counter(
            "triggerctl_resync_changes", "Jobs added, replaced and removed.", ["change"], registry=registry
        )
        self._lag = Gauge(
            "triggerctl_feed_lag_seconds", "Age of the oldest change when the loop last read some.", registry=registry
        )
        self._lateness = Histogram(
            "triggerctl_fire_lateness_seconds",
            "From the scheduled instant to the committed run.",
            buckets=_LATENESS_BUCKETS,
            registry=registry,
        )
        self._runs = Counter("triggerctl_runs", "Runs that ended.", ["outcome", "source"], registry=registry)
        self._run_seconds = Histogram(
            "triggerctl_run_seconds", "From the last start to the end.", buckets=_RUN_BUCKETS, registry=registry
        )
        self._skips = Counter("triggerctl_skips", "Occurrences that became no run.", ["reason"], registry=registry)
        self._findings = Counter(
            "triggerctl_findings", "What the scanner found and mended, by kind.", ["kind"], registry=registry
        )
        self._missed = Counter(
            "triggerctl_deadlines_missed", "Deadlines at which no run had succeeded.", ["kind"], registry=registry
        )
        self._asked = Gauge(
            "triggerctl_asked_rate", "Starts a second that the active schedules ask for.", registry=registry
        )
        self._replicas = Gauge("triggerctl_replicas", "Processes that run the loop.", registry=registry)
        self._rate_wait = Histogram(
            "triggerctl_rate_limit_wait_seconds",
            "From the first refusal of a token to the start.",
            buckets=_LATENESS_BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "triggerctl_pass_failures", "Passes of loop and runner that failed.", ["part"], registry=registry
        )
        self._refused = Counter(
            "triggerctl_access_refused", "Requests that were refused, by reason.", ["reason"], registry=registry
        )
        listening = Gauge(
            "triggerctl_listener_connected", "1 while the database's notices are heard.", registry=registry
        )
        listening.set_function(lambda: float(is_listening()))
        registry.register(_Stored(database))

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format; what the database holds is left out while it cannot be reached."""
        return generate_latest(self.registry)

    def subscriber(self, name: str, facts: dict[str, Any]) -> None:
        """Counts an observation."""
        match name:
            case "loop.resynced":
                self._resync.observe(facts["seconds"])
                self._jobs.set(facts["jobs"])
                for change in ("added", "replaced", "removed"):
                    self._changes.labels(change).inc(len(getattr(facts["changes"], change)))
            case "feed.read":
                self._lag.set(facts["lag"])
            case "pass.decided":
                for seconds in facts["lateness"]:
                    self._lateness.observe(max(0.0, seconds))
                for skip in facts["skips"]:
                    self._skips.labels(RATE if skip.reason == RATE else skip.outcome).inc(_number(skip.count))
                for seconds in facts["waited"]:
                    self._rate_wait.observe(seconds)
            case "backlog.dropped":
                self._skips.labels(MISSED).inc(_number(facts["count"]))
            case "trigger.deadline_missed":
                self._missed.labels(facts["kind"]).inc()
            case "scan.found":
                self._findings.labels(facts["kind"]).inc()
            case "demand.summed":
                self._asked.set(facts["asked"])
            case "replicas.counted":
                self._replicas.set(facts["number"])
            case "run.settled":
                self._runs.labels(facts["status"], facts["source"]).inc()
                self._run_seconds.observe(facts["seconds"])
            case "run.expired":
                self._runs.labels(expiry.EXPIRED, facts["source"]).inc()
            case "access.refused" | "access.throttled":
                self._refused.labels(facts.get("reason", "throttled")).inc()
            case "loop.failed":
                self._failures.labels("loop").inc()
            case "runner.failed" | "runner.unavailable":
                self._failures.labels("runner").inc()


_MORE_THAN_COUNTED = 1_001
"""What a range is counted as whose number was left open."""


def _number(counted: int | None) -> int:
    return _MORE_THAN_COUNTED if counted is None else counted


class _Stored(Collector):
    """Gauges that are true of the whole installation, read in one short transaction a scrape."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing, so that registering asks no database."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            with self._database.read() as connection:
                now = self._database.clock.now(connection)
                depth = runs.depth(connection)
                active, backlogs = status.active_count(connection), status.backlog_count(connection)
                apart = len(quarantines.every(connection))
        except Unavailable:
            return
        yield GaugeMetricFamily("triggerctl_triggers_active", "Active triggers.", active)
        yield GaugeMetricFamily("triggerctl_catchup_backlog", "Missed ranges that wait to be caught up.", backlogs)
        yield GaugeMetricFamily(
            "triggerctl_quarantined", "Triggers that could not be decided and are left alone.", apart
        )
        queue = GaugeMetricFamily("triggerctl_queue_depth", "Runs that go on, by state.", labels=["state"])
        for state in runs.LIVE:
            queue.add_metric([state], depth.by_status.get(state, 0))
        yield queue
        oldest = (now - depth.oldest_available_at).total_seconds() if depth.oldest_available_at else 0.0
        yield GaugeMetricFamily(
            "triggerctl_queue_oldest_seconds",
            "Age of the longest waiting run.",
            max(0, oldest),
        )
