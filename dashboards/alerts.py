"""Prometheus alert rules (O-03). They report faults, not skips, and each links to a page of `docs/runbooks`."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from dashboards.runs import FAILED

RUNBOOKS = "docs/runbooks"
"""Prefix of the runbook's address, which the chart replaces."""
HERE = 'job=~".+"'
"""First matcher of every selector: any installation. The chart replaces it by its own release."""
INSTALLATION = "namespace, job"
"""Labels that all series of one installation share. Without Kubernetes the namespace is empty."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Rule that fires when `expr` has been true for `lasts`. Texts may hold Prometheus templates, `{{ }}`."""

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    description: str

    @property
    def page(self) -> str:
        """File name of the runbook: `fires-late.md` for `TriggerctlFiresLate`."""
        words = re.findall(r"[A-Z][a-z]+", self.name.removeprefix("Triggerctl"))
        return "-".join(words).lower() + ".md"


def _series(metric: str, *labels: str) -> str:
    return f"triggerctl_{metric}{{{','.join((HERE, *labels))}}}"


def _highest(metric: str, *labels: str) -> str:
    """Highest value among the processes: each reports the whole database, or its own setting."""
    return f"max by ({INSTALLATION}) ({_series(metric, *labels)})"


def _sum(expr: str, *by: str) -> str:
    return f"sum by ({', '.join((INSTALLATION, *by))}) ({expr})"


def _before(metric: str, *labels: str) -> str:
    return f"max by ({INSTALLATION}) ({_series(metric, *labels)} offset 30m)"


_AGE = _series("resync_age_seconds")
_MISSED, _MISSED_BEFORE = _highest("catchup_oldest_seconds"), _before("catchup_oldest_seconds")
_PENDING, _PENDING_BEFORE = (value("queue_depth", 'state="pending"') for value in (_highest, _before))
_RUNS, _FAILED = _series("runs_total"), _series("runs_total", FAILED)
_LATE = _highest("late_seconds", 'cause=~"rate|undecided"')
_BUCKETS = _sum(f"rate({_series('fire_lateness_seconds_bucket')}[10m])", "le")
_INTERVAL, _QPS = (_highest("setting", f'name="{name}"') for name in ("resync_interval", "execution_qps"))
_POSTGRESQL = _series("build_info", 'database="postgresql"')

ALERTS = (
    Alert(
        "TriggerctlNotReconciling",
        f"min by ({INSTALLATION}) ({_AGE}) > clamp_min(3 * {_INTERVAL}, 300) or absent({_AGE})",
        "2m",
        "critical",
        "No replica reconciles",
        "For minutes no replica compared its alarms with the database, or none can be scraped: nothing is scheduled.",
    ),
    Alert(
        "TriggerctlFiresLate",
        f"{_LATE} > 60 or histogram_quantile(0.95, {_BUCKETS}) > 60",
        "5m",
        "warning",
        "Triggers fire more than a minute late",
        "By {{ $value | humanizeDuration }}. The dashboard `triggerctl: one trigger` tells the cause.",
    ),
    Alert(
        "TriggerctlBacklogGrowing",
        f"{_MISSED} - {_MISSED_BEFORE} > 900 and {_MISSED_BEFORE} > 0"
        f" or {_PENDING} > {_PENDING_BEFORE} and {_highest('queue_oldest_seconds')} > 600",
        "15m",
        "warning",
        "More waits than half an hour ago, and the oldest does not get done",
        "What is to be caught up, or runs that wait for a worker, come faster than they go.",
    ),
    Alert(
        "TriggerctlRunsFail",
        f"{_sum(f'rate({_FAILED}[15m])')} / {_sum(f'rate({_RUNS}[15m])')} > 0.25"
        f" and {_sum(f'increase({_FAILED}[15m])')} > 5",
        "5m",
        "warning",
        "{{ $value | humanizePercentage }} of the runs fail",
        "For good, after their retries. Five in a row deactivate a trigger.",
    ),
    Alert(
        "TriggerctlTriggersDeactivated",
        _highest("triggers_deactivated", 'reason="failures"') + " > 0",
        "0s",
        "warning",
        "{{ $value }} triggers were deactivated after failures",
        "They stay so until somebody activates, deploys or deletes them; `triggerctl list --inactive` shows why.",
    ),
    Alert(
        "TriggerctlAskedRateHigh",
        f"{_highest('asked_rate')} > 0.7 * ({_QPS} > 0)",
        "15m",
        "warning",
        "The schedules ask for more than 70 % of execution_qps",
        "{{ $value | humanize }} starts a second: a burst makes triggers late and is not made good any more.",
    ),
    Alert(
        "TriggerctlListenerDown",
        f"{_series('listener_connected')} == 0 and on ({INSTALLATION}, instance) {_POSTGRESQL}",
        "2m",
        "warning",
        "{{ $labels.instance }} does not hear the database's notices",
        "Changes are found by polling, runs a second later.",
    ),
    Alert(
        "TriggerctlBudgetNearEnd",
        f"max by ({INSTALLATION}, project) ({_series('budget_used_ratio')}) > 0.9",
        "0s",
        "warning",
        "A trigger of {{ $labels.project }} has used {{ $value | humanizePercentage }} of its budget",
        "`triggerctl doctor` names it. At 100 % it rests until its period ends.",
    ),
    Alert(
        "TriggerctlDeadlineMissed",
        _sum(f"increase({_series('deadlines_missed_total')}[15m])", "kind") + " > 0",
        "0s",
        "warning",
        "A deadline ({{ $labels.kind }}) came, and no run had succeeded",
        "`triggerctl doctor` names the trigger, and so does the log, under `trigger.deadline_missed`.",
    ),
    Alert(
        "TriggerctlQuarantined",
        _highest("quarantined") + " > 0",
        "15m",
        "warning",
        "{{ $value }} triggers cannot be decided",
        "They are tried again, ever more rarely; `triggerctl doctor` names them.",
    ),
    Alert(
        "TriggerctlPassesFail",
        _sum(f"increase({_series('pass_failures_total')}[10m])", "part") + " > 5",
        "5m",
        "warning",
        "The {{ $labels.part }} fails again and again",
        "The log says why, under `{{ $labels.part }}.failed`.",
    ),
)


def rules(alerts: Sequence[Alert]) -> str:
    """Return the text of a Prometheus rules file."""
    group: dict[str, Any] = {"name": "triggerctl", "rules": [_rule(alert) for alert in alerts]}
    yaml, text = YAML(), io.StringIO()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump({"groups": [group]}, text)
    return text.getvalue()


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{RUNBOOKS}/{alert.page}",
        },
    }
