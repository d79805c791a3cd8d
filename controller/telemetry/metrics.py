"""Prometheus metrics counted from observations; `installation_metrics` reads the others from the database."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from controller.settings import VERSION, Settings
from controller.telemetry.installation_metrics import PROJECTS, InstallationMetrics
from reconcile.observations.observation import (
    AccessRefused,
    AccessThrottled,
    Observation,
    RunnerFailed,
    RunnerUnavailable,
)
from reconcile.observations.passes import (
    BudgetsSurveyed,
    DeadlineMissed,
    DemandSummed,
    FaultFound,
    FeedRead,
    FindingKind,
    LoopFailed,
    LoopResynced,
    PassDecided,
    PassKind,
    ReplicasCounted,
)
from reconcile.observations.runs import AttemptEnded, RunExpired, RunsClaimed, RunSettled, WaitEnded
from reconcile.observations.specs import BacklogDropped
from reconcile.schedule.zones import TZDATA_VERSION
from revisions.outcomes import DeadlineKind, OccurrenceOutcome, RunSource, RunStatus, SkipReason
from revisions.store.database import Database

_LATENESS_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
_TRANSACTION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RUN_BUCKETS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)

OUTCOMES = (
    RunStatus.SUCCEEDED,
    RunStatus.FAILED,
    RunStatus.TIMED_OUT,
    RunStatus.CANCELLED,
    RunStatus.EXPIRED,
)
SOURCES = tuple(RunSource)
CHANGES = ("added", "replaced", "removed")
TRANSACTIONS = ("decide", "claim", "settle")


class Metrics:
    """Registry of one process. `count` subscribes to the observations, `exposition` answers a scrape.

    Labels are bounded. Counters begin at 0 for every known label, so that the first event is an increase, too.
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
        _add_settings(settings, registry)
        self._resynced = _LastResync(self._now)
        registry.register(self._resynced)
        registry.register(_Pool(database))
        registry.register(InstallationMetrics(database))

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
        reasons = (
            OccurrenceOutcome.MISSED,
            OccurrenceOutcome.SUPERSEDED,
            OccurrenceOutcome.CONCURRENCY,
            OccurrenceOutcome.BLACKOUT,
            OccurrenceOutcome.BUDGET,
            OccurrenceOutcome.DENIED,
            SkipReason.RATE,
        )
        self._skips = _counter(registry, "triggerctl_skips", "Occurrences that became no run.", reason=reasons)
        self._transactions = Histogram(
            "triggerctl_transaction_seconds",
            "Duration of the transactions that decide what is due, claim runs and settle attempts.",
            ["kind"],
            buckets=_TRANSACTION_BUCKETS,
            registry=registry,
        )
        for kind in TRANSACTIONS:
            self._transactions.labels(kind)

    def _make_faults(self, registry: CollectorRegistry) -> None:
        self._findings = _counter(
            registry, "triggerctl_findings", "What the scanner found and mended, by kind.", kind=tuple(FindingKind)
        )
        self._missed = _counter(
            registry,
            "triggerctl_deadlines_missed",
            "Deadlines at which no run had succeeded.",
            kind=tuple(DeadlineKind),
        )
        self._failures = _counter(
            registry, "triggerctl_pass_failures", "Passes of loop and runner that failed.", part=("loop", "runner")
        )
        reasons = ("unauthenticated", "forbidden", "throttled")
        self._refused = _counter(
            registry, "triggerctl_access_refused", "Requests that were refused, by reason.", reason=reasons
        )

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format, without those of the database while it cannot be reached."""
        return generate_latest(self.registry)

    def count(self, observation: Observation) -> None:
        """Count an observation."""
        match observation:
            case LoopResynced():
                self._resync.observe(observation.seconds)
                self._resynced.at = self._now()
                self._jobs.set(observation.jobs)
                for change in CHANGES:
                    self._changes.labels(change).inc(len(getattr(observation.changes, change)))
            case FeedRead(lag):
                self._lag.set(lag)
            case PassDecided():
                self._count_pass(observation)
            case BacklogDropped():
                self._skips.labels(OccurrenceOutcome.MISSED).inc(_number(observation.count))
            case DeadlineMissed():
                self._missed.labels(observation.kind).inc()
            case FaultFound(kind):
                self._findings.labels(kind).inc()
            case DemandSummed(asked):
                self._asked.set(asked)
            case BudgetsSurveyed(shares):
                self._set_budgets(shares)
            case ReplicasCounted(number):
                self._replicas.set(number)
            case RunsClaimed():
                self._transactions.labels("claim").observe(observation.seconds)
            case AttemptEnded():
                self._transactions.labels("settle").observe(observation.seconds)
            case RunSettled():
                self._runs.labels(observation.status, observation.run.source).inc()
                self._run_seconds.observe(observation.seconds)
            case WaitEnded(run) if run.status == RunStatus.CANCELLED:
                self._runs.labels(RunStatus.CANCELLED, run.source).inc()
            case RunExpired(run):
                self._runs.labels(RunStatus.EXPIRED, run.source).inc()
            case AccessRefused(reason):
                self._refused.labels(reason).inc()
            case AccessThrottled():
                self._refused.labels("throttled").inc()
            case LoopFailed():
                self._failures.labels("loop").inc()
            case RunnerFailed() | RunnerUnavailable():
                self._failures.labels("runner").inc()

    def _count_pass(self, decided: PassDecided) -> None:
        """Count a pass; a backlog's starts are late by intention and would hide how late the others are."""
        self._transactions.labels("decide").observe(decided.seconds)
        if decided.kind is PassKind.CATCH_UP:
            self._caught_up.inc(decided.started)
        else:
            for seconds in decided.lateness:
                self._lateness.observe(max(0.0, seconds))
        for skip in decided.skips:
            self._skips.labels(SkipReason.RATE if skip.reason == SkipReason.RATE else skip.outcome).inc(
                _number(skip.count)
            )
        for seconds in decided.waited:
            self._rate_wait.observe(seconds)

    def _set_budgets(self, shares: Mapping[str, float]) -> None:
        self._budgets.clear()
        for project in sorted(shares, key=lambda project: (-shares[project], project))[:PROJECTS]:
            self._budgets.labels(project).set(shares[project])


