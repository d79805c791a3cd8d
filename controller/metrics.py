"""Prometheus metrics: counted from observations as they happen; `stored` reads the rest when it is asked."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from controller.settings import Settings
from controller.stored import PROJECTS, Stored
from controller.version import VERSION
from reconcile.decide.retry import AttemptOutcome
from reconcile.loop.scanner import FindingKind
from reconcile.schedule.ranges import BLACKOUT, BUDGET, CONCURRENCY, DENIED, MISSED, RATE, SUPERSEDED
from reconcile.schedule.zones import TZDATA_VERSION
from revisions.store import expiry
from revisions.store.database import Database

_LATENESS_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
_TRANSACTION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RUN_BUCKETS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)

OUTCOMES = (
    AttemptOutcome.SUCCEEDED,
    AttemptOutcome.FAILED,
    AttemptOutcome.TIMED_OUT,
    AttemptOutcome.CANCELLED,
    expiry.EXPIRED,
)
SOURCES = ("schedule", "manual", "backfill")
CHANGES = ("added", "replaced", "removed")
TRANSACTIONS = {"pass.decided": "decide", "run.claimed": "claim", "attempt.ended": "settle"}


class Metrics:
    """One registry; `subscriber` goes to the observations, `exposition` is what a scrape gets. Labels are bounded.

    Counters begin at 0 for every label that is known, so that the first event is an increase, too.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, database: Database, is_listening: Callable[[], bool], settings: Settings) -> None:
        self.registry = registry = CollectorRegistry()
        build = Info("triggerctl_build", "Version of the controller and of its tz database.", registry=registry)
        kind = "sqlite" if database.is_sqlite else "postgresql"
        build.info({"version": VERSION, "tzdata": TZDATA_VERSION, "database": kind})
        self._now = database.clock.monotonic
        self._make_loops(registry)
        self._make_runs(registry)
        self._make_faults(registry)
        listening = Gauge(
            "triggerctl_listener_connected", "1 while the database's notices are heard.", registry=registry
        )
        listening.set_function(lambda: float(is_listening()))
        _tell_settings(settings, registry)
        self._resynced = _LastResync(self._now)
        registry.register(self._resynced)
        registry.register(_Pool(database))
        registry.register(Stored(database))

    def _make_loops(self, registry: CollectorRegistry) -> None:
        self._jobs = Gauge("triggerctl_jobs", "Alarms held by this process.", registry=registry)
        self._resync = Histogram("triggerctl_resync_seconds", "Duration of a resync.", registry=registry)
        self._changes = _counter(
            registry, "triggerctl_resync_changes", "Jobs added, replaced and removed.", change=CHANGES
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
        self._budgets = Gauge(
            "triggerctl_budget_used_ratio",
            "Highest share of a trigger's budget that is spent or set aside, of the projects where it is highest.",
            ["project"],
            registry=registry,
        )

    def _make_runs(self, registry: CollectorRegistry) -> None:
        self._runs = _counter(registry, "triggerctl_runs", "Runs that ended.", outcome=OUTCOMES, source=SOURCES)
        self._run_seconds = Histogram(
            "triggerctl_run_seconds", "From the last start to the end.", buckets=_RUN_BUCKETS, registry=registry
        )
        self._caught_up = Counter("triggerctl_caught_up", "Runs that backlogs came to.", registry=registry)
        reasons = (MISSED, SUPERSEDED, CONCURRENCY, BLACKOUT, BUDGET, DENIED, RATE)
        self._skips = _counter(registry, "triggerctl_skips", "Occurrences that became no run.", reason=reasons)
        self._transactions = Histogram(
            "triggerctl_transaction_seconds",
            "Duration of the transactions that decide what is due, claim runs and settle attempts.",
            ["kind"],
            buckets=_TRANSACTION_BUCKETS,
            registry=registry,
        )
        for kind in TRANSACTIONS.values():
            self._transactions.labels(kind)

    def _make_faults(self, registry: CollectorRegistry) -> None:
        self._findings = _counter(
            registry, "triggerctl_findings", "What the scanner found and mended, by kind.", kind=tuple(FindingKind)
        )
        self._missed = _counter(
            registry,
            "triggerctl_deadlines_missed",
            "Deadlines at which no run had succeeded.",
            kind=("success_by", "within"),
        )
        self._failures = _counter(
            registry, "triggerctl_pass_failures", "Passes of loop and runner that failed.", part=("loop", "runner")
        )
        reasons = ("unauthenticated", "forbidden", "throttled")
        self._refused = _counter(
            registry, "triggerctl_access_refused", "Requests that were refused, by reason.", reason=reasons
        )

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format; what the database holds is left out while it cannot be reached."""
        return generate_latest(self.registry)

    def subscriber(self, name: str, facts: dict[str, Any]) -> None:
        """Counts an observation."""
        if name in TRANSACTIONS:
            self._transactions.labels(TRANSACTIONS[name]).observe(facts["seconds"])
        match name:
            case "loop.resynced":
                self._resync.observe(facts["seconds"])
                self._resynced.at = self._now()
                self._jobs.set(facts["jobs"])
                for change in CHANGES:
                    self._changes.labels(change).inc(len(getattr(facts["changes"], change)))
            case "feed.read":
                self._lag.set(facts["lag"])
            case "pass.decided":
                self._count_starts(facts)
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
            case "budgets.surveyed":
                self._tell_budgets(facts["shares"])
            case "replicas.counted":
                self._replicas.set(facts["number"])
            case "run.settled":
                self._runs.labels(facts["status"], facts["source"]).inc()
                self._run_seconds.observe(facts["seconds"])
            case "wait.ended" if facts["run"].status == AttemptOutcome.CANCELLED:
                self._runs.labels(AttemptOutcome.CANCELLED, facts["run"].source).inc()
            case "run.expired":
                self._runs.labels(expiry.EXPIRED, facts["source"]).inc()
            case "access.refused" | "access.throttled":
                self._refused.labels(facts.get("reason", "throttled")).inc()
            case "loop.failed":
                self._failures.labels("loop").inc()
            case "runner.failed" | "runner.unavailable":
                self._failures.labels("runner").inc()

    def _count_starts(self, facts: Mapping[str, Any]) -> None:
        """A backlog's runs are late by intention, and would hide how late all others are."""
        if facts["kind"] == "catch-up":
            self._caught_up.inc(facts["started"])
            return
        for seconds in facts["lateness"]:
            self._lateness.observe(max(0.0, seconds))

    def _tell_budgets(self, shares: Mapping[str, float]) -> None:
        self._budgets.clear()
        for project in sorted(shares, key=lambda project: (-shares[project], project))[:PROJECTS]:
            self._budgets.labels(project).set(shares[project])


_MORE_THAN_COUNTED = 1_001
"""What a range is counted as whose number was left open."""


def _number(counted: int | None) -> int:
    return _MORE_THAN_COUNTED if counted is None else counted


def _counter(registry: CollectorRegistry, name: str, meaning: str, **labels: Iterable[str]) -> Counter:
    """A counter that is there for all these values of its labels."""
    counter = Counter(name, meaning, list(labels), registry=registry)
    for values in product(*labels.values()):
        counter.labels(*values)
    return counter


def _tell_settings(settings: Settings, registry: CollectorRegistry) -> None:
    gauge = Gauge("triggerctl_setting", "What the other metrics are measured against.", ["name"], registry=registry)
    for name in ("execution_qps", "execution_burst", "max_running", "max_catchup_runs_per_loop", "lease_seconds"):
        gauge.labels(name).set(getattr(settings, name))
    gauge.labels("resync_interval").set(settings.resync_interval.total_seconds())


class _LastResync(Collector):
    """How long ago the last resync was; nothing where none ever was, as in a process without the loop."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.at: float | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("triggerctl_resync_age_seconds", "Since the last resync of this process.")
        if self.at is not None:
            family.add_metric([], max(0.0, self._now() - self.at))
        yield family


class _Pool(Collector):
    """What the process uses of its connections to the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "triggerctl_pool_connections", "Connections to the database, by what they do.", labels=["state"]
        )
        for state, number in self._database.pool_use()._asdict().items():
            family.add_metric([state], number)
        yield family