_MORE_THAN_COUNTED = 1_001
"""Number counted for a skipped range that was too long to be counted exactly."""


def _number(counted: int | None) -> int:
    return _MORE_THAN_COUNTED if counted is None else counted


def _counter(registry: CollectorRegistry, name: str, meaning: str, **labels: Iterable[str]) -> Counter:
    """Make a counter that begins at 0 for all these values of its labels."""
    counter = Counter(name, meaning, list(labels), registry=registry)
    for values in product(*labels.values()):
        counter.labels(*values)
    return counter


def _add_settings(settings: Settings, registry: CollectorRegistry) -> None:
    gauge = Gauge("triggerctl_setting", "What the other metrics are measured against.", ["name"], registry=registry)
    for name in ("execution_qps", "execution_burst", "max_running", "max_catchup_runs_per_loop", "lease_seconds"):
        gauge.labels(name).set(getattr(settings, name))
    gauge.labels("resync_interval").set(settings.resync_interval.total_seconds())


class _LastResync(Collector):
    """Gauge of the seconds since the last resync; without a sample until the first one of this process."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.at: float | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("triggerctl_resync_age_seconds", "Since the last resync of this process.")
        if self.at is not None:
            family.add_metric([], max(0.0, self._now() - self.at))
        yield family


class _Pool(Collector):
    """Gauge of the process's connections to the database, by state."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "triggerctl_pool_connections", "Connections to the database, by what they do.", labels=["state"]
        )
        for state, number in self._database.pool_use()._asdict().items():
            family.add_metric([state], number)
        yield family
